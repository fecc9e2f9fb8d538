// See gpu_clock.h.
#include "analyzer/reader/gpu_clock.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/reader/gpu_links.h"

namespace dlhook::analyzer::inline reader {
namespace {

// Less is within what tables of GPU work say of a launch.
constexpr int64_t kWorthSayingNs = 10'000;
// A wait of a stream that takes this long had something to wait for.
constexpr int64_t kWaitedNs = 20'000;

// Which stream a call waits for is not recorded: if only one has any work, a wait that took time was for it.
bool WaitsForAll(const TraceModel& model, CallIndex call, bool is_one_stream) {
  const Op& op = model.ops[model.calls.op[call]];
  if (op.family != "cuda_sync" || op.captured || model.StatusOf(call) != 0) return false;
  if (absl::EndsWith(op.function, "StreamSynchronize"))
    return is_one_stream && model.calls.duration_ns[call] >= kWaitedNs;
  return op.function == "cudaDeviceSynchronize" || absl::StartsWith(op.function, "cuCtxSynchronize");
}

bool WaitsForItself(const Op& op) {
  const CopyCall* copy = op.copy();
  return copy != nullptr && !op.captured && copy->direction == CopyDirection::kDeviceToHost &&
         (!copy->asynchronous || copy->host_memory == HostMemory::kPageable);
}

// Waits for a whole device: when they began, ascending, and the earliest return of this one and the later ones.
class DeviceWaits {
 public:
  DeviceWaits(const std::map<uint32_t, ThreadIndex>& threads, const TraceModel& model, bool is_one_stream) {
    for (const auto& [id, thread] : threads) {
      const auto [first, last] = model.calls.RangeOf(thread);
      for (CallIndex call = first; call < last; ++call) {
        if (!WaitsForAll(model, call, is_one_stream)) continue;
        waits_.emplace_back(model.calls.start_ns[call], model.calls.start_ns[call] + model.calls.duration_ns[call]);
      }
    }
    std::sort(waits_.begin(), waits_.end());
    for (size_t i = waits_.size(); i-- > 1;) waits_[i - 1].second = std::min(waits_[i - 1].second, waits_[i].second);
  }

  // When the first wait for work requested then had returned; INT64_MAX: none.
  int64_t ReturnedNs(int64_t requested_ns) const {
    const auto wait = std::lower_bound(waits_.begin(), waits_.end(), std::pair(requested_ns, INT64_MIN));
    return wait == waits_.end() ? INT64_MAX : wait->second;
  }

 private:
  std::vector<std::pair<int64_t, int64_t>> waits_;
};

// How far the GPU's clock is ahead of the host's.
struct Ahead {
  int64_t least_ns = std::numeric_limits<int64_t>::min();
  int64_t most_ns = std::numeric_limits<int64_t>::max();
};

void Move(int64_t by_ns, size_t i, GpuActivityColumns* gpu) {
  gpu->start_ns[i] += by_ns;
  gpu->end_ns[i] += by_ns;
  // These may be shorter: later processes need not have any.
  for (std::vector<int64_t>* column : {&gpu->queued_ns, &gpu->submitted_ns}) {
    if (i < column->size() && (*column)[i] != GpuActivityColumns::kNotKnown) (*column)[i] += by_ns;
  }
}

}  // namespace

void BoundGpuClocks(size_t first, const std::map<uint32_t, ThreadIndex>& threads, TraceModel* model,
                    Oddities* oddities) {
  GpuActivityColumns& gpu = model->gpu;
  model->gpu_clock_error_ns.resize(model->gpu_devices.size(), 0);
  if (first == gpu.size()) return;
  const bool is_one_device = gpu.device[first] == gpu.device[gpu.size() - 1];
  const bool is_one_stream = std::all_of(gpu.stream.begin() + static_cast<std::ptrdiff_t>(first), gpu.stream.end(),
                                         [&](uint32_t stream) { return stream == gpu.stream[first]; });
  const DeviceWaits waits(threads, *model, is_one_stream);
  std::vector<Ahead> bounds(model->gpu_devices.size());
  // Work that seems earlier than its call by more than this was joined with another call.
  const auto is_usable = [&](size_t i) {
    return gpu.source[i] == GpuTimeSource::kCupti && gpu.requested_ns[i] != GpuActivityColumns::kNotKnown &&
           gpu.start_ns[i] >= gpu.requested_ns[i] - kGpuClockErrorNs;
  };
  for (size_t i = first; i < gpu.size(); ++i) {
    if (!is_usable(i)) continue;
    Ahead& bound = bounds[gpu.device[i]];
    bound.most_ns = std::min(bound.most_ns, gpu.start_ns[i] - gpu.requested_ns[i]);
    int64_t returned_ns = is_one_device ? waits.ReturnedNs(gpu.requested_ns[i]) : INT64_MAX;
    const CallIndex call = gpu.launch_call[i];
    if (call != kNone && WaitsForItself(model->ops[model->calls.op[call]])) {
      returned_ns = std::min(returned_ns, model->calls.start_ns[call] + model->calls.duration_ns[call]);
    }
    if (returned_ns != INT64_MAX) bound.least_ns = std::max(bound.least_ns, gpu.end_ns[i] - returned_ns);
  }
  // Where the bounds exclude each other (the clocks drift), no work may precede its request.
  for (GpuDeviceIndex device = gpu.device[first]; device < bounds.size(); ++device) {
    const Ahead& bound = bounds[device];
    const int64_t ahead_ns = std::min(std::max(bound.least_ns, int64_t{0}), bound.most_ns);
    if (bound.most_ns == std::numeric_limits<int64_t>::max()) continue;
    model->gpu_clock_error_ns[device] = std::max(bound.most_ns, bound.least_ns) - ahead_ns;
    const int64_t apart_ns = std::max(ahead_ns, -ahead_ns);
    if (apart_ns >= kWorthSayingNs) {
      oddities->Count(absl::StrCat("a GPU whose clock is ", ahead_ns > 0 ? "ahead of" : "behind", " the host's by ",
                                   apart_ns / 1000,
                                   " us: it seemed to end work after the program had waited for it, or to begin it "
                                   "before the request (its times were moved)"));
    }
    if (bound.least_ns > bound.most_ns && bound.least_ns - bound.most_ns >= kWorthSayingNs) {
      oddities->Count(absl::StrCat("a GPU whose clock drifts against the host's by ",
                                   (bound.least_ns - bound.most_ns) / 1000, " us (its times are only as exact)"));
    }
    bounds[device].least_ns = ahead_ns;
  }
  for (size_t i = first; i < gpu.size(); ++i) {
    const Ahead& bound = bounds[gpu.device[i]];
    if (gpu.source[i] == GpuTimeSource::kCupti && bound.most_ns != std::numeric_limits<int64_t>::max())
      Move(-bound.least_ns, i, &gpu);
  }
}

}  // namespace dlhook::analyzer::reader
