// What Linux tells of a machine in files: how fast its processors run, and how long a quota stopped a process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

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

}  // namespace dlhook::analyzer::io
