// Counter readings of one process trace -> model.counters, model.states.
#pragma once

#include <tuple>

#include "analyzer/model/oddities.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/reader/clock_map.h"
#include "analyzer/reader/python_builder.h"
#include "analyzer/reader/staging.h"
#include "proto/call.pb.h"

namespace dlhook::analyzer::inline reader {

class CounterBuilder {
 public:
  // Names are looked up in `names` immediately, because the next Reset invalidates their ids.
  void Add(const trace::CounterBatch& batch, PythonBuilder* names, Oddities* oddities);
  // Of a thread without recorded calls.
  void AddThreadName(uint32_t tid, std::string name) { thread_names_[tid] = std::move(name); }

  // Appends the series to the model, by thread. `threads`: by id in the trace. A thread that the sampler saw before its
  // first recorded call is known by its tid from then on: its series are merged. Afterwards values never decrease, and
  // differences are at most what is left of `budget`, which all processes share, so that sums in a report can't
  // overflow.
  void Finish(const ClockMap& clock, ProcessIndex process, const std::map<uint32_t, ThreadIndex>& threads,
              TimeBudget* budget, TraceModel* model, Oddities* oddities);

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

  std::map<Key, Readings> Join(const std::map<uint32_t, ThreadIndex>& threads, const TraceModel& model);

  std::map<Key, Readings> readings_;
  std::map<uint32_t, std::string> thread_names_;  // by tid
};

}  // namespace dlhook::analyzer::reader
