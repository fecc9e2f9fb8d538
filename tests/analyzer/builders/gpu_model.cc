// GPU work for models in tests: see gpu_model.h.
#include "tests/analyzer/builders/gpu_model.h"

#include <algorithm>
#include <tuple>

#include "analyzer/names/fold_names.h"

namespace dlhook::analyzer {
namespace {

NameIndex NameOf(const std::string& name, TraceModel* model) {
  const auto place = std::find(model->names.begin(), model->names.end(), name);
  return place == model->names.end() ? model->AddName(name) : static_cast<NameIndex>(place - model->names.begin());
}

GpuDeviceIndex DeviceOf(const TraceModel& model, const TestGpuWork& work) {
  for (GpuDeviceIndex device = 0; device < model.gpu_devices.size(); ++device) {
    const GpuDevice& known = model.gpu_devices[device];
    if (known.process == work.process && known.ordinal == work.ordinal) return device;
  }
  return kNone;
}

GpuKernelIndex KernelOf(const std::string& name, TraceModel* model) {
  if (name.empty()) return kNone;
  const NameIndex index = NameOf(name, model);
  for (GpuKernelIndex kernel = 0; kernel < model->gpu_kernels.size(); ++kernel) {
    if (model->gpu_kernels[kernel].name == index) return kernel;
  }
  GpuKernel kernel;
  kernel.name = kernel.short_name = index;
  kernel.is_collective = IsCollectiveKernel(name);
  kernel.grid[0] = 8;
  kernel.block[0] = 256;
  kernel.grid[1] = kernel.grid[2] = kernel.block[1] = kernel.block[2] = 1;
  kernel.registers_per_thread = 32;
  model->gpu_kernels.push_back(kernel);
  return static_cast<GpuKernelIndex>(model->gpu_kernels.size() - 1);
}

// The innermost call of the thread that begins at this time.
CallIndex CallAt(const TraceModel& model, ThreadIndex thread, int64_t start_ns) {
  CallIndex found = kNone;
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    if (model.calls.thread[call] == thread && model.calls.start_ns[call] == start_ns) found = call;
  }
  return found;
}

void Add(const TestGpuWork& work, TraceModel* model) {
  GpuActivityColumns& gpu = model->gpu;
  const CallIndex launch = work.asked_by_ns < 0 ? kNone : CallAt(*model, work.thread, work.asked_by_ns);
  const CallIndex call = work.captured_by_ns < 0 ? launch : CallAt(*model, work.thread, work.captured_by_ns);
  gpu.start_ns.push_back(work.start_ns);
  gpu.end_ns.push_back(work.start_ns + work.duration_ns);
  gpu.kind.push_back(work.kind);
  gpu.source.push_back(GpuTimeSource::kCupti);
  gpu.device.push_back(DeviceOf(*model, work));
  gpu.stream.push_back(7);
  gpu.kernel.push_back(KernelOf(work.kernel, model));
  gpu.bytes.push_back(work.bytes);
  gpu.direction.push_back(work.direction);
  gpu.host_memory.push_back(work.host_memory);
  gpu.graph.push_back(work.graph);
  gpu.launch_call.push_back(launch);
  gpu.call.push_back(call);
  gpu.thread.push_back(launch == kNone ? kNone : work.thread);
  gpu.requested_ns.push_back(launch == kNone ? GpuActivityColumns::kNotKnown : work.asked_by_ns);
  if (model->scopes.size() > 0) gpu.scope.push_back(call == kNone ? kNone : model->calls.ScopeOf(call));
}

}  // namespace

void AddGpuWork(const std::vector<TestGpuWork>& work, TraceModel* model) {
  std::vector<TestGpuWork> sorted = work;
  std::stable_sort(sorted.begin(), sorted.end(), [](const TestGpuWork& a, const TestGpuWork& b) {
    return std::make_tuple(a.process, a.ordinal, a.start_ns, a.start_ns + a.duration_ns) <
           std::make_tuple(b.process, b.ordinal, b.start_ns, b.start_ns + b.duration_ns);
  });
  for (const TestGpuWork& one : sorted) {
    if (DeviceOf(*model, one) != kNone) continue;
    GpuDevice device;
    device.process = one.process;
    device.ordinal = one.ordinal;
    device.compute_capability = 90;
    device.memory_bytes_per_second = 4'000'000'000'000;
    device.link_bytes_per_second = 50'000'000'000;
    model->gpu_devices.push_back(device);
  }
  for (const TestGpuWork& one : sorted) Add(one, model);
}

}  // namespace dlhook::analyzer
