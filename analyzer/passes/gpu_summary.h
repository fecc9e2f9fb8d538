// What the table `summary` says of GPUs.
#ifndef DLHOOK_ANALYZER_PASSES_GPU_SUMMARY_H_
#define DLHOOK_ANALYZER_PASSES_GPU_SUMMARY_H_

#include "analyzer/model/trace_model.h"
#include "analyzer/passes/pass.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer {

// Rows metric, value, unit, percent, note. None where the run has no times of GPUs.
void AddGpuMetrics(const TraceModel& model, const PassOptions& options, Table* summary);

}  // namespace dlhook::analyzer

#endif  // DLHOOK_ANALYZER_PASSES_GPU_SUMMARY_H_
