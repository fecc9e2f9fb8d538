// The environment of runs, as far as traces contain it: releases and builds of libraries, processors, GPUs, threads,
// settings. If it differs between two sides, their times may differ for that reason alone.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/diff/difference.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/work/machine_load.h"
#include "analyzer/work/sides.h"

namespace dlhook::analyzer::inline diff {

// Values of several processes or runs are listed together.
struct Environment {
  std::map<std::pair<DifferenceKind, std::string>, std::set<std::string>> facts;

  void Add(const Environment& other);
};

Environment EnvironmentOf(const TraceModel& model, const MachineLoad& load);

// Unset settings count as "none"; anything else is compared only if both sides know it.
std::vector<Difference> EnvironmentDifferences(const BaseSide<Environment>& base, const NewSide<Environment>& new_side);

// "PyTorch 2.13.0 -> 2.14.0, another build of libtorch_cpu.so; OMP_NUM_THREADS none -> 1"; empty: none of `differences`
// is in the environment.
std::string EnvironmentText(const std::vector<Difference>& differences);

}  // namespace dlhook::analyzer::diff
