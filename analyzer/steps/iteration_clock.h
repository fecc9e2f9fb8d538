// Maps a time on a thread to its iteration.
#ifndef DLHOOK_ANALYZER_STEPS_ITERATION_CLOCK_H_
#define DLHOOK_ANALYZER_STEPS_ITERATION_CLOCK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analyzer/steps/iterations.h"

namespace dlhook::analyzer::inline steps {

class IterationClock {
 public:
  explicit IterationClock(const TraceModel& model);

  // Number of the iteration on this thread, from 1; 0 before the first one and on threads without iterations.
  size_t At(ThreadIndex thread, int64_t ns) const;
  bool IsSteady(ThreadIndex thread, int64_t ns) const;

  int64_t steady_iterations() const { return steady_iterations_; }  // over all tracks

 private:
  struct Start {
    int64_t ns = 0;
    bool is_steady = false;
  };
  std::vector<std::vector<Start>> starts_;  // per thread
  int64_t steady_iterations_ = 0;
};

}  // namespace dlhook::analyzer::steps

#endif  // DLHOOK_ANALYZER_STEPS_ITERATION_CLOCK_H_
