// Sets of moments: unions of half-open intervals in nanoseconds, and what overlaps with what.
#ifndef DLHOOK_ANALYZER_TIME_INTERVALS_H_
#define DLHOOK_ANALYZER_TIME_INTERVALS_H_

#include <cstdint>
#include <vector>

namespace dlhook::analyzer::inline time {

struct Interval {
  int64_t start_ns = 0;
  int64_t end_ns = 0;  // exclusive
  bool operator==(const Interval&) const = default;
};

// Disjoint, ascending, none empty, neighbours that touch are one.
class IntervalSet {
 public:
  IntervalSet() = default;
  // The union of these, in any order, overlapping or empty ones too.
  explicit IntervalSet(std::vector<Interval> intervals);

  const std::vector<Interval>& intervals() const { return intervals_; }
  bool empty() const { return intervals_.empty(); }
  int64_t total_ns() const;

  IntervalSet Union(const IntervalSet& other) const;
  IntervalSet Intersection(const IntervalSet& other) const;
  IntervalSet Difference(const IntervalSet& other) const;  // this without the other
  // Length of what lies in [start_ns, end_ns): logarithmic.
  int64_t CoveredNs(int64_t start_ns, int64_t end_ns) const;

 private:
  std::vector<Interval> intervals_;
  std::vector<int64_t> total_before_ns_;  // of each interval, the sum of those before it
};

// Moments covered by at least two of these intervals, each counted once: what runs beside something else of its kind.
IntervalSet CoveredTwice(std::vector<Interval> intervals);

}  // namespace dlhook::analyzer::time

#endif  // DLHOOK_ANALYZER_TIME_INTERVALS_H_
