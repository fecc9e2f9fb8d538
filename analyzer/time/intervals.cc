// Sets of time intervals: see intervals.h. Everything but sorting is linear; an intersection in what both span.
#include "analyzer/time/intervals.h"

namespace dlhook::analyzer::inline time {
namespace {

bool StartsBefore(const Interval& a, const Interval& b) { return a.start_ns < b.start_ns; }

// GPU activities are already in this order.
void SortByStart(std::vector<Interval>& intervals) {
  if (absl::c_is_sorted(intervals, StartsBefore)) return;
  absl::c_sort(intervals, StartsBefore);
}

// The first interval that ends after the given time; in a set, ends ascend as starts do.
std::vector<Interval>::const_iterator FirstEndingAfter(const std::vector<Interval>& intervals, int64_t ns) {
  return std::ranges::upper_bound(intervals, ns, {}, &Interval::end_ns);
}

}  // namespace

IntervalSet::IntervalSet(std::vector<Interval> intervals) {
  SortByStart(intervals);
  size_t kept = 0;
  for (const Interval& interval : intervals) {
    if (interval.end_ns <= interval.start_ns) continue;
    if (kept > 0 && interval.start_ns <= intervals[kept - 1].end_ns) {
      intervals[kept - 1].end_ns = std::max(intervals[kept - 1].end_ns, interval.end_ns);
    } else {
      intervals[kept++] = interval;
    }
  }
  intervals.resize(kept);
  intervals_ = std::move(intervals);
  total_before_ns_.reserve(kept);
  int64_t total_ns = 0;
  for (const Interval& interval : intervals_) {
    total_before_ns_.push_back(total_ns);
    total_ns += interval.end_ns - interval.start_ns;
  }
}

int64_t IntervalSet::total_ns() const {
  if (intervals_.empty()) return 0;
  return total_before_ns_.back() + intervals_.back().end_ns - intervals_.back().start_ns;
}

IntervalSet IntervalSet::Union(const IntervalSet& other) const {
  std::vector<Interval> both(intervals_.size() + other.intervals_.size());
  std::merge(intervals_.begin(), intervals_.end(), other.intervals_.begin(), other.intervals_.end(), both.begin(),
             StartsBefore);
  return IntervalSet(std::move(both));
}

IntervalSet IntervalSet::Intersection(const IntervalSet& other) const {
  if (intervals_.empty() || other.intervals_.empty()) return {};
  std::vector<Interval> common;
  auto a = FirstEndingAfter(intervals_, other.intervals_.front().start_ns);
  auto b = FirstEndingAfter(other.intervals_, intervals_.front().start_ns);
  while (a != intervals_.end() && b != other.intervals_.end()) {
    const int64_t start_ns = std::max(a->start_ns, b->start_ns), end_ns = std::min(a->end_ns, b->end_ns);
    if (start_ns < end_ns) common.push_back({start_ns, end_ns});
    a->end_ns < b->end_ns ? ++a : ++b;
  }
  return IntervalSet(std::move(common));
}

IntervalSet IntervalSet::Difference(const IntervalSet& other) const {
  std::vector<Interval> rest;
  auto hole = other.intervals_.begin();
  for (const Interval& interval : intervals_) {
    int64_t at_ns = interval.start_ns;
    while (hole != other.intervals_.end() && hole->end_ns <= at_ns) ++hole;
    // The last hole may extend into the next interval.
    for (auto next = hole; next != other.intervals_.end() && next->start_ns < interval.end_ns; ++next) {
      rest.push_back({at_ns, next->start_ns});
      at_ns = next->end_ns;
      hole = next;
    }
    rest.push_back({at_ns, interval.end_ns});
  }
  return IntervalSet(std::move(rest));
}

int64_t IntervalSet::CoveredNs(int64_t start_ns, int64_t end_ns) const {
  if (end_ns <= start_ns) return 0;
  const auto before = [&](int64_t ns) {
    const auto at = FirstEndingAfter(intervals_, ns);
    if (at == intervals_.end()) return total_ns();
    return total_before_ns_[static_cast<size_t>(at - intervals_.begin())] + std::max<int64_t>(ns - at->start_ns, 0);
  };
  return before(end_ns) - before(start_ns);
}

size_t IntervalFinder::Find(int64_t ns) const {
  const auto after = std::ranges::upper_bound(intervals_, ns, {}, &Interval::start_ns);
  return after == intervals_.begin() ? intervals_.size() : static_cast<size_t>(after - intervals_.begin()) - 1;
}

IntervalSet CoveredTwice(std::vector<Interval> intervals) {
  SortByStart(intervals);
  std::vector<Interval> twice;
  int64_t reach_ns = INT64_MIN;  // the latest end so far: until then an earlier interval is active
  for (const Interval& interval : intervals) {
    if (interval.end_ns <= interval.start_ns) continue;
    if (interval.start_ns < reach_ns) twice.push_back({interval.start_ns, std::min(interval.end_ns, reach_ns)});
    reach_ns = std::max(reach_ns, interval.end_ns);
  }
  return IntervalSet(std::move(twice));
}

}  // namespace dlhook::analyzer::time
