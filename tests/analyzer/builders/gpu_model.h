// GPU work for models built by ModelBuilder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer {

struct TestGpuWork {
  GpuActivityKind kind = GpuActivityKind::kKernel;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  int64_t asked_by_ns = -1;  // start of the requesting innermost call on `thread`; -1: not known
  std::string kernel = {};   // full and demangled
  uint32_t ordinal = 0;
  uint64_t bytes = 0;
  CopyDirection direction = CopyDirection::kUnknown;
  HostMemory host_memory = HostMemory::kNone;
  uint32_t graph = 0;
  int64_t captured_by_ns = -1;  // start of the captured call that created the graph's node
  ProcessIndex process = 0;
  ThreadIndex thread = 0;
};

// Adds devices, kernels (8 blocks of 256 threads, 32 registers) and activities to a finished model; links them to its
// calls and scopes like the model's own builder.
void AddGpuWork(const std::vector<TestGpuWork>& work, TraceModel* model);

}  // namespace dlhook::analyzer
