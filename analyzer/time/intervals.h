// Sets of half-open time intervals in nanoseconds, and their overlap.
#pragma once

#include <cstddef>

#include "analyzer/model/prelude.h"

namespace dlhook::analyzer::inline time {

struct Interval {
  int64_t start_ns = 0;
  int64_t end_ns = 0;  // exclusive
  auto operator<=>(const Interval&) const = default;
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

// Whether a time lies in one of disjoint, ascending intervals. Cheap if times are asked for nearly in order.
class IntervalFinder {
 public:
  IntervalFinder() = default;
  explicit IntervalFinder(std::vector<Interval> intervals) : intervals_(std::move(intervals)) {}
  bool Has(int64_t ns) { return IndexAt(ns) < intervals_.size(); }
  // Of the interval; the number of intervals if the time lies in none.
  size_t IndexAt(int64_t ns) {
    if (!IsLastBefore(ns, at_)) at_ = IsLastBefore(ns, at_ + 1) ? at_ + 1 : Find(ns);
    return at_ < intervals_.size() && ns < intervals_[at_].end_ns ? at_ : intervals_.size();
  }
  const std::vector<Interval>& intervals() const { return intervals_; }

 private:
  // Whether no interval after the one at this place begins at or before the time.
  bool IsLastBefore(int64_t ns, size_t at) const {
    return at < intervals_.size() && intervals_[at].start_ns <= ns &&
           (at + 1 == intervals_.size() || ns < intervals_[at + 1].start_ns);
  }
  size_t Find(int64_t ns) const;  // the number of intervals if the time is before all of them

  std::vector<Interval> intervals_;
  size_t at_ = 0;
};

// Time covered by at least two of these intervals, counted once: time in which something overlaps with another of its
// kind.
IntervalSet CoveredTwice(std::vector<Interval> intervals);

}  // namespace dlhook::analyzer::time
