#include "analyzer/model/process_info.h"

#include "absl/strings/match.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline model {

std::string RankOf(const ProcessInfo& process) {
  return RankVariable(process, {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"});
}

std::string RankCountOf(const ProcessInfo& process) {
  return RankVariable(process, {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"});
}

std::string RankVariable(const ProcessInfo& process, std::initializer_list<absl::string_view> names) {
  for (const absl::string_view name : names) {
    for (const auto& [variable, value] : process.rank_variables) {
      if (variable == name) return value;
    }
  }
  return "";
}

bool OneDnnIsXlas(const ProcessInfo& process) {
  bool found = false;
  for (const Capability& capability : process.capabilities) {
    if (capability.name != kOneDnnTap.capability || capability.state != CapabilityState::kOn) continue;
    if (!absl::StrContains(capability.object, "libjax_common")) return false;
    found = true;
  }
  return found;
}

}  // namespace dlhook::analyzer::model
