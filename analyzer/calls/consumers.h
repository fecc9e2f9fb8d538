// Which op reads what a call wrote, as far as operand addresses show it.
#ifndef DLHOOK_ANALYZER_CALLS_CONSUMERS_H_
#define DLHOOK_ANALYZER_CALLS_CONSUMERS_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline calls {

// For calls of the ops in `is_producer` (by op index): the next library call of the same thread that reads the address
// written (the last operand). Only the next few library calls count, and none after the address was written again:
// memory is soon reused for other tensors by kernels with unknown operands.
absl::flat_hash_map<CallIndex, CallIndex> FindConsumers(const TraceModel& model, const std::vector<bool>& is_producer);

}  // namespace dlhook::analyzer::calls

#endif  // DLHOOK_ANALYZER_CALLS_CONSUMERS_H_
