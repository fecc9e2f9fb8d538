#include "analyzer/import/kineto/kineto_import.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/import/kineto/process_trace.h"
#include "analyzer/io/byte_source.h"

namespace dlhook::analyzer::inline kineto {

bool IsKinetoTrace(const std::string& path) { return !absl::EndsWith(path, kTraceSuffix) && LooksLikeJson(path); }

absl::StatusOr<ImportedTrace> ImportKineto(const std::string& path, const std::function<void(uint64_t)>& progress) {
  ProcessEvents events;
  TraceFacts facts;
  absl::Status status = ReadTraceJson(
      path, [&](const Event& event) { events.Take(event); }, &facts, progress);
  if (!status.ok() && !absl::IsDataLoss(status)) return status;
  std::optional<ImportedTrace> trace = events.MakeTrace(facts);
  if (!trace) {
    return absl::InvalidArgumentError(absl::StrCat(status.ok() ? path : std::string(status.message()),
                                                   ": this trace has no operators, calls or GPU work; expected some of "
                                                   "what torch.profiler records (cpu_op, cuda_runtime, kernel …)"));
  }
  trace->damage = std::move(status);
  return *std::move(trace);
}

}  // namespace dlhook::analyzer::kineto
