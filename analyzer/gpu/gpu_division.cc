// One sweep over the edges of a device's activities: see gpu_division.h.
#include "analyzer/gpu/gpu_division.h"

#include <algorithm>

namespace dlhook::analyzer::inline gpu {
namespace {

class GpuDivision {
 public:
  GpuDivision(const TraceModel& model, GpuDeviceIndex device, const std::function<void(const GpuTimePiece&)>& take)
      : gpu_(model.gpu), take_(take), range_(GpuRangeOf(model, device)), next_(range_.first) {}

  void Divide(int64_t start_ns, int64_t end_ns) {
    now_ns_ = start_ns;
    while (now_ns_ < end_ns) {
      LetBegin();
      LetEnd();
      int64_t until_ns = end_ns;
      if (next_ < range_.second) until_ns = std::min(until_ns, gpu_.start_ns[next_]);
      if (!running_.empty()) until_ns = std::min(until_ns, running_.front().end_ns);
      DividePiece(until_ns);
      now_ns_ = until_ns;
    }
  }

 private:
  struct Running {
    int64_t end_ns = 0;
    GpuIndex activity = kNone;
    bool operator>(const Running& other) const {
      return end_ns != other.end_ns ? end_ns > other.end_ns : activity > other.activity;
    }
  };

  // A heap, earliest end first.
  void LetBegin() {
    for (; next_ < range_.second && gpu_.start_ns[next_] <= now_ns_; ++next_) {
      if (gpu_.end_ns[next_] <= now_ns_) continue;
      running_.push_back({gpu_.end_ns[next_], next_});
      std::push_heap(running_.begin(), running_.end(), std::greater<>());
    }
  }

  void LetEnd() {
    while (!running_.empty() && running_.front().end_ns <= now_ns_) {
      std::pop_heap(running_.begin(), running_.end(), std::greater<>());
      running_.pop_back();
    }
  }

  // Remainders go to the activities in turn.
  void DividePiece(int64_t end_ns) {
    if (running_.empty()) return take_({now_ns_, end_ns, end_ns - now_ns_, kNone});
    const auto count = static_cast<int64_t>(running_.size());
    const int64_t even_ns = (end_ns - now_ns_) / count;
    const int64_t rest_ns = (end_ns - now_ns_) % count;
    for (int64_t i = 0; i < count; ++i) {
      const bool takes_rest = (i + count - turn_ % count) % count < rest_ns;
      take_({now_ns_, end_ns, even_ns + (takes_rest ? 1 : 0), running_[static_cast<size_t>(i)].activity});
    }
    turn_ = (turn_ + rest_ns) % count;
  }

  const GpuActivityColumns& gpu_;
  const std::function<void(const GpuTimePiece&)>& take_;
  const std::pair<GpuIndex, GpuIndex> range_;
  GpuIndex next_;  // not yet started
  int64_t now_ns_ = 0;
  std::vector<Running> running_;
  int64_t turn_ = 0;
};

}  // namespace

std::pair<GpuIndex, GpuIndex> GpuRangeOf(const TraceModel& model, GpuDeviceIndex device) {
  const std::vector<GpuDeviceIndex>& column = model.gpu.device;
  const auto range = std::equal_range(column.begin(), column.end(), device);
  return {static_cast<GpuIndex>(range.first - column.begin()), static_cast<GpuIndex>(range.second - column.begin())};
}

void DivideGpuTime(const TraceModel& model, GpuDeviceIndex device, const IntervalSet& time,
                   const std::function<void(const GpuTimePiece&)>& take) {
  GpuDivision division(model, device, take);
  for (const Interval& interval : time.intervals()) division.Divide(interval.start_ns, interval.end_ns);
}

IntervalSet GpuBlindTime(const TraceModel& model, ProcessIndex process) {
  std::vector<Interval> seen;
  bool is_told = false;
  for (const GpuWindow& window : model.gpu_windows) {
    if (window.process != process) continue;
    is_told = true;
    if (window.source != GpuTimeSource::kNone) seen.push_back({window.start_ns, window.end_ns});
  }
  std::vector<Interval> stopped;
  for (const RecordingStop& stop : model.recording_stops) {
    if (stop.process == process) stopped.push_back({stop.start_ns, stop.end_ns});
  }
  IntervalSet blind(std::move(stopped));
  if (!is_told) return blind;
  const ProcessInfo& info = model.processes[process];
  return blind.Union(IntervalSet({{info.start_ns, info.end_ns}}).Difference(IntervalSet(std::move(seen))));
}

}  // namespace dlhook::analyzer::gpu
