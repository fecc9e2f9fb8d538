// The iterations of a run: the finder's steps, with times, phases and counts.
#ifndef DLHOOK_ANALYZER_STEPS_ITERATIONS_H_
#define DLHOOK_ANALYZER_STEPS_ITERATIONS_H_

#include <cstdint>
#include <vector>

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline steps {

// kWarmUp: the first iterations, as long as they do more than the others (prepare primitives, try
// algorithms, pack weights) or take more than half as long again. kSteady: the calls that most
// iterations make. kOther: other calls, e.g. evaluation, the last smaller batch, a checkpoint in
// between.
enum class Phase { kWarmUp, kSteady, kOther };
const char* PhaseName(Phase phase);

struct Iteration {
  int64_t start_ns = 0;
  int64_t end_ns = 0;  // start of the next one; of the last one: end of its last call
  Phase phase = Phase::kOther;
  int64_t calls = 0;      // executions that began in it, nested ones too
  int64_t creations = 0;  // of oneDNN primitives
  int64_t cache_misses = 0;
  int64_t trials = 0;    // executions that only tried an algorithm
  int64_t launches = 0;  // of kernels and of CUDA graphs
  int64_t copies = 0;    // between host and GPU or inside it; without memset
  int64_t copied_bytes = 0;
  int64_t in_library_ns = 0;  // some call of the process (or thread) was active
  int64_t duration_ns() const { return end_ns - start_ns; }
};

// The iterations of one process, or of one thread where threads repeat independently of each other.
struct IterationTrack {
  ProcessIndex process = 0;
  ThreadIndex thread = kNone;  // kNone: all threads of the process together
  std::vector<Iteration> iterations;
  int64_t calls_before = 0;   // calls before the first iteration
  size_t period = 0;          // calls of a regular iteration, without those inside others
  double regular_calls = 0;   // calls of regular iterations
  bool by_kind_only = false;  // shapes change from step to step: found by kind and direction alone

  int64_t Count(Phase phase) const;
  // Without the last iteration's, if there are others of this phase: it is cut short at its last
  // call.
  std::vector<int64_t> Durations(Phase phase) const;
};

// Tracks of processes (and threads) in which something repeats, those with most iterations' time
// first. Aggregated calls have no places in time and take no part.
std::vector<IterationTrack> FindIterations(const TraceModel& model);

// Fills counts and in_library_ns of iterations whose bounds are known (ascending and disjoint), and the calls before them.
void MeasureIterations(const TraceModel& model, IterationTrack& track);

struct Quartiles {
  int64_t lower = 0;
  int64_t median = 0;
  int64_t upper = 0;
};
// Type 7 of Hyndman and Fan, "Sample quantiles in statistical packages" (1996): linear
// interpolation, as numpy does by default.
Quartiles QuartilesOf(std::vector<int64_t> values);
// `part` from 0 to 1; `values` ascending, not empty.
int64_t QuantileOfSorted(const std::vector<int64_t>& values, double part);

}  // namespace dlhook::analyzer::steps

#endif  // DLHOOK_ANALYZER_STEPS_ITERATIONS_H_
