// Builds the segments of a ClockMap from the clock information in the trace.
#include "analyzer/reader/clock_map.h"

#include <algorithm>
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
  auto after = std::upper_bound(segments_.begin(), segments_.end(), ticks,
                                [](uint64_t t, const Segment& s) { return t < s.first_ticks; });
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
  for (Segment& segment : segments_) segment.base_ns = Clamp(static_cast<__int128>(segment.base_ns) + ns);
  segment_.base_ns = Clamp(static_cast<__int128>(segment_.base_ns) + ns);
}

}  // namespace dlhook::analyzer::reader
