// Profiles of XLA in one process trace -> scopes of its threads, and calls for the products among them.
#pragma once

#include "analyzer/model/oddities.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/reader/clock_map.h"
#include "analyzer/reader/python_builder.h"
#include "analyzer/reader/staging.h"
#include "analyzer/xla/xla_profiles.h"
#include "proto/trace.pb.h"

namespace dlhook::analyzer::inline reader {

class XlaBuilder {
 public:
  void Add(const trace::CompilerProfile& piece, Oddities* oddities);

  // Call after the last packet. Adds the operations to the model. `clock`: already on the run's axis.
  void Finish(ProcessIndex process, const ClockMap& clock, const std::vector<trace::ClockSample>& samples,
              NameTable* names, TraceModel* model, Oddities* oddities);

  struct Thread {
    int64_t id = 0;  // XlaProfiles::ThreadId
    std::string name;
    std::vector<RecordedScope> scopes;
    std::vector<StagedCall> calls;  // of products
  };
  std::vector<Thread>& threads() { return threads_; }
  const XlaProfiles& profiles() const { return profiles_; }
  const std::vector<std::pair<uint64_t, uint64_t>>& windows() const { return windows_; }  // in ticks

 private:
  struct Whole {
    trace::CompilerProfile head;
    std::string bytes;
  };
  void Decode(const Whole& whole, Oddities* oddities);

  XlaProfiles profiles_;
  std::map<uint32_t, Whole> wholes_;  // by number
  uint64_t total_bytes_ = 0;
  std::vector<Thread> threads_;
  std::vector<std::pair<uint64_t, uint64_t>> windows_;
};

// XLA's NVTX ranges, which tell what it runs on GPUs -> scopes of its operations, as XlaBuilder makes them of profiles. Of one
// process, whose scopes are those from `first` on. `programs` may have those that ran.
void ReadXlaRanges(size_t first, const XlaProfiles& programs, NameTable* names, TraceModel* model);

}  // namespace dlhook::analyzer::reader
