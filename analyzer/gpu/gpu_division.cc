#include "analyzer/gpu/gpu_idle.h"
#include "analyzer/steps/step_groups.h"

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
      absl::c_push_heap(running_, std::greater<>());
    }
  }

  void LetEnd() {
    while (!running_.empty() && running_.front().end_ns <= now_ns_) {
      absl::c_pop_heap(running_, std::greater<>());
      running_.pop_back();
    }
  }

  // Remainders go to the activities in turn.
  void DividePiece(int64_t end_ns) {
    if (running_.empty()) return take_({now_ns_, end_ns, end_ns - now_ns_, kNone});
    const auto count = std::ssize(running_);
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

// The most relevant kind: training, else inference; what repeats during set-up may take longer.
int Telling(StepKind kind) {
  return kind == StepKind::kTraining ? 3 : kind == StepKind::kInference ? 2 : kind == StepKind::kValidation ? 1 : 0;
}

IntervalSet TimeOf(const std::vector<const Step*>& steps) {
  std::vector<Interval> spans;
  for (const Step* step : steps) spans.push_back({step->start_ns, step->end_ns});
  return IntervalSet(std::move(spans));
}

std::vector<const Step*> MeasuredSteps(const std::vector<const Step*>& steps, const IntervalSet& blind) {
  std::vector<const Step*> measured = steps;
  std::erase_if(measured, [&](const Step* step) { return blind.CoveredNs(step->start_ns, step->end_ns) > 0; });
  return measured.empty() ? steps : measured;
}

int64_t CommonBatch(const std::vector<const Step*>& steps) {
  const int64_t batch = steps.front()->samples;
  const bool is_common = absl::c_all_of(steps, [&](const Step* step) { return step->samples == batch; });
  return is_common ? batch : 0;
}

constexpr uint32_t kWarp = 32;  // threads
constexpr uint32_t kRegisters = 65536;
constexpr uint32_t kSubPartitions = 4;    // of a multiprocessor; each has its part of the registers
constexpr uint32_t kMostRegisters = 255;  // of a thread, by its instructions
constexpr uint32_t kRegistersStep = 256;  // allocation unit of a warp's registers

struct Multiprocessor {
  uint32_t compute_capability;  // major * 10 + minor
  uint32_t warps;
  uint32_t blocks;
  uint32_t shared_bytes;
  uint32_t shared_step;      // allocation unit of a block's shared memory, bytes
  uint32_t shared_reserved;  // of each block, for the system
};

constexpr Multiprocessor kMultiprocessors[] = {
    {70, 64, 32, 96 << 10, 256, 0},      {72, 64, 32, 96 << 10, 256, 0},      {75, 32, 16, 64 << 10, 256, 0},
    {80, 64, 32, 164 << 10, 128, 1024},  {86, 48, 16, 100 << 10, 128, 1024},  {87, 48, 16, 164 << 10, 128, 1024},
    {89, 48, 24, 100 << 10, 128, 1024},  {90, 64, 32, 228 << 10, 128, 1024},  {100, 64, 32, 228 << 10, 128, 1024},
    {103, 64, 32, 228 << 10, 128, 1024}, {110, 48, 24, 228 << 10, 128, 1024}, {120, 48, 24, 100 << 10, 128, 1024},
    {121, 48, 24, 100 << 10, 128, 1024},
};

uint32_t RoundUp(uint32_t value, uint32_t step) { return (value + step - 1) / step * step; }

uint32_t BlocksByRegisters(uint32_t registers_per_thread, uint32_t warps_per_block) {
  const uint32_t of_warp = RoundUp(registers_per_thread * kWarp, kRegistersStep);
  return kRegisters / kSubPartitions / of_warp * kSubPartitions / warps_per_block;
}

}  // namespace

std::pair<GpuIndex, GpuIndex> GpuRangeOf(const TraceModel& model, GpuDeviceIndex device) {
  const std::vector<GpuDeviceIndex>& column = model.gpu.device;
  const auto range = absl::c_equal_range(column, device);
  return {static_cast<GpuIndex>(range.first - column.begin()), static_cast<GpuIndex>(range.second - column.begin())};
}

void DivideGpuTime(const TraceModel& model, GpuDeviceIndex device, const IntervalSet& time,
                   const std::function<void(const GpuTimePiece&)>& take) {
  GpuDivision division(model, device, take);
  for (const Interval& interval : time.intervals()) division.Divide(interval.start_ns, interval.end_ns);
}

IntervalSet GpuUnmeasuredTime(const TraceModel& model, ProcessIndex process) {
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

IntervalSet GpuBlindTime(const TraceModel& model, ProcessIndex process) {
  const IntervalSet unmeasured = GpuUnmeasuredTime(model, process);
  const GpuActivityColumns& gpu = model.gpu;
  std::vector<Interval> more;
  for (GpuDeviceIndex device = 0; device < model.gpu_devices.size(); ++device) {
    if (model.gpu_devices[device].process != process) continue;
    const auto [begin, end] = GpuRangeOf(model, device);
    for (const Interval& span : unmeasured.intervals()) {
      const auto first = std::lower_bound(gpu.start_ns.begin() + begin, gpu.start_ns.begin() + end, span.end_ns);
      const auto activity = static_cast<GpuIndex>(first - gpu.start_ns.begin());
      if (activity == end || gpu.requested_ns[activity] < span.end_ns) continue;  // kNotKnown, too
      const CallIndex call = gpu.launch_call[activity];
      const int64_t asked_ns = call == kNone ? gpu.requested_ns[activity] : model.calls.EndOf(call);
      if (*first > asked_ns + kLaunchLatencyNs) more.push_back({span.end_ns, *first});
    }
  }
  return unmeasured.Union(IntervalSet(std::move(more)));
}

std::vector<GpuTimeline> GpuTimelines(const TraceModel& model) {
  std::vector<GpuTimeline> timelines;
  for (GpuDeviceIndex device = 0; device < model.gpu_devices.size(); ++device) {
    const auto [begin, end] = GpuRangeOf(model, device);
    std::vector<Interval> compute, communication, copies, to_device, from_device, busy;
    for (GpuIndex activity = begin; activity < end; ++activity) {
      const Interval time = {model.gpu.start_ns[activity], model.gpu.end_ns[activity]};
      const GpuWork work = GpuWorkOf(model, activity);
      const CopyDirection direction = model.gpu.direction[activity];
      busy.push_back(time);
      if (work == GpuWork::kCompute) compute.push_back(time);
      if (work == GpuWork::kCommunication) communication.push_back(time);
      const bool is_set = model.gpu.kind[activity] == GpuActivityKind::kSet || direction == CopyDirection::kSet;
      if (work != GpuWork::kCopy || is_set) continue;
      copies.push_back(time);
      if (direction == CopyDirection::kHostToDevice) to_device.push_back(time);
      if (direction == CopyDirection::kDeviceToHost) from_device.push_back(time);
    }
    GpuTimeline& timeline = timelines.emplace_back();
    timeline.compute_twice = CoveredTwice(compute);
    timeline.copies_twice = CoveredTwice(copies);
    timeline.compute = IntervalSet(std::move(compute));
    timeline.communication = IntervalSet(std::move(communication));
    timeline.copies = IntervalSet(std::move(copies));
    timeline.to_device = IntervalSet(std::move(to_device));
    timeline.from_device = IntervalSet(std::move(from_device));
    timeline.busy = IntervalSet(std::move(busy));
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

std::vector<MeasuredTime> MeasuredTimes(const TraceModel& model, const std::vector<StepTrack>& steps) {
  std::vector<MeasuredTime> times(model.processes.size());
  std::vector<StepGroup> groups = GroupSteps(steps);  // most time first
  absl::c_stable_sort(groups, [](const StepGroup& a, const StepGroup& b) { return Telling(a.kind) > Telling(b.kind); });
  for (const StepGroup& group : groups) {
    MeasuredTime& time = times[group.process];
    if (time.steps > 0) continue;
    const std::vector<const Step*> measured = MeasuredSteps(group.steady, GpuBlindTime(model, group.process));
    time.kind = group.kind;
    time.sort = group.sort;
    time.steps = std::ssize(measured);
    time.batch = CommonBatch(measured);
    time.time = TimeOf(measured);
    time.all_steps = std::ssize(group.steady);
    time.duration_ns = TimeOf(group.steady).total_ns();
    time.left_out = group.left_out;
  }
  for (ProcessIndex i = 0; i < times.size(); ++i) {
    const ProcessInfo& process = model.processes[i];
    if (times[i].steps == 0) {
      times[i].time = IntervalSet({{process.start_ns, process.end_ns}});
      times[i].duration_ns = times[i].time.total_ns();
    }
    times[i].time = times[i].time.Difference(GpuBlindTime(model, i));
  }
  return times;
}

std::vector<DeviceWork> WorkOfDevices(const TraceModel& model, const std::vector<MeasuredTime>& times) {
  std::vector<DeviceWork> works;
  const GpuActivityColumns& gpu = model.gpu;
  for (GpuDeviceIndex device = 0; device < model.gpu_devices.size(); ++device) {
    const auto [begin, end] = GpuRangeOf(model, device);
    if (begin == end) continue;
    const IntervalSet& time = times[model.gpu_devices[device].process].time;
    DeviceWork& work = works.emplace_back();
    work.device = device;
    std::array<std::vector<Interval>, 3> spans;  // by GpuWork
    for (GpuIndex i = begin; i < end; ++i) {
      spans[static_cast<size_t>(GpuWorkOf(model, i))].push_back({gpu.start_ns[i], gpu.end_ns[i]});
      (gpu.source[i] == GpuTimeSource::kEvents ? work.is_events : work.is_cupti) = true;
      if (time.CoveredNs(gpu.start_ns[i], gpu.start_ns[i] + 1) == 0) continue;
      const bool is_copy = gpu.kind[i] == GpuActivityKind::kCopy || gpu.kind[i] == GpuActivityKind::kSet;
      ++(is_copy ? work.copies : work.kernels);
      work.copied_bytes += is_copy ? static_cast<int64_t>(gpu.bytes[i]) : 0;
    }
    IntervalSet* const sets[] = {&work.compute, &work.copy, &work.communication};
    for (size_t i = 0; i < spans.size(); ++i) *sets[i] = IntervalSet(std::move(spans[i])).Intersection(time);
  }
  return works;
}

std::vector<ProcessIndex> ByRank(const TraceModel& model) {
  std::vector<std::pair<int64_t, ProcessIndex>> order;
  for (ProcessIndex i = 0; i < model.processes.size(); ++i) {
    int64_t rank = 0;
    order.emplace_back(absl::SimpleAtoi(RankOf(model.processes[i]), &rank) ? rank : INT64_MAX, i);
  }
  absl::c_sort(order);
  std::vector<ProcessIndex> processes;
  for (const auto& [rank, process] : order) processes.push_back(process);
  return processes;
}

std::optional<double> TheoreticalOccupancy(const GpuKernel& kernel, uint32_t compute_capability) {
  const auto* limits = absl::c_find_if(
      kMultiprocessors, [&](const Multiprocessor& one) { return one.compute_capability == compute_capability; });
  const uint64_t threads = uint64_t{kernel.block[0]} * kernel.block[1] * kernel.block[2];
  if (limits == std::end(kMultiprocessors) || threads == 0 || threads > 1024) return {};
  if (kernel.registers_per_thread == 0 || kernel.registers_per_thread > kMostRegisters) return {};
  const uint32_t warps_per_block = (static_cast<uint32_t>(threads) + kWarp - 1) / kWarp;
  uint32_t blocks = std::min(limits->blocks, limits->warps / warps_per_block);
  blocks = std::min(blocks, BlocksByRegisters(kernel.registers_per_thread, warps_per_block));
  const uint64_t shared_bytes =
      uint64_t{kernel.static_shared_bytes} + kernel.dynamic_shared_bytes + limits->shared_reserved;
  if (shared_bytes > limits->shared_bytes) return {};
  const uint32_t of_block = RoundUp(static_cast<uint32_t>(shared_bytes), limits->shared_step);
  if (of_block > 0) blocks = std::min(blocks, limits->shared_bytes / of_block);
  if (blocks == 0) return {};  // such a block can't run: a number is wrong
  return static_cast<double>(blocks * warps_per_block) / limits->warps;
}

}  // namespace dlhook::analyzer::gpu
