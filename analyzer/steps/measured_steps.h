// The steps of a run as found from calls alone: times, phases and counts.
#pragma once

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline steps {

// kWarmUp: the first steps, while they do more than the others (create primitives, try algorithms, pack weights) or
// take more than 1.5 times as long. kSteady: the same calls as most steps. kOther: other calls, e.g. evaluation, a
// smaller last batch, a checkpoint.
enum class Phase { kWarmUp, kSteady, kOther };
const char* PhaseName(Phase phase);

struct MeasuredStep {
  int64_t start_ns = 0;
  int64_t end_ns = 0;  // start of the next one; for the last one, end of its last call
  Phase phase = Phase::kOther;
  int64_t calls = 0;      // executions that began in it, including nested ones
  int64_t creations = 0;  // of oneDNN primitives
  int64_t cache_misses = 0;
  int64_t trials = 0;    // executions that were only trials
  int64_t launches = 0;  // of kernels and of CUDA graphs
  int64_t copies = 0;    // between host and GPU or inside it, without memset
  int64_t copied_bytes = 0;
  int64_t in_library_ns = 0;  // time during which any call of the process (or thread) was active
  int64_t duration_ns() const { return end_ns - start_ns; }
};

// A first step that takes longer than this many steady ones is warm-up.
constexpr double kWarmUpFactor = 1.5;

// The steps of one process, or of one thread if threads repeat independently.
struct MeasuredTrack {
  ProcessIndex process = 0;
  ThreadIndex thread = kNone;  // kNone: all threads of the process together
  std::vector<MeasuredStep> steps;
  int64_t calls_before = 0;   // calls before the first step
  size_t period = 0;          // calls of a regular step, without nested ones
  double regular_calls = 0;   // calls in regular steps
  bool by_kind_only = false;  // shapes change from step to step: found by kind and direction alone

  int64_t Count(Phase phase) const;
  // Without the last step, if there are others of this phase: it ends with its last call and seems shorter.
  std::vector<int64_t> Durations(Phase phase) const;
};

// Tracks of processes (and threads) in which something repeats, most time first. Aggregated calls have no place in time
// and are ignored.
std::vector<MeasuredTrack> FindStepsByCalls(const TraceModel& model);

// Fills in counts and in_library_ns of steps with known bounds (ascending and disjoint), and the calls before them.
void MeasureTrack(const TraceModel& model, MeasuredTrack& track);

struct Quartiles {
  int64_t lower = 0;
  int64_t median = 0;
  int64_t upper = 0;
};
// Type 7 of Hyndman and Fan, "Sample quantiles in statistical packages" (1996): linear interpolation, numpy's default.
Quartiles QuartilesOf(std::vector<int64_t> values);
// `part`: from 0 to 1; `values`: ascending, not empty.
int64_t QuantileOfSorted(const std::vector<int64_t>& values, double part);

}  // namespace dlhook::analyzer::steps
