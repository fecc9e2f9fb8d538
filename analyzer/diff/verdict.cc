// The table `verdict`: see verdict.h.
#include "analyzer/diff/verdict.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analyzer/diff/diff_table.h"
#include "analyzer/steps/iterations.h"
#include "analyzer/tables/columns.h"

namespace dlhook::analyzer::inline diff {
namespace {

constexpr size_t kMostNamed = 3;                  // in the sentence
constexpr double kExplained = 0.8;                // part of the change; once explained, no more causes are named
constexpr double kWorthNaming = 0.05;             // part of the change
constexpr double kLayoutWorthNaming = 0.01;       // part of the step
constexpr double kPaceWorthNoting = 0.05;         // difference from 1
constexpr double kInterruptedWorthNoting = 0.01;  // part of the time

std::string PercentText(double part, double whole) {
  if (whole == 0) return "unknown";
  const double percent = 100 * std::abs(part) / whole;
  return percent >= 10 ? absl::StrFormat("%.0f %%", percent) : absl::StrFormat("%.1f %%", percent);
}

bool HasSteps(const VerdictInput& input) { return input.base_run->steps.count() > 0; }

std::string Unit(const VerdictInput& input) {
  return HasSteps(input) ? StepWord(input.candidate_run->steps.kind) : "run";
}

std::string PerText(const VerdictInput& input) {
  if (input.decision->per == Per::kSample) return " per sample";
  return HasSteps(input) ? absl::StrCat(" per ", Unit(input)) : "";
}

// The time of a step, if samples are compared.
std::string StepText(const VerdictInput& input) {
  const TimeChange& step = input.decision->whole;
  if (input.decision->per != Per::kSample) return "";
  return absl::StrCat("; ", HumanTime(step.base_ns), " -> ", HumanTime(step.candidate_ns), " per ", Unit(input));
}

// CPU time, which does not depend on who else uses the processors.
std::string CpuText(const VerdictInput& input) {
  const TimeChange& cpu = input.decision->cpu;
  if (cpu.base_ns == 0) return "";
  return absl::StrCat(", CPU time ", HumanTime(cpu.base_ns), " -> ", HumanTime(cpu.candidate_ns));
}

std::string NoiseText(const VerdictInput& input, const TimeChange& time) {
  if (!time.noise_ns) return HasSteps(input) ? "noise not known: too few steps" : "noise not known: no steps";
  return absl::StrCat("noise ", PercentText(*time.noise_ns, time.base_ns));
}

bool IsBeyondNoise(const Contribution& contribution) {
  return contribution.time.finding == Speed::kSlower || contribution.time.finding == Speed::kFaster;
}

// The contributions that explain most of the change. If batch sizes differ, times per step explain nothing.
std::vector<std::string> Causes(const VerdictInput& input) {
  std::vector<std::string> causes;
  if (input.decision->per == Per::kSample) return causes;
  double explained_ns = 0;
  const double change_ns = input.decision->whole.change_ns();
  for (const Contribution& contribution : input.contributions) {
    const double part_ns = contribution.time.change_ns();
    const bool fits = IsBeyondNoise(contribution) || contribution.time.finding == Speed::kUnknown;
    if (!fits || part_ns * change_ns <= 0 || std::abs(part_ns) < kWorthNaming * std::abs(change_ns)) continue;
    if (causes.size() == kMostNamed || explained_ns >= kExplained * std::abs(change_ns)) break;
    causes.push_back(contribution.Sentence());
    explained_ns += std::abs(part_ns);
  }
  return causes;
}

// "; layout changes (reorders) went from 14 to 6 a step (-540 us)": one clause, because they are spread over many
// layers.
std::string LayoutClause(const VerdictInput& input) {
  const LayoutChange& layout = input.layout;
  const TimeChange& time = layout.time;
  const bool is_much = std::abs(time.change_ns()) >= kLayoutWorthNaming * input.decision->whole.base_ns;
  if (input.decision->per == Per::kSample || !layout.HasOtherCalls() || !is_much || time.finding == Speed::kNoise)
    return "";
  return absl::StrFormat("; layout changes (reorders) went from %.3g to %.3g %s (%s)", layout.base_calls,
                         layout.candidate_calls, HasSteps(input) ? "a step" : "in the run",
                         SignedTime(time.change_ns()));
}

// "2.04 ms -> 2.67 ms per training step (+31 %, noise 19 %)".
std::string TimesText(const VerdictInput& input) {
  const Decision& decision = *input.decision;
  const TimeChange& time = decision.time;
  const char* beyond = decision.doubt == Doubt::kOnlySomeSteps ? ", but only some steps"
                       : decision.doubt == Doubt::kWaiting     ? ", but it waited for processors"
                                                               : "";
  return absl::StrCat(HumanTime(time.base_ns), " -> ", HumanTime(time.candidate_ns), PerText(input), " (",
                      time.change_ns() > 0 ? "+" : "-", PercentText(time.change_ns(), time.base_ns), beyond, ", ",
                      NoiseText(input, time), CpuText(input), StepText(input), ")");
}

// "31 % slower per training step (2.04 ms -> 2.67 ms, noise 19 %)".
std::string SlowerText(const VerdictInput& input) {
  const Decision& decision = *input.decision;
  const TimeChange& time = decision.time;
  return absl::StrCat(PercentText(time.change_ns(), time.base_ns), time.change_ns() > 0 ? " slower" : " faster",
                      PerText(input), " (", HumanTime(time.base_ns), " -> ", HumanTime(time.candidate_ns), ", ",
                      NoiseText(input, time), CpuText(input), StepText(input), ")");
}

// Changes within a step that did not change as a whole.
std::vector<std::string> ChangesWithin(const VerdictInput& input) {
  std::vector<std::string> changes;
  if (input.decision->per == Per::kSample) return changes;
  for (const Contribution& contribution : input.contributions) {
    const bool is_much = std::abs(contribution.time.change_ns()) >= kWorthNaming * input.decision->whole.base_ns;
    if (is_much && IsBeyondNoise(contribution) && changes.size() < kMostNamed)
      changes.push_back(contribution.Sentence());
  }
  return changes;
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
  return absl::StrCat(note, "; ", run.load.Text(), ".");
}

void AddPaceNote(const VerdictInput& input, Table& table) {
  const Decision& decision = *input.decision;
  if (decision.is_same_work && decision.time.finding != Speed::kEqual) {
    const bool knows_threads = input.base_run->load.is_known && input.candidate_run->load.is_known;
    table.notes.push_back(absl::StrCat("Both runs did the same work in the same way; only the speed differs",
                                       knows_threads ? "." : " (or how many threads did it, which was not sampled)."));
  }
  if (decision.time.finding != Speed::kNoise || std::abs(std::log(decision.pace.ratio)) <= kPaceWorthNoting) return;
  const double ratio = decision.pace.ratio;
  table.notes.push_back(absl::StrFormat(
      "Half or more of every kind of activity (library, framework, Python) took at least %.2f times as long%s: a "
      "busier or slower machine does that; a change to the program rarely does. It counts as noise.",
      ratio > 1 ? ratio : 1 / ratio, ratio > 1 ? " in NEW" : " in BASE"));
}

void AddDifferenceNotes(const VerdictInput& input, Table& table) {
  const ComparedSteps& before = input.base_run->steps;
  const ComparedSteps& after = input.candidate_run->steps;
  if (before.kind != after.kind) {
    table.notes.push_back(absl::StrCat("The runs have no steps of the same kind: a ", StepWord(before.kind),
                                       " of BASE (", IterationKindName(before.kind), ") is compared with a ",
                                       StepWord(after.kind), " of NEW (", IterationKindName(after.kind), ")."));
  }
  const TimeChange& low = input.decision->low;
  if (input.decision->doubt == Doubt::kOnlySomeSteps) {
    table.notes.push_back(
        absl::StrCat("The faster quarter of the steps takes up to ", HumanTime(low.base_ns), " in BASE and ",
                     HumanTime(low.candidate_ns),
                     " in NEW, so it shows no such difference. Only some steps take longer, as on a busy machine."));
  }
  if (input.decision->doubt == Doubt::kWaiting) {
    table.notes.push_back(
        "Without the time in which threads waited for a processor there is no such difference: the machine was busier "
        "on one side.");
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

TypedColumns<Contribution> Columns() {
  TypedColumns<Contribution> columns = {
      {TextColumn("what", "The step, then the layers that made it change."), &Contribution::layer},
      {TextColumn("direction", "Forward or backward, where that is known."), Known(&Contribution::direction)},
  };
  columns.Add(ChangeColumns().Of<Contribution>([](const Contribution& change) {
    return MatchedTime{change.time, change.match};
  }));
  columns.Add({TextColumn("why", "What explains the change."),
               [](const Contribution& change) { return KnownText(absl::StrJoin(change.why, "; ")); }});
  return columns;
}

}  // namespace

std::string VerdictSentence(const VerdictInput& input) {
  const Decision& decision = *input.decision;
  const std::string text = DifferencesText(input.differences);
  const bool is_same_program = text.empty();
  const std::string differences = is_same_program ? "" : absl::StrCat("NEW differs: ", text, ". ");
  if (decision.time.finding == Speed::kEqual) {
    return absl::StrCat(differences, is_same_program ? "no difference: " : "No difference in time: ",
                        HumanTime(decision.time.base_ns), PerText(input), " on both sides");
  }
  if (decision.time.finding == Speed::kNoise) {
    const std::vector<std::string> within = ChangesWithin(input);
    return absl::StrCat(
        differences,
        is_same_program ? "no difference beyond noise: " : "No difference in time beyond noise: ", TimesText(input),
        within.empty() ? "" : "; within the step: ", absl::StrJoin(within, "; "), LayoutClause(input));
  }
  const std::vector<std::string> causes = Causes(input);
  return absl::StrCat(differences, is_same_program ? "NEW is " : "It is ", SlowerText(input),
                      causes.empty() ? "" : ": ", absl::StrJoin(causes, "; "), LayoutClause(input));
}

Table VerdictTable(const VerdictInput& input) {
  const TypedColumns<Contribution> columns = Columns();
  Table table = NewTable("verdict", VerdictSentence(input), columns);
  const Decision& decision = *input.decision;
  if (decision.time.finding != Speed::kEqual) {
    if (decision.per == Per::kSample) AddRow(columns, {"sample", "", decision.time, Match::kSame, {}}, &table);
    AddRow(columns, {Unit(input), "", decision.whole, Match::kSame, {}}, &table);
    for (const Contribution& contribution : input.contributions) {
      if (IsBeyondNoise(contribution)) AddRow(columns, contribution, &table);
    }
  }
  table.notes.push_back(SideNote("BASE", *input.base, *input.base_run));
  table.notes.push_back(SideNote("NEW", *input.candidate, *input.candidate_run));
  AddPaceNote(input, table);
  AddDifferenceNotes(input, table);
  AddInterruptionNote(input, table);
  return table;
}

}  // namespace dlhook::analyzer::diff
