// Why GPUs do not compute, for the table gpu_idle and for what judges by it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/gpu/gpu_idle.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/tables/table_kind.h"

namespace dlhook::analyzer::inline tables {

struct IdleShare {
  GpuDeviceIndex device = 0;
  IdleCause cause = IdleCause::kUnknown;
  IdlePiece::What what = IdlePiece::What::kNothing;  // kNothing also where it is several small ones
  std::string during;                                // the same in words
  double part = 0;                                   // of the steady steps' time
  int64_t steady_ns = 0;
  int64_t times = 0;        // how often the host did that
  std::string layer, line;  // of the work after the longest gap
};

// By device and cause, each most time first.
std::vector<IdleShare> IdleShares(const TraceModel& model, const TableOptions& options);

}  // namespace dlhook::analyzer::tables
