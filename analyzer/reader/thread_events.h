// What one process trace has of its threads beside calls and scopes.
#pragma once

#include "analyzer/model/oddities.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/reader/call_attributes.h"
#include "analyzer/reader/clock_map.h"
#include "analyzer/reader/staging.h"
#include "proto/call.pb.h"

namespace dlhook::analyzer::inline reader {

// Samples of CPU time -> model.samples.
class SampleBuilder {
 public:
  // Ids are looked up immediately, because the next Reset invalidates them.
  void Add(const trace::SampleBatch& batch, const OperandBuilder& addresses, NativeStackBuilder* native_stacks,
           PythonBuilder* python, Oddities* oddities);

  // Appends the samples to the model, whose threads, calls and scopes of this process are complete. Returns the times
  // of the first and the last one; first > last: there are none.
  std::pair<int64_t, int64_t> Finish(const ClockMap& clock, const ThreadIndices& threads, TimeBudget* budget,
                                     TraceModel* model, Oddities* oddities);

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

  void Finish(const ClockMap& clock, const ThreadIndices& threads, TimeBudget* budget, TraceModel* model,
              Oddities* oddities);

 private:
  std::vector<Wait> waits_;  // with ticks for times, and ids in the trace for threads
};

// Counter readings -> model.counters, model.states.
class CounterBuilder {
 public:
  // Names are looked up in `names` immediately, because the next Reset invalidates their ids.
  void Add(const trace::CounterBatch& batch, PythonBuilder* names, Oddities* oddities);
  // Of a thread without recorded calls.
  void AddThreadName(uint32_t tid, std::string name) { thread_names_[tid] = std::move(name); }

  // Appends the series to the model, by thread. A thread that the sampler saw before its
  // first recorded call is known by its tid from then on: its series are merged. Afterwards values never decrease, and
  // differences are at most what is left of `budget`, which all processes share, so that sums in a report can't
  // overflow.
  void Finish(const ClockMap& clock, ProcessIndex process, const ThreadIndices& threads, TimeBudget* budget,
              TraceModel* model, Oddities* oddities);

 private:
  struct Key {
    uint32_t thread = 0;  // as trace::CounterBatch.thread_id; in Finish a ThreadIndex
    uint32_t tid = 0;
    int kind = 0;
    int source = 0;
    bool is_multiplexed = false;
    std::vector<NameIndex> names;
    auto Fields() const { return std::tie(thread, tid, kind, source, is_multiplexed, names); }
    bool operator<(const Key& other) const { return Fields() < other.Fields(); }
  };
  struct Readings {
    std::vector<uint64_t> ticks;
    std::vector<uint64_t> value;  // names.size() per reading
    std::vector<uint64_t> enabled_ns;
    std::vector<uint64_t> running_ns;
  };

  std::map<Key, Readings> Join(const ThreadIndices& threads, const TraceModel& model);

  std::map<Key, Readings> readings_;
  std::map<uint32_t, std::string> thread_names_;  // by tid
};

// Allocations -> model.memory.
class MemoryBuilder {
 public:
  void Add(const trace::MemoryBatch& batch, Oddities* oddities);

  // Appends them to the model, which must have the threads' scopes.
  void Finish(const ClockMap& clock, const ThreadIndices& threads, TraceModel* model);

 private:
  uint64_t all_bytes_ = 0;
  std::vector<MemoryEvent> events_;  // with ticks for times, and ids in the trace for threads
};

}  // namespace dlhook::analyzer::reader
