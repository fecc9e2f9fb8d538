// What the programs of two runs do differently. No clock is needed to know it, and no noise blurs it.
#ifndef DLHOOK_ANALYZER_DIFF_DIFFERENCES_H_
#define DLHOOK_ANALYZER_DIFF_DIFFERENCES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/diff/changes.h"
#include "analyzer/diff/done_work.h"
#include "analyzer/diff/measured_run.h"
#include "analyzer/diff/row_keys.h"
#include "analyzer/diff/sides.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline diff {

// In the order in which they are told: what people decide on first, then what follows from it.
enum class DifferenceKind : uint8_t {
  kProgram,
  kLibraries,
  kEnvironment,
  kProcesses,
  kSteps,  // of another kind than those compared
  kBatch,
  kOptimizer,
  kLoading,
  kLayers,
  kTypes,
  kSizes,
  kCalls,
  kOps,
  kFormats,
  kImplementations
};

struct Difference {
  DifferenceKind kind = DifferenceKind::kProgram;
  std::string what, base, candidate;  // as the table has it; empty: nothing
  std::string words;                  // "batch 8 -> 16"; of several of a kind what distinguishes them
};

struct DifferenceInput {
  const TraceModel* model = nullptr;
  const MeasuredRun* run = nullptr;
  DoneWork work;
};

// `work`: of the tables `work` (work_table.h).
std::vector<Difference> FindDifferences(const Baseline<DifferenceInput>& base,
                                        const Contender<DifferenceInput>& candidate, const TableChanges& work,
                                        const NameMap& names);

// "batch 8 -> 16; calls a step: reorder 15 -> 7": the most important ones.
std::string DifferencesText(const std::vector<Difference>& differences);

Table DifferencesTable(const std::vector<Difference>& differences);

}  // namespace dlhook::analyzer::diff

#endif  // DLHOOK_ANALYZER_DIFF_DIFFERENCES_H_
