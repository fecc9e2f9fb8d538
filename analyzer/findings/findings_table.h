// Table `findings`: what the rules found, largest gain first.
#pragma once

#include "analyzer/findings/finding.h"
#include "analyzer/table/table.h"
#include "analyzer/tables/tables.h"
#include "analyzer/work/step_facts.h"

namespace dlhook::analyzer::inline findings {

struct RuleFinding {
  std::string rule;  // its id
  Finding finding;
};

// Losses, then information; sorted by gain, but a symptom (IsCause) behind the largest cause. No time is claimed twice: see Rules().
std::vector<RuleFinding> FindAll(const StepFacts& facts);

// Rules that could not judge the run, by reason: a sentence each, "Could not judge: gpu-idle, small-copies (…)."; of more
// than `most_named`, "Could not judge: 12 rules (…)."
std::vector<std::string> NotJudged(const StepFacts& facts, size_t most_named = SIZE_MAX);

// All tables of a report: `findings`, then TableKinds() including `work`.
const std::vector<TableKind>& ReportTables();

absl::StatusOr<Table> FindingsTable(const TraceModel& model, const TableOptions& options);

using FindingsOfRuns = std::vector<std::vector<RuleFinding>>;  // of each run of a side

// A finding that came ("new") or went ("gone") from one side of a comparison to the other.
// That only one side has, or that gains at least twice as much there.
struct FindingChange {
  bool is_new = false;                 // of NEW, or more of it there
  const RuleFinding* found = nullptr;  // of the sides' runs
  double other_ns = 0;                 // what it gains on the other side; 0: it is not there
  double change_ns() const { return found->finding.gain_ns - other_ns; }
};
// The largest change first. A finding is a side's if more than half of its runs have it. Findings are matched by rule; where a
// rule has several in a run, by place too.
std::vector<FindingChange> ChangedFindings(const FindingsOfRuns& base, const FindingsOfRuns& new_side);
Table FindingsDiff(const std::vector<FindingChange>& changes);

// Whether a rule's findings are causes: not what another cause often brings about (page faults, time between operations).
bool IsCause(absl::string_view rule);

// Findings that the user chose to ignore.

// The rule of RULE or RULE:WHERE.
absl::string_view RuleOfIgnored(absl::string_view ignored);

// `ignored`: each entry is RULE or RULE:WHERE, where WHERE is the finding's whole location, one of its layers, or its
// line. Removes them and returns how many there were.
size_t LeaveOut(const std::vector<std::string>& ignored, std::vector<RuleFinding>* findings);
// The same for the table `findings`; a last note then says so.
void LeaveOut(const std::vector<std::string>& ignored, Table* findings);

// "2 findings are ignored (--ignore, .dlhook-ignore)."
std::string IgnoredSentence(size_t count);

}  // namespace dlhook::analyzer::findings
