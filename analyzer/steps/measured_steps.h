// Steps as found from calls alone, and what the calls of steps are: times and counts.
#pragma once

#include "analyzer/layers/op_facts.h"
#include "analyzer/steps/phases.h"

namespace dlhook::analyzer::inline steps {

// kSteady: regular steps of the track's main kind (training if there is any, else inference). kOther: others, e.g.
// evaluation, a smaller last batch, a checkpoint.
enum class Phase { kWarmUp, kSteady, kOther };
const char* PhaseName(Phase phase);

struct MeasuredStep {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  Phase phase = Phase::kOther;
  int64_t calls = 0;      // executions that began in it, including nested ones
  int64_t creations = 0;  // of oneDNN primitives
  int64_t trials = 0;     // executions that were only trials
  int64_t launches = 0;   // of kernels and of CUDA graphs
  int64_t copies = 0;     // between host and GPU or inside it, without memset
  int64_t copied_bytes = 0;
  int64_t in_library_ns = 0;  // time during which any call of the process (or thread) was active
  int64_t duration_ns() const { return end_ns - start_ns; }
};

struct MeasuredTrack {
  ProcessIndex process = 0;
  ThreadIndex thread = kNone;
  bool by_kind_only = false;  // as in StepTrack
  std::vector<MeasuredStep> steps;
  int64_t calls_before = 0;  // calls before the first step

  int64_t Count(Phase phase) const;
};

// One for each step of the track, in the same order.
MeasuredTrack MeasureSteps(const TraceModel& model, const StepTrack& steps);

// The track's main kind: training, else inference; kUnknown: it has neither.
StepKind MainKind(const StepTrack& track);

// Tracks of processes (and threads) in which something repeats, most time first: steps of an unknown kind that last until
// the next one begins, the last one until its last call ends. Regular are those with the same calls as most. Aggregated
// calls have no place in time and are ignored.
std::vector<StepTrack> FindStepsByCalls(const TraceModel& model);

// Loops inside a layer: the same products repeated image by image, or time step by time step.

// For each of `calls` (matrix products of one thread, in order of time) the index in `calls` of the product that it
// repeats: that of the loop's first iteration, else its own. All iterations of a loop have equal ops, and from one to
// the next every operand stays in place or moves by a constant multiple of its size, and both kinds occur.
std::vector<uint32_t> LoopLeaders(const TraceModel& model, const std::vector<OpFacts>& facts,
                                  absl::Span<const CallIndex> calls);

// By CallIndex: whether the call repeats another one in a loop inside a layer.
std::vector<bool> LoopRepeats(const TraceModel& model);

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
