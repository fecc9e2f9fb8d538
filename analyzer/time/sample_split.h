// Divides a row of wall time by the samples of CPU time that fell into it.
//
// The row's time stays as it is. Samples say which part of it threads computed, and in which places:
// - Fewer than kFewestOfRow samples say nothing: the row stays whole.
// - CPU time that is less than the row's by more than two standard deviations of the samples leaves a rest, in which no
//   thread computed: they waited, or had no processor. Otherwise there is none. (Where several threads compute at the same
//   time the rest may be larger: the samples do not say.)
// - The computing part is divided in proportion to the CPU time of the places. Of a place with n samples the time is
//   uncertain by about 1 / sqrt(n) of it.
#ifndef DLHOOK_ANALYZER_TIME_SAMPLE_SPLIT_H_
#define DLHOOK_ANALYZER_TIME_SAMPLE_SPLIT_H_

#include <cstdint>
#include <map>
#include <vector>

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

}  // namespace dlhook::analyzer::time

#endif  // DLHOOK_ANALYZER_TIME_SAMPLE_SPLIT_H_
