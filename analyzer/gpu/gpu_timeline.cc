// What each GPU did over time: see gpu_timeline.h.
#include "analyzer/gpu/gpu_timeline.h"

#include <utility>

#include "analyzer/gpu/gpu_division.h"
#include "analyzer/layers/gpu_places.h"

namespace dlhook::analyzer::inline gpu {
namespace {

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
