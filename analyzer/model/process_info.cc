// See process_info.h.
#include "analyzer/model/process_info.h"

namespace dlhook::analyzer::inline model {

std::string RankOf(const ProcessInfo& process) {
  constexpr const char* kNames[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
  for (const char* name : kNames) {
    for (const auto& [variable, value] : process.rank_variables) {
      if (variable == name) return value;
    }
  }
  return "";
}

}  // namespace dlhook::analyzer::model
