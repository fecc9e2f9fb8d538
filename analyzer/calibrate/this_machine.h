// The properties of this machine that affect its peaks.
#pragma once

#include "analyzer/model/process_info.h"
#include "analyzer/peaks/calibration.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline calibrate {

ProcessorInfo ThisProcessorInfo();
std::vector<int> AllowedProcessors();                                      // numbers of those available to this process
std::optional<std::vector<int>> ProcessorNumbers(absl::string_view list);  // "0-1,3"; null: another text
// The sets of processors for measurements: the first one alone, then all.
std::vector<std::vector<int>> OneAndAll(const std::vector<int>& processors);

struct Caches {
  uint64_t l2_bytes = 0;    // of one core; 0: not in sysfs
  uint64_t l3_bytes = 0;    // of one cache
  uint32_t l3_sharers = 0;  // of the available processors, those that share it
  uint32_t l3_count = 0;    // number of L3 caches of the available processors
};
Caches ReadCaches(const std::vector<int>& processors, const std::string& root = "");  // `root`: of sysfs, for tests

// Times of this process's threads: on a processor, and runnable without one.
struct RunTime {
  uint64_t running_ns = 0;
  uint64_t waiting_ns = 0;
};
RunTime ReadRunTime();

// Parts of these processors that may suit a program better than all of them, by their list: one of each core, where cores have
// several; of the NUMA nodes, where there are several, that with most of them. `root`: of sysfs, for tests.
std::map<std::string, std::vector<int>> Pinnings(const std::vector<int>& processors, const std::string& root = "");

// `task`: 0 is the calling thread. False: refused.
bool RunOn(const std::vector<int>& processors, pid_t task = 0);

// All measurements of `dlhook calibrate`, and their tables.
struct CalibrateOptions {
  std::vector<std::string> libraries;  // only these; empty: those found
  std::string python;                  // whose packages are searched, too; empty: the one in the PATH
};

// The processor, microcode and processors of this machine: the key of a calibration.
Calibration DescribeMachine();

Calibration Calibrate(const CalibrateOptions& options);

// Measured and missing values.
Table CalibrationTable(const Calibration& calibration);

}  // namespace dlhook::analyzer::calibrate
