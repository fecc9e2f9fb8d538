// What the answer says of a run before its numbers, as sentences: for the terminal and the page.
#pragma once

#include "analyzer/work/step_facts.h"

namespace dlhook::analyzer::inline answer {

// "lenet: train.py, PyTorch 2.13.0, CPU (2 processors), 1 process, 2 threads, 3.21 s, 1.20 s of it before the first step,
// memory up to 340 MiB."
std::string WhatRan(const StepFacts& facts);
// The times of the steps that the answer speaks of: at least one.
struct TimesOfSteps {
  std::vector<int64_t> durations_ns;  // where operations are recorded in windows only: of the steps outside of them
  double mean_ns = 0;
};
TimesOfSteps TimesOf(const StepFacts& facts);
// Of all ranks together, as if each had samples of its own, else of one process; where the host runs ahead of the GPU at the GPU's pace. 0: not known.
double SamplesPerSecond(const StepFacts& facts);
// " These are steps of different programs (a.py 208 ms, b.py 1.10 s), and …"; empty: of one program.
std::string ProgramsSentence(const TraceModel& model, const ComparedSteps& steps);
// "A training step takes 4.55 ms, mean of 197 of 200 (without …); the middle half take …"
std::string HowLong(const StepFacts& facts);
// " Batch 64: 14066 samples/s.", of steps that take so long; " 2048 rows (samples, or their tokens): …" where only products
// tell; "" if nothing does. Of ranks the sum and each. `whole_per_second`: with all that lies between steps; 0: not known.
std::string BatchSentence(const ComparedSteps& steps, double step_ns, bool are_ranks = false,
                          double whole_per_second = 0);
// Whether each of its processes is a rank of one job.
bool AreRanks(const TraceModel& model, const ComparedSteps& steps);
// "Peak of tensors on gpu 0: 3.2 GiB, in step 3, backward, at …; the layer that keeps most for backward: layer4.1, 1.1 GiB.";
// empty: not recorded.
std::string MemorySentence(const StepFacts& facts);
// How the time of steps and that of their GPU work compare, in the first process; per steady step.
struct GpuPace {
  // Until the host asks for the work with which the step ends; 0: most steps do not end with GPU work.
  double asked_ns = 0;
  double work_ns = 0;  // from the end of one step's work to that of the next one's; 0: most do not begin before it
};
GpuPace PaceOf(const StepFacts& facts);
// Whether the GPU's work decides how long a step takes: the host asks for it much faster than it is done.
bool IsOfGpu(const StepFacts& facts, const GpuPace& pace);
// Of which time a step's is, where the host's and the GPU's differ; else empty.
std::string PaceSentence(const StepFacts& facts, const GpuPace& pace);
// How busy GPUs are, how well they are used, and what is not known of their work.
std::vector<std::string> GpuRemarks(const StepFacts& facts);
// What belongs to the parts of a step (PartsOfStep) and is none of them: waiting for a processor, how busy GPUs are.
std::vector<std::string> StepRemarks(const StepFacts& facts);
// "3 steps".
std::string Many(size_t count, absl::string_view one);
// How long nothing of a process was recorded in this time.
int64_t StoppedNs(const TraceModel& model, ProcessIndex process, int64_t start_ns, int64_t end_ns);

}  // namespace dlhook::analyzer::answer
