// What one process trace has of its threads beside calls and scopes.
#pragma once

#include "analyzer/model/oddities.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/reader/call_attributes.h"
#include "analyzer/reader/clock_map.h"
#include "analyzer/reader/python_builder.h"
#include "analyzer/reader/staging.h"
#include "proto/call.pb.h"

namespace dlhook::analyzer::inline reader {

// Samples of CPU time -> model.samples.
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

// Where threads were blocked -> model.waits.
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

// Allocations -> model.memory.
class MemoryBuilder {
 public:
  void Add(const trace::MemoryBatch& batch, Oddities* oddities);

  // Appends them to the model, which must have the threads' scopes. `threads`: by id in the trace.
  void Finish(const ClockMap& clock, const std::map<uint32_t, ThreadIndex>& threads, TraceModel* model);

 private:
  uint64_t all_bytes_ = 0;
  std::vector<MemoryEvent> events_;  // with ticks for times, and ids in the trace for threads
};

}  // namespace dlhook::analyzer::reader
