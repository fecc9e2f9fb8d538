// Programs with GPUs: see gpu_program.h.
#include "tests/analyzer/builders/gpu_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "analyzer/names/fold_names.h"
#include "analyzer/steps/compared_steps.h"

namespace dlhook::analyzer {
namespace {

GpuKernelIndex KernelOf(const GpuWorkSpec& work, ModelBuilder& builder) {
  if (work.kind != GpuActivityKind::kKernel || work.kernel.empty()) return kNone;
  GpuKernel kernel;
  kernel.name = kernel.short_name = builder.AddName(work.kernel);
  kernel.is_collective = IsCollectiveKernel(work.kernel);
  kernel.grid[0] = work.blocks;
  kernel.grid[1] = kernel.grid[2] = 1;
  builder.model().gpu_kernels.push_back(kernel);
  return static_cast<GpuKernelIndex>(builder.model().gpu_kernels.size() - 1);
}

CallIndex CallThatAsked(const TraceModel& model, const GpuWorkSpec& work) {
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    if (model.calls.thread[call] == work.thread && model.calls.start_ns[call] == work.requested_ns - 1) return call;
  }
  ADD_FAILURE() << "no call at " << work.requested_ns - 1;
  return kNone;
}

void Append(const GpuWorkSpec& work, GpuKernelIndex kernel, GpuActivityColumns& gpu) {
  gpu.start_ns.push_back(work.start_ns);
  gpu.end_ns.push_back(work.end_ns);
  gpu.kind.push_back(work.kind);
  gpu.source.push_back(GpuTimeSource::kCupti);
  gpu.device.push_back(work.device);
  gpu.stream.push_back(7);
  gpu.kernel.push_back(kernel);
  gpu.bytes.push_back(work.bytes);
  gpu.direction.push_back(work.direction);
  gpu.host_memory.push_back(HostMemory::kPinned);
  gpu.graph.push_back(work.graph);
  gpu.launch_call.push_back(kNone);
  gpu.call.push_back(kNone);
  gpu.thread.push_back(work.thread);
  gpu.requested_ns.push_back(work.requested_ns);
}

}  // namespace

GpuProgram::GpuProgram() { AddDevice(); }

GpuDeviceIndex GpuProgram::AddDevice(ProcessIndex process, const std::string& uuid) {
  std::vector<GpuDevice>& devices = builder_.model().gpu_devices;
  GpuDevice device;
  device.process = process;
  for (const GpuDevice& other : devices) device.ordinal += other.process == process ? 1 : 0;
  device.uuid = uuid;
  device.multiprocessors = 100;
  device.link_bytes_per_second = 1'000'000'000;  // 1 byte/ns
  devices.push_back(device);
  return static_cast<GpuDeviceIndex>(devices.size() - 1);
}

void GpuProgram::Copy(CopyDirection direction, int64_t start_ns, int64_t end_ns, uint64_t bytes) {
  Work(
      {.start_ns = start_ns, .end_ns = end_ns, .kind = GpuActivityKind::kCopy, .direction = direction, .bytes = bytes});
}

void GpuProgram::Steps(const std::vector<int64_t>& starts_and_end_ns, ProcessIndex process, StepKind kind,
                       int64_t pause_ns) {
  StepTrack track;
  track.process = process;
  for (size_t i = 0; i + 1 < starts_and_end_ns.size(); ++i) {
    Step step;
    step.start_ns = starts_and_end_ns[i];
    step.end_ns = starts_and_end_ns[i + 1] - pause_ns;
    step.kind = kind;
    track.steps.push_back(step);
  }
  tracks_.push_back(std::move(track));
}

void GpuProgram::Batch(int64_t batch) {
  for (StepTrack& track : tracks_) {
    for (Step& step : track.steps) step.batch = step.samples = batch;
  }
}

void GpuProgram::Phase(PhaseKind kind, int64_t start_ns, int64_t end_ns) {
  for (StepTrack& track : tracks_) {
    for (Step& step : track.steps) {
      if (step.start_ns <= start_ns && end_ns <= step.end_ns) step.phases.push_back({start_ns, end_ns, kind});
    }
  }
}

void GpuProgram::WarmUp(size_t steps) {
  for (size_t i = 0; i < steps; ++i) tracks_.back().steps[i].is_warm_up = true;
}

void GpuProgram::HostCall(const std::string& definition, int64_t start_ns, int64_t end_ns, ThreadIndex thread) {
  builder_.Call(builder_.AddOp(Definition(definition + " time_source: CLOCK_TICKS")), start_ns, end_ns - start_ns,
                thread);
}

void GpuProgram::Scope(const std::string& name, int64_t start_ns, int64_t end_ns, ThreadIndex thread) {
  const auto kind = name.find("DataLoader") == std::string::npos ? ScopeKind::kFrameworkOp : ScopeKind::kUserRange;
  builder_.Scope(name, kind, start_ns, end_ns - start_ns, thread);
}

const TraceModel& GpuProgram::Build(int64_t wall_ns) {
  for (const GpuWorkSpec& work : works_) {
    if (work.call_ns == 0) continue;
    HostCall("function: 'cudaLaunchKernel' family: 'cuda_launch'", work.requested_ns - 1,
             work.requested_ns - 1 + work.call_ns, work.thread);
    if (work.stack != kNone) builder_.StackOfLastCall(work.stack);
  }
  std::stable_sort(works_.begin(), works_.end(), [](const GpuWorkSpec& a, const GpuWorkSpec& b) {
    return std::tie(a.device, a.start_ns, a.end_ns) < std::tie(b.device, b.start_ns, b.end_ns);
  });
  for (const GpuWorkSpec& work : works_) Append(work, KernelOf(work, builder_), builder_.model().gpu);
  model_ = builder_.Build(wall_ns);
  for (GpuIndex i = 0; i < works_.size(); ++i) {
    if (works_[i].call_ns > 0) model_.gpu.call[i] = model_.gpu.launch_call[i] = CallThatAsked(model_, works_[i]);
  }
  return model_;
}

Table GpuProgram::Make(const TableKind& kind, int64_t interval_ns, const Peaks* peaks) {
  const Choices choices = ResolveChoices(&model_);
  const RunTotals totals = ComputeTotals(model_);
  Attribution attribution;
  attribution.of_call.resize(model_.calls.size());
  for (const auto& [op, layer_and_direction] : layers_) {
    const auto& [layer, direction] = layer_and_direction;
    // Several ops of one layer follow one another.
    if (attribution.layers.empty() || attribution.layers.back().name != layer.name) attribution.layers.push_back(layer);
    for (CallIndex call = 0; call < model_.calls.size(); ++call) {
      if (model_.calls.op[call] != op) continue;
      attribution.of_call[call] = {static_cast<LayerIndex>(attribution.layers.size() - 1), direction};
    }
  }
  attribution.of_scope.Fill(model_.scopes.size(), Place());
  const LayerAnalysis analysis(model_, std::move(attribution), Judged(tracks_));
  absl::StatusOr<Table> table = kind.run(
      model_,
      {.choices = &choices, .totals = &totals, .analysis = &analysis, .peaks = peaks, .interval_ns = interval_ns});
  EXPECT_TRUE(table.ok()) << table.status();
  CheckShape(*table);
  return *std::move(table);
}

Table GpuProgram::Run(const std::string& kind, int64_t interval_ns) {
  for (const TableKind& candidate : TableKinds()) {
    if (candidate.name == kind) return Make(candidate, interval_ns);
  }
  ADD_FAILURE() << kind;
  return {};
}

}  // namespace dlhook::analyzer
