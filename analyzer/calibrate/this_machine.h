// The machine that this runs on, as far as its peaks depend on it.
#ifndef DLHOOK_ANALYZER_CALIBRATE_THIS_MACHINE_H_
#define DLHOOK_ANALYZER_CALIBRATE_THIS_MACHINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/model/process_info.h"

namespace dlhook::analyzer::inline calibrate {

ProcessorInfo ThisProcessorInfo();
std::string Microcode();               // empty: the kernel tells none
std::vector<int> AllowedProcessors();  // numbers of those that this process may run on
// What is measured on: the first one alone, then all.
std::vector<std::vector<int>> OneAndAll(const std::vector<int>& processors);
std::string UtcNow();  // "2026-11-23T05:40:00Z"

struct Caches {
  uint64_t l2_bytes = 0;    // of one core; 0: sysfs shows none
  uint64_t l3_bytes = 0;    // of one of them
  uint32_t l3_sharers = 0;  // of the processors that may be used, those that share it
  uint32_t l3_count = 0;    // L3 caches that the processors that may be used have together
};
Caches ReadCaches(const std::vector<int>& processors);

// What the threads of this process did: time on a processor, and time in which they could have run and had none.
struct RunTime {
  uint64_t running_ns = 0;
  uint64_t waiting_ns = 0;
};
RunTime ReadRunTime();

// Of the calling thread. False: refused.
bool RunOn(const std::vector<int>& processors);

}  // namespace dlhook::analyzer::calibrate

#endif  // DLHOOK_ANALYZER_CALIBRATE_THIS_MACHINE_H_
