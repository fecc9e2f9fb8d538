// How busy the machine was during the compared steps, how much of their time that took, and whose threads took it.
#pragma once

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

// Threads of all processes of the run, from the first step to the last.
struct OwnThreads {
  double running = 0;  // mean number
  // Means over the time in which the processes' first threads waited for a processor.
  std::optional<double> wanted;  // that ran or waited; not known where the launcher did not look at threads
  double ran = 0;                // of these
  double others = 0;             // of other programs that want one of this program's processors
  uint32_t threads = 0;          // that wanted a processor for a tenth of that time and more …
  uint32_t processes = 0;        // … in so many processes
};

// Per step, or, if there are none, for the whole run, mean of its processes (then without blocks).
struct MachineLoad {
  bool is_known = false;  // the launcher took samples, and enough of them during the steps
  double cpu_ns = 0;      // of all threads of the process
  double first_thread_cpu_ns = 0;
  double waiting_ns = 0;    // in which its first thread was runnable, but had no processor
  double throttled_ns = 0;  // in which its quota of processor time was used up, over all processors; part of waiting_ns
  Samples cpu_samples, waiting_samples;
  double runnable = 0;  // runnable threads on the machine, mean over samples
  uint32_t processors = 0;
  uint32_t allowed = 0;        // of the processors, for this program
  uint32_t threads = 0;        // of the process; median
  uint32_t frequency_mhz = 0;  // of the processors, mean over samples; 0: not known
  PageFaults faults;           // of a single run
  OwnThreads own;

  // Parts of waiting_ns: for other programs, for its own program's threads. Together 1, or 0: not told apart.
  double OthersPart() const;
  double OwnPart() const;

  // "CPU time 1.80 ms, waiting for a processor 0.21 ms a step; 2.9 threads competed for the machine's 2 processors".
  std::string Text() const;
};

// The steps; if there are none, all the time of each process of which there are samples as one, in `run`.
const ComparedSteps& StepsOrRun(const TraceModel& model, const ComparedSteps& steps, ComparedSteps* run);

// `blocks`: the same steps.
MachineLoad FindLoad(const TraceModel& model, const ComparedSteps& compared, const std::vector<ComparedSteps>& blocks);

}  // namespace dlhook::analyzer::work
