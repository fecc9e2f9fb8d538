// GPU times of copies: see gpu_copies.h.
#include "analyzer/tables/gpu/gpu_copies.h"

#include <algorithm>

#include "analyzer/layers/gpu_places.h"

namespace dlhook::analyzer::inline tables {
namespace {

using GpuCopiesKind = GpuActivityKind;

// Peak bytes per second for such a copy; 0: not known. A copy inside a device reads and writes its memory.
double PeakOf(const GpuDevice& device, CopyDirection direction) {
  const auto link = static_cast<double>(device.link_bytes_per_second);
  const auto memory = static_cast<double>(device.memory_bytes_per_second);
  switch (direction) {
    case CopyDirection::kHostToDevice:
    case CopyDirection::kDeviceToHost:
      return link;
    case CopyDirection::kDeviceToDevice:
      return memory / 2;
    case CopyDirection::kSet:
      return memory;
    default:
      return 0;
  }
}

}  // namespace

std::string GpuCopySum::Source() const {
  if (is_cupti && is_events) return "cupti, events";
  return is_cupti ? "cupti" : "events";
}

bool GpuCopies::IsCopy(GpuIndex activity) const {
  const GpuCopiesKind kind = model_.gpu.kind[activity];
  return kind == GpuCopiesKind::kCopy || kind == GpuCopiesKind::kSet ||
         (kind == GpuCopiesKind::kOp && GpuWorkOf(model_, activity) == GpuWork::kCopy);
}

void GpuCopies::Add(GpuIndex activity, GpuCopySum* sum) const {
  const GpuActivityColumns& gpu = model_.gpu;
  const int64_t duration_ns = gpu.DurationNs(activity);
  const auto bytes = static_cast<int64_t>(gpu.bytes[activity]);
  ++sum->copies;
  sum->bytes += bytes;
  sum->busy_ns += duration_ns;
  const IntervalSet& compute = timelines_[gpu.device[activity]].compute;
  sum->beside_compute_ns += compute.CoveredNs(gpu.start_ns[activity], gpu.end_ns[activity]);
  (gpu.source[activity] == GpuTimeSource::kEvents ? sum->is_events : sum->is_cupti) = true;
  if (duration_ns <= 0 || bytes == 0) return;
  const double rate = static_cast<double>(bytes) / static_cast<double>(duration_ns);
  sum->min_rate = sum->timed_ns == 0 ? rate : std::min(sum->min_rate, rate);
  sum->max_rate = std::max(sum->max_rate, rate);
  sum->timed_bytes += bytes;
  sum->timed_ns += duration_ns;
  const double peak = PeakOf(model_.gpu_devices[gpu.device[activity]], gpu.direction[activity]);
  if (peak <= 0) return;
  sum->peak_bytes += peak / 1e9 * static_cast<double>(duration_ns);
  sum->peak_of_bytes += bytes;
}

}  // namespace dlhook::analyzer::tables
