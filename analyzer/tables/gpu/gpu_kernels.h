// The table `kernels` of a run with GPU times of kernels.
#pragma once

#include <string>
#include <vector>

#include "analyzer/model/trace_model.h"
#include "analyzer/table/table.h"
#include "analyzer/tables/table_kind.h"

namespace dlhook::analyzer::inline tables {

// Rows by kernel, layer and launcher.
Table GpuKernelsTable(const TraceModel& model, const TableOptions& options);

// What GPU work was done for: the library's op ("convolution backward-data"), else the framework's ("aten::add_"), else
// "application" for a call outside both, "not known" if no hook saw the call.
std::string GpuAskerOf(const TraceModel& model, GpuIndex activity);

// For each activity: whether it is the first launch of its kernel in its process, which also loads the kernel (CUDA's
// lazy loading).
std::vector<bool> FirstLaunches(const TraceModel& model);

}  // namespace dlhook::analyzer::tables
