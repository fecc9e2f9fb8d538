// What the programs of two runs do differently. This needs no clock and has no noise.
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

// In the order of reporting: what users decide first, then its consequences.
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
  std::string what, base, candidate;  // as in the table; empty: none
  std::string words;                  // "batch 8 -> 16"; for one of several of a kind, what distinguishes it
};

struct DifferenceInput {
  const TraceModel* model = nullptr;
  const MeasuredRun* run = nullptr;
  DoneWork work;
};

// `work`: made from the tables `work` (work_table.h).
std::vector<Difference> FindDifferences(const Baseline<DifferenceInput>& base,
                                        const Contender<DifferenceInput>& candidate, const TableChanges& work,
                                        const NameMap& names);

// The most important ones: "batch 8 -> 16; calls a step: reorder 15 -> 7".
std::string DifferencesText(const std::vector<Difference>& differences);

Table DifferencesTable(const std::vector<Difference>& differences);

}  // namespace dlhook::analyzer::diff

#endif  // DLHOOK_ANALYZER_DIFF_DIFFERENCES_H_
