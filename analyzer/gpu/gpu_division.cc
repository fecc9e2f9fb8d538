// One sweep over the edges of a device's activities: see gpu_division.h.
#include "analyzer/gpu/gpu_division.h"

#include <algorithm>

#include "analyzer/layers/gpu_places.h"

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

struct Lists {
  std::vector<Interval> compute, communication, copies, to_device, from_device, busy;
};

void Add(const TraceModel& model, GpuIndex activity, Lists& lists) {
  const Interval interval = {model.gpu.start_ns[activity], model.gpu.end_ns[activity]};
  lists.busy.push_back(interval);
  switch (GpuWorkOf(model, activity)) {
    case GpuWork::kCompute:
      lists.compute.push_back(interval);
      return;
    case GpuWork::kCommunication:
      lists.communication.push_back(interval);
      return;
    case GpuWork::kCopy:
      break;
  }
  const CopyDirection direction = model.gpu.direction[activity];
  if (model.gpu.kind[activity] == GpuActivityKind::kSet || direction == CopyDirection::kSet) return;
  lists.copies.push_back(interval);
  if (direction == CopyDirection::kHostToDevice) lists.to_device.push_back(interval);
  if (direction == CopyDirection::kDeviceToHost) lists.from_device.push_back(interval);
}

GpuTimeline TimelineOf(Lists lists) {
  GpuTimeline timeline;
  timeline.compute_twice = CoveredTwice(lists.compute);
  timeline.copies_twice = CoveredTwice(lists.copies);
  timeline.compute = IntervalSet(std::move(lists.compute));
  timeline.communication = IntervalSet(std::move(lists.communication));
  timeline.copies = IntervalSet(std::move(lists.copies));
  timeline.to_device = IntervalSet(std::move(lists.to_device));
  timeline.from_device = IntervalSet(std::move(lists.from_device));
  timeline.busy = IntervalSet(std::move(lists.busy));
  return timeline;
}

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

std::vector<GpuTimeline> GpuTimelines(const TraceModel& model) {
  std::vector<GpuTimeline> timelines;
  for (GpuDeviceIndex device = 0; device < model.gpu_devices.size(); ++device) {
    const auto [begin, end] = GpuRangeOf(model, device);
    Lists lists;
    for (GpuIndex activity = begin; activity < end; ++activity) Add(model, activity, lists);
    timelines.push_back(TimelineOf(std::move(lists)));
  }
  return timelines;
}

IntervalSet BusyForOthers(const TraceModel& model, const std::vector<GpuTimeline>& timelines, GpuDeviceIndex device) {
  IntervalSet busy;
  const GpuDevice& own = model.gpu_devices[device];
  for (GpuDeviceIndex other = 0; other < model.gpu_devices.size(); ++other) {
    const GpuDevice& candidate = model.gpu_devices[other];
    if (own.uuid.empty() || candidate.uuid != own.uuid || candidate.process == own.process) continue;
    busy = busy.Union(timelines[other].busy);
  }
  return busy;
}

int64_t CoveredIn(const IntervalSet& set, const IntervalSet& time) {
  int64_t covered_ns = 0;
  for (const Interval& interval : time.intervals()) covered_ns += set.CoveredNs(interval.start_ns, interval.end_ns);
  return covered_ns;
}

}  // namespace dlhook::analyzer::gpu
