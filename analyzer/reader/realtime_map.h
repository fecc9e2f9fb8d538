// Maps CLOCK_REALTIME of one process trace to the run's axis: GPU times use it, all others the trace's own clock.
#ifndef DLHOOK_ANALYZER_READER_REALTIME_MAP_H_
#define DLHOOK_ANALYZER_READER_REALTIME_MAP_H_

#include <cstdint>
#include <vector>

#include "analyzer/reader/clock_map.h"
#include "proto/trace.pb.h"

namespace dlhook::analyzer::inline reader {

// Both clocks run at the same rate (NTP slews both) until CLOCK_REALTIME is set. An epoch lies between two such steps;
// in it the offset between the clocks is one number, or, if the samples differ by more than their accuracy, is
// interpolated. Where a step lies between two samples is not known, and after a step backwards times occur twice: so a
// time may have two meanings, between which the properties of the work itself must decide.
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

#endif  // DLHOOK_ANALYZER_READER_REALTIME_MAP_H_
