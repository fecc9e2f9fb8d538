// Samples of CPU time in time that no hook or tap tells anything of: gaps between calls, time without any activity, ranges,
// waiting for input. What threads compute in calls and framework's ops is measured exactly and not here.
#ifndef DLHOOK_ANALYZER_TIME_GAP_SAMPLES_H_
#define DLHOOK_ANALYZER_TIME_GAP_SAMPLES_H_

#include <cstddef>
#include <vector>

#include "analyzer/model/trace_model.h"
#include "analyzer/time/time_division.h"

namespace dlhook::analyzer::inline time {

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

#endif  // DLHOOK_ANALYZER_TIME_GAP_SAMPLES_H_
