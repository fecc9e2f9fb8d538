// How busy the machine was during the compared steps, and how much of their time that took.
#ifndef DLHOOK_ANALYZER_WORK_MACHINE_LOAD_H_
#define DLHOOK_ANALYZER_WORK_MACHINE_LOAD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/model/trace_model.h"
#include "analyzer/steps/compared_steps.h"
#include "analyzer/work/noise.h"

namespace dlhook::analyzer::inline work {

// Memory that a process asks the kernel for, per step.
struct PageFaults {
  double count = 0;           // of the first thread, without those that read from a disk
  double system_ns = 0;       // CPU time of that thread in the kernel
  double resident_bytes = 0;  // by which the process grew
  uint32_t cost_ns = 0;       // of a page that is allocated, touched and freed; 0: none of this is known
};

// Per step, or for the whole run of one process if there are no steps (then without blocks).
struct MachineLoad {
  bool is_known = false;  // the launcher took samples, and enough of them during the steps
  double cpu_ns = 0;      // of all threads of the process
  double first_thread_cpu_ns = 0;
  double waiting_ns = 0;    // in which its first thread was runnable, but had no processor
  double throttled_ns = 0;  // in which its quota of processor time was used up, over all processors; part of waiting_ns
  Samples cpu_samples, waiting_samples;
  double runnable = 0;  // runnable threads on the machine, mean over samples
  uint32_t processors = 0;
  uint32_t threads = 0;        // of the process; median
  uint32_t frequency_mhz = 0;  // of the processors, mean over samples; 0: not known
  PageFaults faults;           // of a single run

  // "CPU time 1.80 ms, waiting for a processor 0.21 ms a step; 2.9 threads wanted the machine's 2 processors".
  std::string Text() const;
};

// The steps; if there are none and the run is that of one process, all of its time as one, in `run`.
const ComparedSteps& StepsOrRun(const TraceModel& model, const ComparedSteps& steps, ComparedSteps* run);

// `blocks`: the same steps.
MachineLoad FindLoad(const TraceModel& model, const ComparedSteps& compared, const std::vector<ComparedSteps>& blocks);

}  // namespace dlhook::analyzer::work

#endif  // DLHOOK_ANALYZER_WORK_MACHINE_LOAD_H_
