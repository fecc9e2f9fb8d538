// Samples the load of a process that the launcher drains, and of its machine: the LoadSamples of its trace. Only the
// launcher takes them: in the recorded process they would be system calls that its sandbox might not allow.
#pragma once

#include <cstdint>
#include <optional>

#include "analyzer/io/machine_files.h"
#include "preload/drain/drain.h"
#include "preload/format/session.h"

namespace dlhook::analyzer::inline io {

class LoadSampler {
 public:
  // Takes no samples for a process in another pid namespace.
  explicit LoadSampler(const SessionHeader& session);

  // Takes a sample if one is due and the process exists.
  void Step(Drain& drain);

 private:
  uint32_t pid_ = 0;  // 0: no samples
  ClockKind clock_ = ClockKind::kUnknown;
  uint64_t second_ticks_ = 0;
  uint64_t first_ticks_ = 0;
  uint64_t next_ticks_ = 0;
  uint32_t processors_ = 0;
  uint32_t frequency_mhz_ = 0;
  uint64_t next_frequency_ticks_ = 0;
  std::optional<ThrottledTime> throttled_;
};

}  // namespace dlhook::analyzer::io
