// Sets of half-open time intervals in nanoseconds, and their overlap.
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

// Disjoint, ascending, non-empty intervals; adjacent ones are merged.
class IntervalSet {
 public:
  IntervalSet() = default;
  // The union of these; any order, may overlap or be empty.
  explicit IntervalSet(std::vector<Interval> intervals);

  const std::vector<Interval>& intervals() const { return intervals_; }
  bool empty() const { return intervals_.empty(); }
  int64_t total_ns() const;

  IntervalSet Union(const IntervalSet& other) const;
  IntervalSet Intersection(const IntervalSet& other) const;
  IntervalSet Difference(const IntervalSet& other) const;  // this minus the other
  // Length of the part in [start_ns, end_ns); logarithmic.
  int64_t CoveredNs(int64_t start_ns, int64_t end_ns) const;

 private:
  std::vector<Interval> intervals_;
  std::vector<int64_t> total_before_ns_;  // of each interval, the sum of those before it
};

// Time covered by at least two of these intervals, counted once: time in which something overlaps with another of its
// kind.
IntervalSet CoveredTwice(std::vector<Interval> intervals);

}  // namespace dlhook::analyzer::time

#endif  // DLHOOK_ANALYZER_TIME_INTERVALS_H_
