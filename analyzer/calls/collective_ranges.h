// Collective operations that torch.distributed reports as ranges: those of backends whose libraries have no hooks
// (Gloo, UCC). NCCL's and MPI's are calls.
#ifndef DLHOOK_ANALYZER_CALLS_COLLECTIVE_RANGES_H_
#define DLHOOK_ANALYZER_CALLS_COLLECTIVE_RANGES_H_

#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline calls {

// "gloo:all_reduce" -> kAllReduce; nullopt for other names. kUnknown: another operation of the backend.
std::optional<CollectiveKind> CollectiveOf(absl::string_view name);

// By name: whether its ranges are collective operations.
std::vector<bool> CollectiveNames(const TraceModel& model);

}  // namespace dlhook::analyzer::calls

#endif  // DLHOOK_ANALYZER_CALLS_COLLECTIVE_RANGES_H_
