// Collective operations that torch.distributed tells of by ranges: those of backends whose libraries have no hooks (Gloo, UCC). NCCL's and
// MPI's are calls.
#ifndef DLHOOK_ANALYZER_CALLS_COLLECTIVE_RANGES_H_
#define DLHOOK_ANALYZER_CALLS_COLLECTIVE_RANGES_H_

#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline calls {

// "gloo:all_reduce"; nothing for other names. kUnknown: an operation of the backend that has no kind.
std::optional<CollectiveKind> CollectiveOf(absl::string_view name);

// By name: whether ranges of it are collective operations.
std::vector<bool> CollectiveNames(const TraceModel& model);

}  // namespace dlhook::analyzer::calls

#endif  // DLHOOK_ANALYZER_CALLS_COLLECTIVE_RANGES_H_
