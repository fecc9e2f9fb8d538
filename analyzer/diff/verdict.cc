// The table `verdict`: see verdict.h.
#include "analyzer/diff/verdict.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analyzer/diff/diff_table.h"
#include "analyzer/layers/iterations.h"
#include "analyzer/passes/columns.h"

namespace dlhook::analyzer {
namespace {

constexpr size_t kMostNamed = 3;             // in the sentence
constexpr double kExplained = 0.8;           // part of the change after which no more are named
constexpr double kWorthNaming = 0.05;        // of the change
constexpr double kLayoutWorthNaming = 0.01;  // of the step
constexpr double kPaceWorthNoting = 0.05;    // away from 1
constexpr double kMostlyAlike = 0.999;
constexpr double kInterruptedWorthNoting = 0.01;  // of the time

std::string PercentText(double part, double whole) {
  if (whole == 0) return "unknown";
  const double percent = 100 * std::abs(part) / whole;
  return percent >= 10 ? absl::StrFormat("%.0f %%", percent) : absl::StrFormat("%.1f %%", percent);
}

bool HasSteps(const VerdictInput& input) { return input.base_run->steps.count() > 0; }

std::string Unit(const VerdictInput& input) {
  return HasSteps(input) ? StepWord(input.candidate_run->steps.kind) : "run";
}

std::string NoiseText(const VerdictInput& input) {
  if (!input.time.noise_ns) return HasSteps(input) ? "noise not known: too few steps" : "noise not known: no steps";
  return absl::StrCat("noise ", PercentText(*input.time.noise_ns, input.time.base_ns));
}

bool IsBeyondNoise(const Contribution& contribution) {
  return contribution.time.finding == Finding::kSlower || contribution.time.finding == Finding::kFaster;
}

// Those that made the step change, until they explain most of it.
std::vector<std::string> Causes(const VerdictInput& input) {
  std::vector<std::string> causes;
  double explained_ns = 0;
  const double change_ns = input.time.change_ns();
  for (const Contribution& contribution : input.contributions) {
    const double part_ns = contribution.time.change_ns();
    const bool fits = IsBeyondNoise(contribution) || contribution.time.finding == Finding::kUnknown;
    if (!fits || part_ns * change_ns <= 0 || std::abs(part_ns) < kWorthNaming * std::abs(change_ns)) continue;
    if (causes.size() == kMostNamed || explained_ns >= kExplained * std::abs(change_ns)) break;
    causes.push_back(contribution.Sentence());
    explained_ns += std::abs(part_ns);
  }
  return causes;
}

// "; layout changes (reorders) went from 14 to 6 a step (-540 us)": they are spread over many layers.
std::string LayoutClause(const VerdictInput& input) {
  const LayoutChange& layout = input.layout;
  const bool is_much = std::abs(layout.time.change_ns()) >= kLayoutWorthNaming * input.time.base_ns;
  if (!layout.HasOtherCalls() || !is_much) return "";
  return absl::StrFormat("; layout changes (reorders) went from %.3g to %.3g a step (%s)", layout.base_calls,
                         layout.candidate_calls, SignedTime(layout.time.change_ns()));
}

// What changed although the step as a whole did not.
std::vector<std::string> ChangesWithin(const VerdictInput& input) {
  std::vector<std::string> changes;
  for (const Contribution& contribution : input.contributions) {
    if (IsBeyondNoise(contribution) && changes.size() < kMostNamed) changes.push_back(contribution.Sentence());
  }
  return changes;
}

bool IsSameWork(const VerdictInput& input) {
  return std::all_of(input.work->rows.begin(), input.work->rows.end(), [&](const RowChange& row) {
    // Of ops that come only now and then one run may have one, the other none.
    return (row.rows.match == Match::kSame && RowReason(*input.work, row).empty()) ||
           std::max(row.time.base_ns, row.time.candidate_ns) < (1 - kMostlyAlike) * input.time.base_ns;
  });
}

std::string SideNote(const char* side, const TraceModel& model, const MeasuredRun& run) {
  const ComparedSteps& steps = run.steps;
  if (steps.count() == 0) {
    return absl::StrCat(side, " (", model.name, "): no steady steps were found; the run took ",
                        HumanTime(model.wall_ns()), ".");
  }
  const Quartiles quartiles = QuartilesOf(steps.Durations());
  std::string note = absl::StrCat(side, " (", model.name, "): ", steps.count(), " steady ", StepWord(steps.kind),
                                  steps.count() == 1 ? "" : "s", ", median ", HumanTime(quartiles.median),
                                  ", quartiles ", HumanTime(quartiles.lower), " to ", HumanTime(quartiles.upper));
  if (steps.batch > 0) absl::StrAppend(&note, ", batch ", steps.batch);
  if (steps.interrupted > 0) {
    absl::StrAppend(&note, "; ", steps.interrupted, " more were interrupted (", HumanTime(steps.interrupted_ns),
                    ") and are left out");
  }
  return note + ".";
}

std::string ProgramOf(const TraceModel& model) {
  if (model.processes.empty()) return "";
  const trace::Process& process = model.processes.front().header.process();
  const std::string& path = process.script().empty() ? process.program() : process.script();
  return path.substr(path.rfind('/') + 1);
}

void AddPaceNote(const VerdictInput& input, Table& table) {
  const bool moved = std::abs(std::log(input.pace.ratio)) > kPaceWorthNoting;
  if (IsSameWork(input) && input.time.finding != Finding::kEqual) {
    table.notes.push_back("Both runs did the same work in the same way: only its speed differs.");
  }
  if (!moved) return;
  table.notes.push_back(absl::StrFormat(
      "Half or more of every kind of activity (library, framework, Python) took at least %.2f times as long%s: a "
      "busier or slower "
      "machine does that, a change of the program hardly. It counts as noise.",
      input.pace.ratio > 1 ? input.pace.ratio : 1 / input.pace.ratio, input.pace.ratio > 1 ? " in NEW" : " in BASE"));
}

void AddDifferenceNotes(const VerdictInput& input, Table& table) {
  const ComparedSteps& before = input.base_run->steps;
  const ComparedSteps& after = input.candidate_run->steps;
  if (before.kind != after.kind) {
    table.notes.push_back(absl::StrCat("The runs have no steps of the same kind: a ", StepWord(before.kind),
                                       " of BASE (", IterationKindName(before.kind), ") is compared with a ",
                                       StepWord(after.kind), " of NEW (", IterationKindName(after.kind), ")."));
  }
  if (before.batch != after.batch && before.batch > 0 && after.batch > 0) {
    const double base_ns = input.time.base_ns / static_cast<double>(before.batch);
    const double new_ns = input.time.candidate_ns / static_cast<double>(after.batch);
    table.notes.push_back(absl::StrCat("Batches differ: a sample takes ", ShortTime(base_ns), " in BASE (batch ",
                                       before.batch, ") and ", ShortTime(new_ns), " in NEW (batch ", after.batch,
                                       ")."));
  }
  if (ProgramOf(*input.base) != ProgramOf(*input.candidate)) {
    table.notes.push_back(
        absl::StrCat("BASE ran ", ProgramOf(*input.base), ", NEW ran ", ProgramOf(*input.candidate), "."));
  }
}

double InterruptedPart(const ComparedSteps& steps) {
  const double total_ns = static_cast<double>(steps.total_ns() + steps.interrupted_ns);
  return total_ns == 0 ? 0 : static_cast<double>(steps.interrupted_ns) / total_ns;
}

void AddInterruptionNote(const VerdictInput& input, Table& table) {
  const double before = InterruptedPart(input.base_run->steps), after = InterruptedPart(input.candidate_run->steps);
  if (std::abs(before - after) < kInterruptedWorthNoting) return;
  table.notes.push_back(
      absl::StrFormat("Interrupted steps took %.1f %% of BASE's steps' time and %.1f %% of NEW's: that is in "
                      "no other number here.",
                      100 * before, 100 * after));
}

std::vector<Column> Columns() {
  std::vector<Column> columns = {
      TextColumn("what", "The step, then the layers that made it change."),
      TextColumn("direction", "Forward or backward, where that is known."),
  };
  for (Column& column : ChangeColumns()) columns.push_back(std::move(column));
  columns.push_back(TextColumn("why", "What explains the change."));
  return columns;
}

Row VerdictRow(std::string what, const std::string& direction, const TimeChange& time, Match match,
               const std::vector<std::string>& why) {
  Row row = {std::move(what), direction.empty() ? Cell() : Cell(direction)};
  for (Cell& cell : ChangeCells(time, match)) row.push_back(std::move(cell));
  row.push_back(why.empty() ? Cell() : Cell(absl::StrJoin(why, "; ")));
  return row;
}

}  // namespace

std::string VerdictSentence(const VerdictInput& input) {
  const TimeChange& time = input.time;
  const std::string times = absl::StrCat(ShortTime(time.base_ns), " -> ", ShortTime(time.candidate_ns));
  const std::string per = HasSteps(input) ? absl::StrCat(" per ", Unit(input)) : "";
  if (time.finding == Finding::kEqual) {
    return absl::StrCat("no difference: ", ShortTime(time.base_ns), per, " on both sides");
  }
  if (time.finding == Finding::kNoise) {
    const char* sign = time.change_ns() > 0 ? "+" : "-";
    const std::string sentence = absl::StrCat("no difference beyond noise: ", times, per, " (", sign,
                                              PercentText(time.change_ns(), time.base_ns), ", ", NoiseText(input), ")");
    const std::vector<std::string> within = ChangesWithin(input);
    return absl::StrCat(sentence, within.empty() ? "" : "; within the step: ", absl::StrJoin(within, "; "),
                        LayoutClause(input));
  }
  const char* direction = time.change_ns() > 0 ? "slower" : "faster";
  const std::string sentence = absl::StrCat("NEW is ", PercentText(time.change_ns(), time.base_ns), " ", direction, per,
                                            " (", times, ", ", NoiseText(input), ")");
  const std::vector<std::string> causes = Causes(input);
  return absl::StrCat(sentence, causes.empty() ? "" : ": ", absl::StrJoin(causes, "; "), LayoutClause(input));
}

Table VerdictTable(const VerdictInput& input) {
  Table table = NewTable("verdict", VerdictSentence(input), Columns());
  if (input.time.finding != Finding::kEqual) {
    table.rows.push_back(VerdictRow(Unit(input), "", input.time, Match::kSame, {}));
    for (const Contribution& contribution : input.contributions) {
      if (!IsBeyondNoise(contribution)) continue;
      table.rows.push_back(VerdictRow(contribution.layer, contribution.direction, contribution.time, contribution.match,
                                      contribution.why));
    }
  }
  table.notes.push_back(SideNote("BASE", *input.base, *input.base_run));
  table.notes.push_back(SideNote("NEW", *input.candidate, *input.candidate_run));
  AddPaceNote(input, table);
  AddDifferenceNotes(input, table);
  AddInterruptionNote(input, table);
  return table;
}

}  // namespace dlhook::analyzer
