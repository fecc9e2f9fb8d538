// Divides a row of wall time by the samples of CPU time that fell into it.
//
// The row's time stays as it is. Samples say which part of it threads computed, and in which places:
// - Fewer than kFewestOfRow samples say nothing: the row stays whole.
// - CPU time that is less than the row's by more than two standard deviations of the samples leaves a rest, in which no
//   thread computed: they waited, or had no processor. Otherwise there is none. (Where several threads compute at the same
//   time the rest may be larger: the samples do not say.)
// - The computing part is divided in proportion to the CPU time of the places. Of a place with n samples the time is
//   uncertain by about 1 / sqrt(n) of it.
#pragma once

#include "analyzer/time/time_division.h"

namespace dlhook::analyzer::inline time {

constexpr int64_t kFewestOfRow = 10;
constexpr char kNotComputing[] = "not computing";  // the rest's name
constexpr int64_t kFewestOfPlace = 3;              // fewer do not give a place a row of its own

// By place, whatever the caller numbers so.
struct SampleSum {
  int64_t samples = 0;
  int64_t cpu_ns = 0;
  double square = 0;  // sum of the squares of what each stands for
  void Add(const SampleSum& other) {
    samples += other.samples;
    cpu_ns += other.cpu_ns;
    square += other.square;
  }
};
using SampleSums = std::map<uint32_t, SampleSum>;

SampleSum SumOfOne(int64_t cpu_ns);
void AddTo(const SampleSums& from, SampleSums& to);

struct SamplePart {
  uint32_t place = 0;
  int64_t samples = 0;
  int64_t ns = 0;
};
struct SampleSplit {
  std::vector<SamplePart> parts;  // by place; empty: the samples say nothing
  int64_t rest_ns = 0;            // parts and rest add up to the row's time
};

SampleSplit SplitBySamples(int64_t wall_ns, const SampleSums& places);

// Samples of CPU time in time that no hook or tap tells anything of: gaps between calls, time without any activity, ranges,
// waiting for input. What threads compute in calls and framework's ops is measured exactly and not here.
// Whether samples may tell more of a piece of time than is known. `piece` has a kind and an index.
bool MaySamplesTell(const TraceModel& model, const TimePiece& piece);

struct GapSample {
  size_t sample = 0;
  TimePiece piece;  // what it fell into; start_ns: when
};

class GapSamples {
 public:
  explicit GapSamples(const TraceModel& model);

  // By time. A sample belongs to its own thread's piece of time. A thread without any activity (of a library's pool, for
  // instance) computes for one of those that idle meanwhile: for each in turn.
  const std::vector<GapSample>& Of(ProcessIndex process) const { return of_[process]; }

 private:
  std::vector<std::vector<GapSample>> of_;  // by process
};

}  // namespace dlhook::analyzer::time
