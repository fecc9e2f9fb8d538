// Where threads of one process trace were blocked -> model.waits.
#ifndef DLHOOK_ANALYZER_READER_WAIT_BUILDER_H_
#define DLHOOK_ANALYZER_READER_WAIT_BUILDER_H_

#include <cstdint>
#include <map>
#include <vector>

#include "analyzer/model/oddities.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/reader/clock_map.h"
#include "analyzer/reader/native_stack_builder.h"
#include "analyzer/reader/operand_builder.h"
#include "analyzer/reader/python_builder.h"
#include "analyzer/reader/time_budget.h"
#include "proto/call.pb.h"

namespace dlhook::analyzer::inline reader {

class WaitBuilder {
 public:
  // Ids are looked up immediately, because the next Reset invalidates them.
  void Add(const trace::WaitBatch& batch, const OperandBuilder& addresses, NativeStackBuilder* native_stacks,
           PythonBuilder* python, Oddities* oddities);

  // Appends them to the model. `threads`: by id in the trace.
  void Finish(const ClockMap& clock, const std::map<uint32_t, ThreadIndex>& threads, TimeBudget* budget,
              TraceModel* model, Oddities* oddities);

 private:
  struct Wait {
    uint64_t start_ticks;
    uint64_t ticks;
    uint32_t thread_id;
    BlockedIn blocked_in;
    FrameIndex frame;
    StackIndex python_stack;
  };

  std::vector<Wait> waits_;
};

}  // namespace dlhook::analyzer::reader

#endif  // DLHOOK_ANALYZER_READER_WAIT_BUILDER_H_
