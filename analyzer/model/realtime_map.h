// CLOCK_REALTIME of one process trace -> the run's axis: times of GPUs are told by it, all others by the trace's own
// clock.
#ifndef DLHOOK_ANALYZER_MODEL_REALTIME_MAP_H_
#define DLHOOK_ANALYZER_MODEL_REALTIME_MAP_H_

#include <cstdint>
#include <vector>

#include "analyzer/model/clock_map.h"
#include "proto/trace.pb.h"

namespace dlhook::analyzer::inline model {

// Both clocks run alike (NTP slews both) until somebody sets CLOCK_REALTIME. From one such step to the next is an
// epoch; in it the distance between the clocks is one number, or, where the samples differ by more than reading them is
// exact, lies on lines between them. Where in the second between two samples a step was is not known, and after a step
// backwards times come twice: so a time may be two moments, of which what is known of the work itself must choose.
class RealtimeMap {
 public:
  // `clock`: already on the run's axis. Samples in any order.
  RealtimeMap(const ClockMap& clock, const std::vector<trace::ClockSample>& samples);

  // False: there is no sample, and so no way from one clock to the other.
  bool has_clock() const { return !epochs_.empty(); }
  bool has_steps() const { return epochs_.size() > 1; }

  // Without steps.
  int64_t ToNs(int64_t realtime_ns) const { return realtime_ns - OffsetAt(epochs_.front(), realtime_ns); }

  // All moments that this time can be, ascending; at least one (the nearest possible where the time was skipped by a
  // step).
  std::vector<int64_t> Moments(int64_t realtime_ns) const;

 private:
  struct Point {
    int64_t realtime_ns = 0;
    int64_t offset_ns = 0;  // realtime minus axis
  };
  struct Epoch {
    int64_t from_ns = INT64_MIN;  // on the axis: it began after, and ended before
    int64_t until_ns = INT64_MAX;
    std::vector<Point> points;  // ascending
  };

  static int64_t OffsetAt(const Epoch& epoch, int64_t realtime_ns);
  static void Settle(Epoch* epoch);

  std::vector<Epoch> epochs_;
};

}  // namespace dlhook::analyzer::model

#endif  // DLHOOK_ANALYZER_MODEL_REALTIME_MAP_H_
