// Differences between the programs of two runs, and between their environments. Without times, so without noise.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "analyzer/diff/changes.h"
#include "analyzer/diff/difference.h"
#include "analyzer/diff/match_rows.h"
#include "analyzer/diff/measured_run.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/table/table.h"
#include "analyzer/work/compilations.h"
#include "analyzer/work/sides.h"
#include "analyzer/work/step_work.h"

namespace dlhook::analyzer::inline diff {

struct DifferenceInput {
  std::set<std::string> programs;
  Environment environment;
  const MeasuredRun* run = nullptr;
  DoneWork work;
  std::map<std::string, double> compilations;  // CountCompilations
};

// Its script, or the program itself.
std::string ProgramOf(const TraceModel& model);

// `work`: made from the tables `work` (WorkTable).
std::vector<Difference> FindDifferences(const BaseSide<DifferenceInput>& base, const NewSide<DifferenceInput>& new_side,
                                        const TableChanges& work, const NameMap& names);

// The most important ones of the programs: "batch 8 -> 16; calls a step: reorder 15 -> 7"; empty: none.
std::string DifferencesText(const std::vector<Difference>& differences);

Table DifferencesTable(const std::vector<Difference>& differences);

}  // namespace dlhook::analyzer::diff
