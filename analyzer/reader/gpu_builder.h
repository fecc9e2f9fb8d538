// GPU activities of one process trace -> model.gpu, with devices, kernels and windows.
#pragma once

#include "analyzer/model/oddities.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/reader/gpu_links.h"
#include "analyzer/reader/staging.h"
#include "proto/trace.pb.h"

namespace dlhook::analyzer::inline reader {

class GpuBuilder {
 public:
  // `budget`: for the durations of all GPU work of the run.
  GpuBuilder(TraceModel* model, GpuKernelTable* kernels, TimeBudget* budget, Oddities* oddities)
      : model_(model),
        kernels_(kernels),
        budget_(budget),
        oddities_(oddities),
        process_(static_cast<ProcessIndex>(model->processes.size())) {}

  // `names` already has those of `interned`.
  void AddDefinitions(const trace::Interned& interned, PythonBuilder* names);
  void Reset() { kernel_by_iid_.clear(); }
  void AddActivities(const trace::GpuActivityBatch& batch);
  void AddLinks(const trace::GpuLinkBatch& batch) { links_.Add(batch, oddities_); }
  void AddNodes(const trace::GpuGraphNodeBatch& batch) { nodes_.Add(batch, oddities_); }
  void AddDevice(const trace::GpuDevice& device);
  void AddWindow(const trace::GpuWindow& window) { windows_.push_back(window); }

  // Call when the threads' calls and scopes are in the model. Returns the end of the last work with a known request;
  // INT64_MIN: none.
  int64_t Finish(const ClockMap& clock, const std::vector<trace::ClockSample>& samples, const ThreadIndices& threads);
  // Call when the process's bounds are known. What a process that did not exit had not reported yet is lost.
  void FinishWindows(int64_t start_ns, int64_t end_ns, bool has_exited);

 private:
  GpuKernelIndex KernelOf(uint32_t iid);
  void BeginWindows(const ClockMap& clock);
  void FindCopies();
  void FindTensorCores();
  std::map<uint32_t, GpuDeviceIndex> AppendDevices();
  void DropImpossibleTimes();
  void Append();

  TraceModel* model_;
  GpuKernelTable* kernels_;
  TimeBudget* budget_;
  Oddities* oddities_;
  ProcessIndex process_;
  StagingArray<StagedGpu> work_;
  std::vector<GpuKernelIndex> kernel_by_iid_;  // kNone: not defined since the last Reset
  std::map<uint32_t, GpuDevice> devices_;      // by ordinal
  std::vector<trace::GpuWindow> windows_;
  size_t first_window_ = 0;  // in the model
  size_t first_work_ = 0;
  GpuLinks links_;
  GpuNodes nodes_;
};

// Extends columns that only some processes fill to the length of the others.
void FinishGpuColumns(TraceModel* model);

}  // namespace dlhook::analyzer::reader
