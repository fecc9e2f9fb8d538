// See realtime_map.h.
#include "analyzer/reader/realtime_map.h"

#include <algorithm>
#include <iterator>

namespace dlhook::analyzer::inline reader {
namespace {

constexpr int64_t kMaxClockNs = int64_t{1} << 61;  // beyond any clock; keeps damaged traces in range
constexpr int64_t kStepNs = 200'000;               // a larger change between two samples is a step ...
constexpr int64_t kMostDriftPerSecond = 2000;      // ... if it also exceeds this drift, in nanoseconds per second
constexpr int64_t kExactNs = 2000;                 // accuracy of reading the clocks
constexpr size_t kMaxEpochs = 64;                  // far more than any real trace has

int64_t Clamp(__int128 ns) {
  return static_cast<int64_t>(ns < -kMaxClockNs ? -kMaxClockNs : ns > kMaxClockNs ? kMaxClockNs : ns);
}

}  // namespace

RealtimeMap::RealtimeMap(const ClockMap& clock, const std::vector<trace::ClockSample>& samples) {
  std::vector<const trace::ClockSample*> ordered;
  for (const trace::ClockSample& sample : samples) ordered.push_back(&sample);
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto* a, const auto* b) { return a->ticks() < b->ticks(); });
  int64_t last_ns = 0;
  for (const trace::ClockSample* sample : ordered) {
    const int64_t at_ns = clock.ToNs(sample->ticks());
    const int64_t realtime_ns = Clamp(sample->realtime_ns());
    const Point point = {realtime_ns, realtime_ns - at_ns};
    const int64_t doubt_ns = std::min<int64_t>(clock.DurationNs(sample->uncertainty_ticks()), kMaxClockNs / 2);
    if (epochs_.empty()) {
      epochs_.emplace_back();
    } else {
      const int64_t change_ns = point.offset_ns - epochs_.back().points.back().offset_ns;
      const int64_t drift_ns = (at_ns - last_ns) / 1'000'000'000 * kMostDriftPerSecond;
      const bool is_step = change_ns > kStepNs + drift_ns + doubt_ns || change_ns < -(kStepNs + drift_ns + doubt_ns);
      if (is_step && epochs_.size() < kMaxEpochs) {
        epochs_.back().until_ns = at_ns;
        epochs_.emplace_back().from_ns = last_ns;
      }
    }
    epochs_.back().points.push_back(point);
    last_ns = at_ns;
  }
  for (Epoch& epoch : epochs_) Settle(&epoch);
}

// A single offset if the samples allow it: interpolating their errors would distort every duration.
void RealtimeMap::Settle(Epoch* epoch) {
  std::vector<Point>& points = epoch->points;
  const auto less = [](const Point& a, const Point& b) { return a.offset_ns < b.offset_ns; };
  const auto [least, most] = std::minmax_element(points.begin(), points.end(), less);
  if (most->offset_ns - least->offset_ns > kExactNs) {
    std::stable_sort(points.begin(), points.end(),
                     [](const Point& a, const Point& b) { return a.realtime_ns < b.realtime_ns; });
    return;
  }
  const auto middle = points.begin() + static_cast<int64_t>(points.size() / 2);
  std::nth_element(points.begin(), middle, points.end(), less);
  points = {*middle};
}

int64_t RealtimeMap::OffsetAt(const Epoch& epoch, int64_t realtime_ns) {
  const std::vector<Point>& points = epoch.points;
  if (points.size() == 1 || realtime_ns <= points.front().realtime_ns) return points.front().offset_ns;
  const auto after = std::upper_bound(points.begin(), points.end(), realtime_ns,
                                      [](int64_t ns, const Point& point) { return ns < point.realtime_ns; });
  if (after == points.end()) return points.back().offset_ns;
  const auto before = std::prev(after);
  const __int128 change = static_cast<__int128>(after->offset_ns) - before->offset_ns;
  const int64_t between_ns = after->realtime_ns - before->realtime_ns;
  return before->offset_ns + static_cast<int64_t>(change * (realtime_ns - before->realtime_ns) / between_ns);
}

std::vector<int64_t> RealtimeMap::Moments(int64_t realtime_ns) const {
  std::vector<int64_t> moments;
  int64_t nearest_ns = 0, least_error_ns = INT64_MAX;
  for (const Epoch& epoch : epochs_) {
    const int64_t ns = realtime_ns - OffsetAt(epoch, realtime_ns);
    if (ns >= epoch.from_ns && ns <= epoch.until_ns) {
      moments.push_back(ns);
      continue;
    }
    const __int128 at = ns;
    const __int128 error = ns < epoch.from_ns ? epoch.from_ns - at : at - epoch.until_ns;
    if (error >= least_error_ns) continue;
    least_error_ns = Clamp(error);
    nearest_ns = ns;
  }
  if (moments.empty()) moments.push_back(nearest_ns);
  std::sort(moments.begin(), moments.end());
  return moments;
}

}  // namespace dlhook::analyzer::reader
