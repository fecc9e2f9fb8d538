// Maps the ticks of one process trace to nanoseconds of CLOCK_MONOTONIC.
#pragma once

#include "analyzer/model/oddities.h"
#include "analyzer/model/prelude.h"
#include "proto/trace.pb.h"

namespace dlhook::analyzer::inline reader {

constexpr int64_t kMaxClockNs = int64_t{1} << 60;  // beyond any clock; keeps damaged traces in range

inline int64_t ClampNs(__int128 ns) {
  return static_cast<int64_t>(ns < -kMaxClockNs ? -kMaxClockNs : ns > kMaxClockNs ? kMaxClockNs : ns);
}

// Piecewise linear between clock samples and monotonic: what nests in ticks nests in nanoseconds. Outside the samples
// the mean rate applies; with a single sample the header's rate; without samples, zero ticks are zero nanoseconds. A
// CLOCK_MONOTONIC trace needs no mapping.
class ClockMap {
 public:
  ClockMap() : ClockMap(trace::Clock(), {}, nullptr) {}
  // `oddities` may be null.
  ClockMap(const trace::Clock& clock, std::vector<trace::ClockSample> samples, Oddities* oddities);

  int64_t ToNs(uint64_t ticks) const {
    if (ticks - segment_.first_ticks >= segment_.length_ticks) FindSegment(ticks);
    return Map(segment_, ticks);
  }

  // The first ticks at this time.
  uint64_t ToTicks(int64_t ns) const;

  // The duration of a number of ticks, independent of time.
  int64_t DurationNs(uint64_t ticks) const;

  // The offset from CLOCK_MONOTONIC to CLOCK_REALTIME, if a sample has it.
  std::optional<int64_t> realtime_offset_ns() const { return realtime_offset_ns_; }
  bool has_axis() const { return has_axis_; }  // false: the origin is arbitrary

  // Shifts all results.
  void Shift(int64_t ns);

 private:
  // Fixed point: exact enough for years of nanoseconds, and monotonic by construction.
  static constexpr int kRateBits = 40;
  static constexpr uint64_t kMaxRate = uint64_t{1} << 62;  // 4 ms per tick: its product with any number of ticks fits

  struct Segment {
    uint64_t first_ticks = 0;
    uint64_t length_ticks = 0;
    uint64_t base_ticks = 0;
    int64_t base_ns = 0;
    uint64_t rate = 0;  // ns per tick, in units of 2^-kRateBits
  };

  static int64_t Map(const Segment& segment, uint64_t ticks) {
    const __int128 distance = static_cast<__int128>(ticks) - static_cast<__int128>(segment.base_ticks);
    return ClampNs(((distance * static_cast<__int128>(segment.rate)) >> kRateBits) + segment.base_ns);
  }
  void FindSegment(uint64_t ticks) const;
  static uint64_t HeaderRate(const trace::Clock& clock, Oddities* oddities);
  static uint64_t RateBetween(const trace::ClockSample& a, const trace::ClockSample& b);
  void AddSegments(const std::vector<trace::ClockSample>& samples);

  std::vector<Segment> segments_;  // covering all ticks, in order
  mutable Segment segment_;        // the one used last
  uint64_t mean_rate_ = 0;
  std::optional<int64_t> realtime_offset_ns_;
  bool has_axis_ = false;
};

// Maps CLOCK_REALTIME of one process trace to the run's axis: for GPU times. Both clocks run at the same rate (NTP slews
// both) until CLOCK_REALTIME is set. In an epoch between two such steps their offset is one number or, if the samples
// differ by more than their accuracy, interpolated. Where a step lies between two samples is not known, and after a step
// backwards times occur twice: such a time has two meanings, between which the work itself must decide.
class RealtimeMap {
 public:
  // `clock`: already on the run's axis. Samples in any order.
  RealtimeMap(const ClockMap& clock, const std::vector<trace::ClockSample>& samples);

  // False: there is no sample, so the clocks can't be related.
  bool has_clock() const { return !epochs_.empty(); }
  bool has_steps() const { return epochs_.size() > 1; }

  // Ignores steps.
  int64_t ToNs(int64_t realtime_ns) const { return realtime_ns - OffsetAt(epochs_.front(), realtime_ns); }

  // All times on the axis that this one may mean, ascending; at least one (the nearest possible if a step skipped the
  // time).
  std::vector<int64_t> Moments(int64_t realtime_ns) const;

 private:
  struct Point {
    int64_t realtime_ns = 0;
    int64_t offset_ns = 0;  // realtime minus axis
  };
  struct Epoch {
    int64_t from_ns = INT64_MIN;  // on the axis: it began after the former and ended before the latter
    int64_t until_ns = INT64_MAX;
    std::vector<Point> points;  // ascending
  };

  static int64_t OffsetAt(const Epoch& epoch, int64_t realtime_ns);
  static void Settle(Epoch* epoch);

  std::vector<Epoch> epochs_;
};

}  // namespace dlhook::analyzer::reader
