#include "analyzer/reader/clock_map.h"

#include <iterator>

namespace dlhook::analyzer::inline reader {
namespace {

constexpr uint64_t kMinTicksPerSecond = 1000;
// Samples closer than this are not exact enough to give the rate.
constexpr uint64_t kMinRateSpanNs = 10'000'000;

// Keeps the samples at which both clocks advance.
std::vector<trace::ClockSample> Usable(std::vector<trace::ClockSample> samples, Oddities* oddities) {
  std::vector<trace::ClockSample> usable;
  for (trace::ClockSample& sample : samples) {
    if (usable.empty() ||
        (sample.ticks() > usable.back().ticks() && sample.monotonic_ns() > usable.back().monotonic_ns())) {
      usable.push_back(std::move(sample));
    } else if (sample.ticks() != usable.back().ticks() && oddities != nullptr) {
      oddities->Count("a clock sample goes backwards and was left out");
    }
  }
  return usable;
}

constexpr int64_t kStepNs = 200'000;           // a larger change between two samples is a step ...
constexpr int64_t kMostDriftPerSecond = 2000;  // ... if it also exceeds this drift, in nanoseconds per second
constexpr int64_t kExactNs = 2000;             // accuracy of reading the clocks
constexpr size_t kMaxEpochs = 64;              // far more than any real trace has

}  // namespace

ClockMap::ClockMap(const trace::Clock& clock, std::vector<trace::ClockSample> samples, Oddities* oddities) {
  samples = Usable(std::move(samples), oddities);
  const bool is_monotonic = clock.kind() == trace::Clock::MONOTONIC;
  has_axis_ = is_monotonic || !samples.empty();
  if (!samples.empty()) {
    realtime_offset_ns_ = static_cast<int64_t>(samples[0].realtime_ns() - samples[0].monotonic_ns());
  }
  const bool tells_rate =
      samples.size() > 1 && samples.back().monotonic_ns() - samples.front().monotonic_ns() >= kMinRateSpanNs;
  if (is_monotonic || !tells_rate) {
    mean_rate_ = HeaderRate(clock, samples.empty() || is_monotonic ? oddities : nullptr);
    Segment all{0, UINT64_MAX, 0, 0, mean_rate_};
    if (!is_monotonic && !samples.empty()) {
      all.base_ticks = samples[0].ticks();
      all.base_ns = static_cast<int64_t>(samples[0].monotonic_ns());
    }
    segments_.push_back(all);
  } else {
    mean_rate_ = RateBetween(samples.front(), samples.back());
    AddSegments(samples);
  }
  segment_ = segments_.front();
}

uint64_t ClockMap::HeaderRate(const trace::Clock& clock, Oddities* oddities) {
  uint64_t ticks_per_second = clock.ticks_per_second();
  if (clock.kind() == trace::Clock::MONOTONIC) ticks_per_second = 1'000'000'000;
  if (ticks_per_second < kMinTicksPerSecond) {
    if (oddities != nullptr) {
      oddities->Count("a trace does not tell the rate of its clock: its ticks are read as nanoseconds");
    }
    ticks_per_second = 1'000'000'000;
  }
  return static_cast<uint64_t>((static_cast<unsigned __int128>(1'000'000'000) << kRateBits) / ticks_per_second);
}

uint64_t ClockMap::RateBetween(const trace::ClockSample& a, const trace::ClockSample& b) {
  const unsigned __int128 ns = b.monotonic_ns() - a.monotonic_ns();
  const unsigned __int128 rate = (ns << kRateBits) / (b.ticks() - a.ticks());
  return static_cast<uint64_t>(std::min<unsigned __int128>(rate, kMaxRate));
}

void ClockMap::AddSegments(const std::vector<trace::ClockSample>& samples) {
  const auto base_ns = [&](size_t i) { return static_cast<int64_t>(samples[i].monotonic_ns()); };
  segments_.push_back({0, samples[0].ticks(), samples[0].ticks(), base_ns(0), mean_rate_});
  for (size_t i = 0; i + 1 < samples.size(); ++i) {
    segments_.push_back({samples[i].ticks(), samples[i + 1].ticks() - samples[i].ticks(), samples[i].ticks(),
                         base_ns(i), RateBetween(samples[i], samples[i + 1])});
  }
  const uint64_t last = samples.back().ticks();
  segments_.push_back({last, UINT64_MAX - last, last, base_ns(samples.size() - 1), mean_rate_});
}

void ClockMap::FindSegment(uint64_t ticks) const {
  auto after = absl::c_upper_bound(segments_, ticks, [](uint64_t t, const Segment& s) { return t < s.first_ticks; });
  segment_ = after == segments_.begin() ? *after : *std::prev(after);
}

uint64_t ClockMap::ToTicks(int64_t ns) const {
  uint64_t least = 0, most = INT64_MAX;
  while (least < most) {
    const uint64_t middle = (least + most) / 2;
    if (ToNs(middle) < ns) {
      least = middle + 1;
    } else {
      most = middle;
    }
  }
  return least;
}

int64_t ClockMap::DurationNs(uint64_t ticks) const { return Map({0, 0, 0, 0, mean_rate_}, ticks); }

void ClockMap::Shift(int64_t ns) {
  for (Segment& segment : segments_) segment.base_ns = ClampNs(static_cast<__int128>(segment.base_ns) + ns);
  segment_.base_ns = ClampNs(static_cast<__int128>(segment_.base_ns) + ns);
}

RealtimeMap::RealtimeMap(const ClockMap& clock, const std::vector<trace::ClockSample>& samples) {
  std::vector<const trace::ClockSample*> ordered;
  for (const trace::ClockSample& sample : samples) ordered.push_back(&sample);
  absl::c_stable_sort(ordered, [](const auto* a, const auto* b) { return a->ticks() < b->ticks(); });
  int64_t last_ns = 0;
  for (const trace::ClockSample* sample : ordered) {
    const int64_t at_ns = clock.ToNs(sample->ticks());
    const auto realtime_ns = static_cast<int64_t>(std::min<uint64_t>(sample->realtime_ns(), 2 * kMaxClockNs));
    const Point point = {realtime_ns, realtime_ns - at_ns};
    const int64_t doubt_ns = std::min<int64_t>(clock.DurationNs(sample->uncertainty_ticks()), kMaxClockNs);
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
  const auto [least, most] = absl::c_minmax_element(points, less);
  if (most->offset_ns - least->offset_ns > kExactNs) {
    absl::c_stable_sort(points, [](const Point& a, const Point& b) { return a.realtime_ns < b.realtime_ns; });
    return;
  }
  const auto middle = points.begin() + static_cast<int64_t>(points.size() / 2);
  std::nth_element(points.begin(), middle, points.end(), less);
  points = {*middle};
}

int64_t RealtimeMap::OffsetAt(const Epoch& epoch, int64_t realtime_ns) {
  const std::vector<Point>& points = epoch.points;
  if (points.size() == 1 || realtime_ns <= points.front().realtime_ns) return points.front().offset_ns;
  const auto after =
      absl::c_upper_bound(points, realtime_ns, [](int64_t ns, const Point& point) { return ns < point.realtime_ns; });
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
    least_error_ns = ClampNs(error);
    nearest_ns = ns;
  }
  if (moments.empty()) moments.push_back(nearest_ns);
  absl::c_sort(moments);
  return moments;
}

}  // namespace dlhook::analyzer::reader
