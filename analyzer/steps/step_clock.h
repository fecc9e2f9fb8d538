// Maps a time on a thread to its step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dlhook::analyzer::inline steps {

class StepClock {
 public:
  explicit StepClock(const TraceModel& model);

  // Number of the step on this thread, from 1; 0 before the first one and on threads without steps. Cheap if it is often
  // the same as before, or the next.
  size_t At(ThreadIndex thread, int64_t ns) const;
  bool IsSteady(ThreadIndex thread, int64_t ns) const;

  int64_t steady_steps() const { return steady_steps_; }  // over all tracks

 private:
  struct Start {
    int64_t ns = 0;
    bool is_steady = false;
  };
  std::vector<std::vector<Start>> starts_;  // per thread
  mutable size_t last_ = 0;                 // found by At
  int64_t steady_steps_ = 0;
};

}  // namespace dlhook::analyzer::steps
