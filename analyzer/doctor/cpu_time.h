// CPU time samples by the object that contains the code.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analyzer/doctor/finding.h"

namespace dlhook::analyzer::inline doctor {

struct Trial;

constexpr int64_t kSampleNs = 5 * 1000 * 1000;  // of a thread's CPU time

struct CpuTime {
  enum class Kind {
    kSeen,    // a library whose calls or log dlhook records, or one that works for such a library
    kPython,  // the interpreter
    kSystem,  // the C library, the loader, runtimes of languages and threads: they work for their callers
    kUnseen,
  };
  Kind kind = Kind::kUnseen;
  std::string path;  // empty: code generated at run time
  int64_t samples = 0;
  std::set<std::string> through = {};  // of a library that works for those: the recorded ones that need it …
  std::set<std::string> others = {};   // … and those that are not recorded
};

// One entry per object, most samples first. `seen`: paths of libraries that dlhook sees; the empty path stands for code
// generated at run time. `recorded_ns`: in recorded calls.
std::vector<CpuTime> DivideCpuTime(const Trial& trial, const std::set<std::string>& seen, int64_t recorded_ns);

// The share of libraries that dlhook sees; nullopt: too few samples.
std::optional<int> SeenPercent(const std::vector<CpuTime>& times);

void AddCpuTimeFindings(const std::vector<CpuTime>& times, std::vector<Finding>* findings);

}  // namespace dlhook::analyzer::doctor
