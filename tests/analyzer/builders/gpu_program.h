// Programs with GPUs, for tests of GPU activity over time: calls and scopes of the host, activities of devices, steps.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/layers/attribution.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/steps/phases.h"
#include "analyzer/tables/tables.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {

struct GpuWorkSpec {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  GpuActivityKind kind = GpuActivityKind::kKernel;
  CopyDirection direction = CopyDirection::kUnknown;
  uint64_t bytes = 0;
  std::string kernel = "gemm";  // for kernels; "nccl…": communication
  uint32_t blocks = 1000;
  int64_t requested_ns = GpuActivityColumns::kNotKnown;
  int64_t call_ns = 0;  // of the launching call, which begins at requested_ns - 1; 0: not recorded
  ThreadIndex thread = kNone;
  GpuDeviceIndex device = 0;
  uint32_t graph = 0;        // of CUDA, that it is a node of
  StackIndex stack = kNone;  // of the launching call
};

class GpuProgram {
 public:
  GpuProgram();  // one device of the first process

  GpuDeviceIndex AddDevice(ProcessIndex process = 0, const std::string& uuid = "");
  void Work(const GpuWorkSpec& work) { works_.push_back(work); }
  void Copy(CopyDirection direction, int64_t start_ns, int64_t end_ns, uint64_t bytes = 1000);
  // Consecutive steady steps of a process.
  void Steps(const std::vector<int64_t>& starts_and_end_ns, ProcessIndex process = 0,
             StepKind kind = StepKind::kTraining, int64_t pause_ns = 0);
  void Batch(int64_t batch);  // of the steps, made before
  // Of the steps, made before, that contain it.
  void Phase(PhaseKind kind, int64_t start_ns, int64_t end_ns);
  // The first steps of the last process that has some.
  void WarmUp(size_t steps);
  void HostCall(const std::string& definition, int64_t start_ns, int64_t end_ns, ThreadIndex thread = 0);
  void Scope(const std::string& name, int64_t start_ns, int64_t end_ns, ThreadIndex thread = 0);

  // Calls of the op are its forward pass; those of others belong to no layer.
  void LayerOf(OpIndex op, Layer layer, LayerDirection direction = LayerDirection::kForward) {
    layers_[op] = {std::move(layer), direction};
  }

  ModelBuilder& builder() { return builder_; }
  const TraceModel& Build(int64_t wall_ns);
  // For the model that was built last.
  Table Run(const std::string& pass, int64_t interval_ns = 0);
  Table Make(const TableKind& kind, int64_t interval_ns = 0, const Peaks* peaks = nullptr);

 private:
  ModelBuilder builder_;
  TraceModel model_;
  std::vector<GpuWorkSpec> works_;
  std::vector<StepTrack> tracks_;
  std::map<OpIndex, std::pair<Layer, LayerDirection>> layers_;
};

}  // namespace dlhook::analyzer
