// Bounds the sum of a run's durations, so that no sum in a report can overflow, whatever a damaged trace contains.
#pragma once

#include <cstdint>

namespace dlhook::analyzer::inline reader {

class TimeBudget {
 public:
  // False, and nothing is taken: not enough is left.
  bool Take(int64_t ns) {
    if (ns < 0 || ns > left_ns_) return false;
    left_ns_ -= ns;
    return true;
  }

  // The durations of nested calls or scopes.
  template <typename Staged>
  bool TakeAll(const Staged& staged) {
    const int64_t before_ns = left_ns_;
    for (const auto& element : staged) {
      if (Take(element.duration)) continue;
      left_ns_ = before_ns;
      return false;
    }
    return true;
  }

 private:
  int64_t left_ns_ = int64_t{1} << 60;  // 36 years
};

}  // namespace dlhook::analyzer::reader
