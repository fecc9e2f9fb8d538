// Samples of CPU time of one process trace -> model.samples.
#ifndef DLHOOK_ANALYZER_READER_SAMPLE_BUILDER_H_
#define DLHOOK_ANALYZER_READER_SAMPLE_BUILDER_H_

#include <cstdint>
#include <map>
#include <utility>
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

class SampleBuilder {
 public:
  // Ids are looked up immediately, because the next Reset invalidates them.
  void Add(const trace::SampleBatch& batch, const OperandBuilder& addresses, NativeStackBuilder* native_stacks,
           PythonBuilder* python, Oddities* oddities);

  // Appends the samples to the model, whose threads, calls and scopes of this process are complete. `threads`: by id in
  // the trace. Returns the times of the first and the last one; first > last: there are none.
  std::pair<int64_t, int64_t> Finish(const ClockMap& clock, const std::map<uint32_t, ThreadIndex>& threads,
                                     TimeBudget* budget, TraceModel* model, Oddities* oddities);

 private:
  struct Sample {
    uint64_t ticks;
    uint64_t cpu_ns;
    FrameIndex frame;
    StackIndex python_stack;
    bool is_in_call;
    SampleState state;
  };

  std::map<uint32_t, std::vector<Sample>> samples_;  // by thread_id
};

}  // namespace dlhook::analyzer::reader

#endif  // DLHOOK_ANALYZER_READER_SAMPLE_BUILDER_H_
