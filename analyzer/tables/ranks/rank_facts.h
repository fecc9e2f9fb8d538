// Which rank the others wait for, for the table ranks and for what judges by it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/model/trace_model.h"
#include "analyzer/steps/phases.h"

namespace dlhook::analyzer::inline tables {

struct RankFacts {
  std::string name;  // "rank 0"; "process 4711" if the launcher gave no rank
  double step_ns = 0;
  double waiting_ns = 0;  // in a mean step, in collectives, until the last rank had come; 0: not known
  int64_t collectives = 0;
  int64_t came_last = 0;
  bool is_late = false;  // the others wait mostly for it
};

// Of the processes that took part in something; empty if these are fewer than two.
std::vector<RankFacts> RanksCompared(const TraceModel& model, const std::vector<StepTrack>& tracks);

}  // namespace dlhook::analyzer::tables
