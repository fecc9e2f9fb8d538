// What Linux tells of a machine in files: how fast its processors run, their energy, and how long a quota stopped a process.
#pragma once

#include "analyzer/model/prelude.h"
#include "preload/drain/drain.h"
#include "preload/format/session.h"

namespace dlhook::analyzer::inline io {

// The first 4 KiB of a file; empty if it can't be read.
std::string ReadSmallFile(const std::string& path);

// What follows `key`, and perhaps a colon, in the first line that begins with it: "Tgid" of /proc/PID/status. Empty: there
// is none.
std::string ValueIn(const std::string& path, absl::string_view key);

// Mean of the processors' current frequencies (cpufreq) in MHz; at most 16 of them are read, spread evenly. 0: not
// known, as in most virtual machines. `root`: "" outside of tests.
uint32_t FrequencyMhz(const std::string& root);

// Threads of a process that are stopped because its control groups used up their quota of processor time (cpu.max,
// cpu.cfs_quota_us).
class ThrottledTime {
 public:
  // The process's control groups, versions 1 and 2, are looked up once: processes rarely change them.
  ThrottledTime(const std::string& root, uint32_t pid);

  // Since a group was made, over all its processors, in ns: of the process's group or an outer one, whichever was
  // stopped for longer. 0: never, or not known.
  uint64_t ReadNs() const;

 private:
  std::vector<std::string> files_;  // cpu.stat of the groups
};

// The energy that processors have used (RAPL), as the kernel's powercap tells it.
class PackageEnergy {
 public:
  // `root`: usually /sys/class/powercap. An error says why it can't be read.
  static absl::StatusOr<PackageEnergy> Open(const std::string& root);

  // Of all packages since it was opened; counters wrap, so it is to be read every few minutes.
  double Joules();

 private:
  struct Zone {
    std::string file;
    uint64_t range_uj = 0, last_uj = 0;
  };
  std::vector<Zone> zones_;
  double joules_ = 0;
};

// Samples the load of a process that the launcher drains, and of its machine: the LoadSamples of its trace. Only the
// launcher takes them: in the recorded process they would be system calls that its sandbox might not allow.
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
