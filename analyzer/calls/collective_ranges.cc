// Collective operations by their ranges: see collective_ranges.h.
#include "analyzer/calls/collective_ranges.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace dlhook::analyzer::inline calls {

std::optional<CollectiveKind> CollectiveOf(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, "gloo:") && !absl::ConsumePrefix(&name, "ucc:")) return std::nullopt;
  // all_gather and _allgather_base, all_reduce and sparse_all_reduce; names that contain another one come first.
  static constexpr std::pair<absl::string_view, CollectiveKind> kKinds[] = {
      {"allreduce", CollectiveKind::kAllReduce}, {"reducescatter", CollectiveKind::kReduceScatter},
      {"reduce", CollectiveKind::kReduce},       {"allgather", CollectiveKind::kAllGather},
      {"gather", CollectiveKind::kGather},       {"scatter", CollectiveKind::kScatter},
      {"broadcast", CollectiveKind::kBroadcast}, {"alltoall", CollectiveKind::kAllToAll},
      {"barrier", CollectiveKind::kBarrier},     {"send", CollectiveKind::kSend},
      {"recv", CollectiveKind::kReceive}};
  const std::string letters = absl::StrReplaceAll(name, {{"_", ""}});
  for (const auto& [word, kind] : kKinds) {
    if (absl::StrContains(letters, word)) return kind;
  }
  return CollectiveKind::kUnknown;
}

std::vector<bool> CollectiveNames(const TraceModel& model) {
  std::vector<bool> names;
  for (const std::string& name : model.names) names.push_back(CollectiveOf(name).has_value());
  return names;
}

}  // namespace dlhook::analyzer::calls
