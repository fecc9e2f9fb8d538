// Compares two sides of one or several runs each: the verdict first, then the tables.
#pragma once

#include "analyzer/diff/causes.h"
#include "analyzer/diff/contributions.h"
#include "analyzer/diff/difference.h"
#include "analyzer/diff/measured_run.h"
#include "analyzer/table/table.h"
#include "analyzer/tables/tables.h"
#include "analyzer/work/noise.h"

namespace dlhook::analyzer::inline diff {

// The table `verdict`: one sentence about two sides, what explains it, and what to know about the comparison.

// A finding (dlhook report) that only one side has, or has much more of.
struct OwnFinding {
  std::string rule;
  std::string words;   // "growing-steps (cat, train.py:42): Each training step takes longer …"
  double gain_ns = 0;  // of a step of its side
  bool is_of_new = false;
  double other_ns = 0;  // the same on the other side
  double whole_ns = 0;  // of which the gain is a part; 0: a mean step
  double steps = 1;     // of its side's run; with whole_ns how often that is in it
  // "NEW has growing-steps (…): …", or "NEW loses more to slow-lines (…): … (BASE: 145 us)".
  std::string Sentence() const;
};

// Why this side has much longer steps, or passes between its steps; null: not known.
const OwnFinding* ReasonOfLongerSteps(const std::vector<OwnFinding>& findings, bool of_new);

struct VerdictInput {
  const MeasuredRun* base_run = nullptr;
  const MeasuredRun* new_run = nullptr;
  const Decision* decision = nullptr;
  std::vector<Difference> differences;
  std::vector<Cause> causes;
  std::vector<Contribution> contributions;
  std::vector<OwnFinding> own_findings;  // causes, not symptoms; the largest first
  std::pair<double, double> flops;       // of a step's library calls; {0, 0}: not known
  bool has_as_many_products = false;     // on both sides
};

// How much slower or faster and why: a finding that only the slower side has, if it explains most of the change, then the
// largest causes; then what else the programs do differently: "NEW is 31 %
// slower per training step (2.04 ms -> 2.67 ms, noise 2.0 %): more work per call: convolution oc 16 -> 64 in conv2
// forward, +480 us. NEW differs: …".
std::string VerdictSentence(const VerdictInput& input);

// Rows: the step, then contributions to its change beyond noise. Title: the sentence.
Table VerdictTable(const VerdictInput& input);

// A run with what tables need; choices resolved.
struct AnalyzedRun {
  const TraceModel* model = nullptr;
  TableOptions options;
  std::string failure = "";  // "ended with code 1"
};

struct RunsDiff {
  std::string environment;  // differences in the environment, reported first; empty: none
  std::vector<Difference> differences;
  // `verdict` first (its title is the sentence), then `causes`, `differences`, and one table per kind.
  std::vector<Table> tables;
  Decision decision;
};

// At least one run a side. `kinds` must be comparable (measured_run.h).
absl::StatusOr<RunsDiff> DiffRuns(const std::vector<AnalyzedRun>& base, const std::vector<AnalyzedRun>& new_side,
                                  const std::vector<const TableKind*>& kinds,
                                  std::vector<OwnFinding> own_findings = {});

// The tables that can be compared, `work` first, which only the diff has.
const std::vector<TableKind>& ComparableTables();

}  // namespace dlhook::analyzer::diff
