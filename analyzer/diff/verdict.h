// The table `verdict`: one sentence about two runs, what explains it, and what to know about the comparison.
#ifndef DLHOOK_ANALYZER_DIFF_VERDICT_H_
#define DLHOOK_ANALYZER_DIFF_VERDICT_H_

#include <string>
#include <vector>

#include "analyzer/diff/contributions.h"
#include "analyzer/diff/decision.h"
#include "analyzer/diff/differences.h"
#include "analyzer/diff/measured_run.h"
#include "analyzer/diff/sides.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline diff {

struct VerdictInput {
  const TraceModel* base = nullptr;
  const TraceModel* candidate = nullptr;
  const MeasuredRun* base_run = nullptr;
  const MeasuredRun* candidate_run = nullptr;
  const Decision* decision = nullptr;
  std::vector<Difference> differences;
  std::vector<Contribution> contributions;
  LayoutChange layout;
};

// First what the programs do differently, then its effect: "NEW: batch 8 -> 16; it is 12 % slower per sample (601 ->
// 672 us, noise 2.0 %): conv2 backward-weights +480 us, because …".
std::string VerdictSentence(const VerdictInput& input);

// Rows: the step, then contributions to its change beyond noise. Title: the sentence.
Table VerdictTable(const VerdictInput& input);

}  // namespace dlhook::analyzer::diff

#endif  // DLHOOK_ANALYZER_DIFF_VERDICT_H_
