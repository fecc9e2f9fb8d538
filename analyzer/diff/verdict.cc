// The table `verdict`: see diff_runs.h.

#include "analyzer/diff/diff_runs.h"
#include "analyzer/diff/diff_table.h"
#include "analyzer/steps/measured_steps.h"
#include "analyzer/tables/columns.h"

namespace dlhook::analyzer::inline diff {
namespace {

constexpr size_t kMostNamed = 3;              // in the sentence
constexpr double kFindingExplains = 0.5;      // part of the change that a finding must gain to be told as its cause
constexpr double kFindingExplainsPart = 0.2;  // … of whole runs, of which a part may be recorded; a switch; undecided
constexpr double kExplained = 0.8;            // part of the change; once explained, no more causes are named
constexpr double kWorthNaming = 0.05;         // part of the change
constexpr double kPaceWorthNoting = 0.05;     // difference from 1
constexpr double kAroundWorthNaming = 0.2;    // change of a time outside of the steps: part of the shorter run …
constexpr double kAroundLonger = 3;           // … and how many times the other side's: imports vary
constexpr double kLongerTell = 2;             // factor by which much longer steps change what is compared
constexpr double kInterruptedWorthNoting = 0.01;  // part of the time
constexpr double kUnseenTells = 0.3;              // of a step: time between calls that changes
constexpr double kMoreComputed = 1.5;             // times as many operations
constexpr double kMuchLonger = 1.3;               // a median, of the other side's

std::string PercentText(double part, double whole) {
  if (whole == 0) return "unknown";
  const double percent = 100 * std::abs(part) / whole;
  return percent >= 10 ? absl::StrFormat("%.0f %%", percent) : absl::StrFormat("%.1f %%", percent);
}

bool HasSteps(const VerdictInput& input) { return input.base_run->steps.count() > 0; }
std::string Unit(const VerdictInput& input) { return HasSteps(input) ? StepWord(input.new_run->steps.kind) : "run"; }

std::string PerText(const VerdictInput& input) {
  if (input.decision->per == Per::kSample) return " per sample";
  return HasSteps(input) ? absl::StrCat(" per ", Unit(input)) : "";
}

// "much longer ones and validation".
std::string IncludedText(const VerdictInput& input) {
  const ComparedSteps &base = input.base_run->steps, &after = input.new_run->steps;
  std::vector<std::string> included;
  if (base.interrupted + after.interrupted > 0) included.emplace_back("much longer ones");
  if (base.validations + after.validations > 0) included.emplace_back("validation");
  return absl::StrJoin(included, " and ");
}

bool AreStepsCompared(const VerdictInput& input) { return input.decision->per < Per::kSample; }

// The time of a step, if something else is compared.
std::string StepText(const VerdictInput& input) {
  const TimeChange& step = input.decision->whole;
  const double parts = input.decision->parts;
  if (parts != 1)
    return absl::StrFormat("; one of %s does as much as %.3g of %s", parts > 1 ? "BASE" : "NEW",
                           parts > 1 ? parts : 1 / parts, parts > 1 ? "NEW's" : "BASE's");
  const TimeChange &longer = input.decision->with_longer, &time = input.decision->time;
  if (AreStepsCompared(input)) {
    // Where these change the answer and no finding says what they are.
    const bool is_told = longer.base_ns == 0 || longer.IsBeyondNoise() || input.decision->are_longer_most;
    const double factor = is_told ? 1 : longer.new_ns / longer.base_ns * time.base_ns / time.new_ns;
    if (std::abs(std::log(factor)) < std::log(kLongerTell)) return "";
    return absl::StrCat("; ", IncludedText(input), " included ", HumanTime(longer.base_ns), " -> ",
                        HumanTime(longer.new_ns));
  }
  return absl::StrCat("; ", HumanTime(step.base_ns), " -> ", HumanTime(step.new_ns), " per ", Unit(input));
}

// CPU time, which does not depend on who else uses the processors.
std::string CpuText(const VerdictInput& input) {
  const TimeChange& cpu = input.decision->cpu;
  if (cpu.base_ns == 0) return "";
  return absl::StrCat(", CPU time ", HumanTime(cpu.base_ns), " -> ", HumanTime(cpu.new_ns));
}

std::string NoiseText(const VerdictInput& input, const TimeChange& time) {
  if (!time.noise_ns) return HasSteps(input) ? "noise not known: too few steps" : "noise not known: no steps";
  return absl::StrCat("noise ", PercentText(*time.noise_ns, time.base_ns));
}

// Of the side that takes longer: "NEW has slow-products (conv2): …", or that its steps grow.
std::string OwnCause(const VerdictInput& input) {
  const TimeChange &time = input.decision->time, &cpu = input.decision->cpu;
  // Findings' times have the waits of their side in them.
  double change_ns =
      input.decision->is_by_cpu ? cpu.change_ns() * std::max(time.new_ns / cpu.new_ns, 1.0) : time.change_ns();
  const bool is_new = change_ns > 0;
  for (const Cause& cause : input.causes) {
    const bool is_others = cause.kind == CauseKind::kBusyMachine && !input.decision->is_by_cpu;
    if (is_others && cause.change_ns * change_ns > 0) change_ns -= cause.change_ns;
  }
  const TimeChange& with_longer = input.decision->with_longer;
  const OwnFinding *more = nullptr, *told = nullptr;  // before this
  if (with_longer.IsBeyondNoise()) told = ReasonOfLongerSteps(input.own_findings, with_longer.change_ns() > 0);
  for (const OwnFinding& finding : input.own_findings) {
    const bool is_of_run = input.decision->per == Per::kRun;
    const bool is_part = is_of_run || finding.rule == "debug-switch" || time.finding == Speed::kNoise;
    if (finding.rule == "longer-steps" || &finding == told || finding.is_of_new != is_new ||
        (is_of_run ? finding.steps : 1) * (finding.gain_ns - finding.other_ns) <
            (is_part ? kFindingExplainsPart : kFindingExplains) * std::abs(change_ns))
      continue;
    if (finding.other_ns == 0) return finding.Sentence();
    if (more == nullptr) more = &finding;
  }
  // What both have takes longer where each product is of larger sizes.
  const auto [less, more_flops] = is_new ? input.flops : std::pair(input.flops.second, input.flops.first);
  const double factor = less > 0 && input.has_as_many_products ? more_flops / less : 1;
  const bool is_beside = more != nullptr || (!input.causes.empty() && input.causes.front().kind == CauseKind::kCalls);
  if (is_beside && factor >= kMoreComputed) {
    return absl::StrFormat("%s's products and convolutions compute %.1f times as much a %s (rows, padding, sizes)",
                           is_new ? "NEW" : "BASE", factor, Unit(input));
  }
  if (more != nullptr) return more->Sentence();
  if ((is_new ? input.new_run : input.base_run)->WaitedMuch()) return "";  // others may have come
  const Samples& samples = is_new ? input.decision->time.new_samples : input.decision->time.base_samples;
  const std::optional<Trend> trend = samples.size() == 1 ? TrendOf(samples.front()) : std::nullopt;
  if (!trend || !trend->IsGrowth()) return "";
  return absl::StrCat(is_new ? "NEW" : "BASE", "'s steps grow from ", HumanTime(trend->first), " to ",
                      HumanTime(trend->last));
}

// Why, until most of the change is explained. Per sample, the batch is: times of its steps explain nothing.
std::string Why(const VerdictInput& input) {
  if (input.decision->per == Per::kSample)
    return absl::StrCat(": batch ", input.base_run->steps.batch, " -> ", input.new_run->steps.batch);
  std::vector<std::string> clauses;
  if (std::string own = OwnCause(input); !own.empty()) clauses.push_back(std::move(own));
  double explained_ns = 0;
  // A wait explains nothing of the processor time.
  const auto is_beside = [&](const Cause& cause) {
    return input.decision->is_by_cpu && cause.kind == CauseKind::kBusyMachine;
  };
  double change_ns = input.decision->whole.change_ns();
  for (const Cause& cause : input.causes) change_ns -= is_beside(cause) ? cause.change_ns : 0;
  for (const Cause& cause : input.causes) {
    if (is_beside(cause) || cause.change_ns * change_ns <= 0 ||
        std::abs(cause.change_ns) < kWorthNaming * std::abs(change_ns))
      continue;
    if (clauses.size() == kMostNamed || explained_ns >= kExplained * std::abs(change_ns)) break;
    // Other parts may have become shorter: then this one is more than the change.
    const bool is_all = std::abs(cause.change_ns) > std::abs(change_ns);
    clauses.push_back(absl::StrCat(cause.Clause(), is_all ? "" : ", ", is_all ? "" : SignedTime(cause.change_ns)));
    explained_ns += std::abs(cause.change_ns);
  }
  return absl::StrCat(clauses.empty() ? "" : ": ", absl::StrJoin(clauses, "; "));
}

// What no difference says by itself, if it is the largest of what the program does otherwise; "" else.
std::string OwnClause(const VerdictInput& input) {
  for (const Cause& cause : input.causes) {
    if (cause.kind > CauseKind::kLayout) continue;
    const bool is_told = cause.kind != CauseKind::kPasses && cause.kind != CauseKind::kOperations;
    return is_told ? "" : absl::StrCat(cause.Clause(), "; ");
  }
  return "";
}

// "2.04 ms -> 2.67 ms per training step (+31 %, noise 19 %)".
std::string TimesText(const VerdictInput& input) {
  const Decision& decision = *input.decision;
  const TimeChange& time = decision.time;
  const char* beyond = decision.doubt == Doubt::kOnlySomeSteps ? ", but only some steps"
                       : decision.doubt == Doubt::kWaiting     ? ", but it waited for processors"
                                                               : "";
  return absl::StrCat(HumanTime(time.base_ns), " -> ", HumanTime(time.new_ns), PerText(input), " (",
                      time.change_ns() > 0 ? "+" : "-", PercentText(time.change_ns(), time.base_ns), beyond, ", ",
                      NoiseText(input, time), CpuText(input), StepText(input), ")");
}

// "31 % slower per training step (2.04 ms -> 2.67 ms, noise 19 %)"; where others disturb the times "31 % slower per
// training step by processor time (1.9 ms -> 2.5 ms, noise 5.1 %; with its waits 3.1 ms -> 5.6 ms)".
std::string SlowerText(const VerdictInput& input) {
  const Decision& decision = *input.decision;
  const TimeChange& time = decision.is_by_cpu ? decision.cpu : decision.time;
  const std::string beside = decision.is_by_cpu ? absl::StrCat("; with its waits ", HumanTime(decision.time.base_ns),
                                                               " -> ", HumanTime(decision.time.new_ns))
                                                : CpuText(input);
  return absl::StrCat(PercentText(time.change_ns(), time.base_ns), time.change_ns() > 0 ? " slower" : " faster",
                      PerText(input), decision.is_by_cpu ? " by processor time (" : " (", HumanTime(time.base_ns),
                      " -> ", HumanTime(time.new_ns), ", ", NoiseText(input, time), beside, StepText(input), ")");
}

// Changes within a step that did not change as a whole.
std::vector<std::string> ChangesWithin(const VerdictInput& input) {
  std::vector<std::string> changes;
  if (!AreStepsCompared(input)) return changes;
  for (const Contribution& contribution : input.contributions) {
    const bool is_much = std::abs(contribution.time.change_ns()) >= kWorthNaming * input.decision->whole.base_ns;
    if (is_much && contribution.time.IsBeyondNoise() && changes.size() < kMostNamed)
      changes.push_back(contribution.Sentence());
  }
  return changes;
}

std::string SideNote(const std::string& name, const MeasuredRun& run) {
  const std::string names = absl::StrJoin(run.names, ", ");
  const std::string side =
      absl::StrCat(name, " (", run.names.size() == 1 ? names : absl::StrCat(run.names.size(), " runs: ", names), ")");
  const ComparedSteps& steps = run.steps;
  if (steps.count() == 0) {
    return absl::StrCat(side, ": no steady steps were found; the run took ", HumanTime(run.time_ns), ".");
  }
  const Quartiles quartiles = QuartilesOf(steps.Durations());
  std::string note = absl::StrCat(side, ": ", steps.count(), " steady ", StepWord(steps.kind),
                                  steps.count() == 1 ? "" : "s", ", median ", HumanTime(quartiles.median),
                                  ", quartiles ", HumanTime(quartiles.lower), " to ", HumanTime(quartiles.upper));
  if (steps.batch > 0) absl::StrAppend(&note, ", batch ", steps.batch);
  if (steps.interrupted > 0) {
    absl::StrAppend(&note, "; ", steps.interrupted, " more were interrupted (", HumanTime(steps.interrupted_ns),
                    ") and are left out");
  }
  return absl::StrCat(note, "; ", run.load.Text(), ".");
}

// Where the interval comes from, and what is not in it.
void AddIntervalNote(const VerdictInput& input, Table& table) {
  const TimeChange& time = input.decision->time;
  if (!time.noise_ns || time.finding == Speed::kEqual || input.decision->is_by_cpu) return;
  const size_t before = input.base_run->names.size(), after = input.new_run->names.size();
  const std::string interval =
      absl::StrCat("The change", PerText(input), " lies between ", SignedTime(time.change_ns() - *time.noise_ns),
                   " and ", SignedTime(time.change_ns() + *time.noise_ns), " with 99 % confidence, by the variation ");
  if (before == 1 && after == 1) {
    table.Note(interval,
               "within the runs. How much one run differs from the next is unknown: for that, "
               "dlhook diff --base A1 A2 A3 --new B1 B2 B3.");
  } else {
    table.Note(interval, "between runs (", before, " and ", after, ") and within them.");
  }
}

// Whether most of the change is known to be of something; of steps: unless it is much and lies between calls.
bool IsSeen(const VerdictInput& input) {
  const CauseKind unknown = HasSteps(input) ? CauseKind::kPython : CauseKind::kOther;
  double unknown_ns = 0;
  for (const Cause& cause : input.causes) unknown_ns += cause.kind == unknown ? std::abs(cause.change_ns) : 0;
  if (HasSteps(input) && unknown_ns < kUnseenTells * input.decision->whole.base_ns) return true;
  return 2 * unknown_ns < std::abs(input.decision->whole.change_ns());
}

void AddPaceNote(const VerdictInput& input, Table& table) {
  const Decision& decision = *input.decision;
  if (decision.is_same_work && IsSeen(input) && decision.time.finding != Speed::kEqual) {
    const bool knows_threads = input.base_run->load.is_known && input.new_run->load.is_known;
    table.Note("Both runs did the same work in the same way; only the speed differs",
               knows_threads ? "." : " (or how many threads did it, which was not sampled).");
  }
  if (decision.time.finding != Speed::kNoise || std::abs(std::log(decision.pace.ratio)) <= kPaceWorthNoting) return;
  const double ratio = decision.pace.ratio;
  table.notes.push_back(absl::StrFormat(
      "Half or more of every kind of activity (library, framework, not seen) took at least %.2f times as long%s: a "
      "busier or slower machine does that; a change to the program rarely does. It counts as noise.",
      ratio > 1 ? ratio : 1 / ratio, ratio > 1 ? " in NEW" : " in BASE"));
}

void AddDifferenceNotes(const VerdictInput& input, Table& table) {
  const ComparedSteps& before = input.base_run->steps;
  const ComparedSteps& after = input.new_run->steps;
  if (before.kind != after.kind) {
    table.Note("The runs have no steps of the same kind: a ", StepWord(before.kind), " of BASE (",
               StepKindName(before.kind), ") is compared with a ", StepWord(after.kind), " of NEW (",
               StepKindName(after.kind), ").");
  }
  if (const double parts = input.decision->parts; parts != 1) {
    table.notes.push_back(absl::StrFormat("%s's times and counts are of one of %.3g parts of its %ss.",
                                          parts > 1 ? "BASE" : "NEW", parts > 1 ? parts : 1 / parts, Unit(input)));
  }
  const TimeChange& low = input.decision->low;
  if (input.decision->doubt == Doubt::kOnlySomeSteps) {
    table.Note("The faster quarter of the steps takes up to ", HumanTime(low.base_ns), " in BASE and ",
               HumanTime(low.new_ns),
               " in NEW, so it shows no such difference. Only some steps take longer, as on a busy machine.");
  }
  if (input.decision->doubt == Doubt::kWaiting) {
    const bool knows_both = input.base_run->load.is_known && input.new_run->load.is_known;
    table.notes.push_back(knows_both ? "Without the time in which threads waited for a processor there is no such "
                                       "difference: the machine was busier on one side."
                                     : "The machine was busy, and how long one side waited for a processor is not "
                                       "known: longer runs have enough samples.");
  }
}

void AddInterruptionNote(const VerdictInput& input, Table& table) {
  const double before = input.base_run->steps.InterruptedPart(), after = input.new_run->steps.InterruptedPart();
  if (std::abs(before - after) < kInterruptedWorthNoting) return;
  if (input.decision->with_longer.IsBeyondNoise() || input.decision->are_longer_most) return;  // the sentence has it
  table.notes.push_back(absl::StrFormat(
      "Interrupted steps took %.1f %% of BASE's steps' time and %.1f %% of NEW's: no other number here includes that.",
      100 * before, 100 * after));
}

TypedColumns<Contribution> Columns() {
  TypedColumns<Contribution> columns = {
      {TextColumn("what"), "The step, then the layers that made it change.", &Contribution::layer},
      {TextColumn("direction"), "Forward or backward, where that is known.", Known(&Contribution::direction)},
  };
  columns.Add(ChangeColumns().Of<Contribution>([](const Contribution& change) {
    return MatchedTime{change.time, change.match};
  }));
  const auto end = [&](const char* name, const char* explanation, double sign) {
    columns.Add({Detail(Within(Range::kSigned, IntegerColumn(name, "ns", Better::kLower, explanation))),
                 [sign](const Contribution& change) {
                   if (!change.time.noise_ns) return Cell();
                   return Cell(
                       static_cast<int64_t>(std::llround(change.time.change_ns() + sign * *change.time.noise_ns)));
                 }});
  };
  end("change_from", "The change is at least this: change minus noise.", -1);
  end("change_to", "The change is at most this: change plus noise.", 1);
  columns.Add({TextColumn("why"), "What explains the change.",
               [](const Contribution& change) { return KnownText(absl::StrJoin(change.why, "; ")); }});
  return columns;
}

// "busy machine (BASE waited 62.5 ms a step for a processor, NEW 42.0 ms): "; "" if neither did for long.
std::string BusyText(const VerdictInput& input) {
  const MeasuredRun &base = *input.base_run, &new_side = *input.new_run;
  if (!HasSteps(input) || (!base.WaitedMuch() && !new_side.WaitedMuch())) return "";
  const auto waited = [](const MeasuredRun& run) {
    return run.load.is_known ? HumanTime(run.OthersNs()) : "an unknown time";
  };
  return absl::StrCat("busy machine (BASE waited ", waited(base), " a step for a processor, NEW ", waited(new_side),
                      "): ");
}

// "NEW ended with code 1, behind 12 steady steps (BASE: 198): "; "" if no side failed.
std::string FailureText(const VerdictInput& input) {
  const MeasuredRun &base = *input.base_run, &other = *input.new_run;
  if (base.failure == other.failure) return base.failure.empty() ? "" : absl::StrCat("both sides ", base.failure, ": ");
  const auto clause = [](const char* name, const MeasuredRun& run, const char* other_name, const MeasuredRun& beside) {
    if (run.failure.empty()) return std::string();
    return absl::StrCat(name, " ", run.failure, ", behind ", run.steps.count(), " steady steps (", other_name, ": ",
                        beside.steps.count(), "): ");
  };
  return clause("BASE", base, "NEW", other) + clause("NEW", other, "BASE", base);
}

// "NEW is 210 % slower per training step, much longer ones and validation included (2.04 ms -> 6.32 ms): NEW has longer-steps:
// …"; "" if they don't tell the sides apart.
std::string LongerText(const VerdictInput& input) {
  const TimeChange& time = input.decision->with_longer;
  if (!time.IsBeyondNoise() && (!input.decision->are_longer_most || time.base_ns == 0)) return "";
  const OwnFinding* const own =
      time.IsBeyondNoise() ? ReasonOfLongerSteps(input.own_findings, time.change_ns() > 0) : nullptr;
  const std::string times = absl::StrCat(HumanTime(time.base_ns), " -> ", HumanTime(time.new_ns));
  const std::string change = PercentText(time.change_ns(), time.base_ns);
  const bool is_slower = time.change_ns() > 0;
  if (own == nullptr && input.base_run->steps.kind != input.new_run->steps.kind) return "";  // others are longer there
  if (own == nullptr) {
    return absl::StrCat("by all steps, ", IncludedText(input), " included, whatever made these longer, ", times,
                        PerText(input), " (", is_slower ? "+" : "-", change, "). Without them: ");
  }
  return absl::StrCat("NEW is ", change, is_slower ? " slower" : " faster", PerText(input), ", ", IncludedText(input),
                      " included (", times, "): ", own->Sentence(), ". Without them: ");
}

// Whether the steps of one side take much longer than the other's, although so may those of a busy machine; or need much more
// processor time, where that is known, beside noise as large as what is compared.
bool IsUndecided(const VerdictInput& input) {
  const TimeChange& time = input.decision->time;
  const TimeChange& needed = input.decision->cpu.base_ns > 0 ? input.decision->cpu : time;
  const bool needs_more =
      std::max(needed.base_ns, needed.new_ns) > kMuchLonger * std::min(needed.base_ns, needed.new_ns);
  if (needs_more && time.noise_ns && *time.noise_ns >= std::min(time.base_ns, time.new_ns)) return true;
  const std::vector<int64_t> base = input.base_run->steps.Durations(), after = input.new_run->steps.Durations();
  if (base.empty() || after.empty() || input.decision->per != Per::kStep) return false;
  // Not others, but a wait of another kind may make the difference.
  const double waited_ns = input.new_run->load.waiting_ns - input.base_run->load.waiting_ns;
  if (input.decision->cpu.base_ns > 0 && 2 * std::abs(waited_ns) > std::abs(time.change_ns())) return false;
  const Quartiles before = QuartilesOf(base), now = QuartilesOf(after);
  const Quartiles &less = now.median > before.median ? before : now, &more = now.median > before.median ? now : before;
  return static_cast<double>(more.median) > kMuchLonger * static_cast<double>(less.median) && more.lower > less.upper;
}

// "; without its waits for processors 1.20 s -> 4.71 s": of runs without steps, where these waits turn the answer round; else "".
std::string WithoutWaits(const VerdictInput& input) {
  const MachineLoad &base = input.base_run->load, &now = input.new_run->load;
  const TimeChange& time = input.decision->time;
  if (input.decision->per != Per::kRun || !base.is_known || !now.is_known) return "";
  const double before_ns = time.base_ns - base.waiting_ns, after_ns = time.new_ns - now.waiting_ns;
  if ((after_ns - before_ns) * time.change_ns() > 0) return "";
  return absl::StrCat("; without its waits for processors ", HumanTime(before_ns), " -> ", HumanTime(after_ns));
}

std::string DecisionText(const VerdictInput& input) {
  const Decision& decision = *input.decision;
  const std::string differences = DifferencesText(input.differences);
  const bool is_same_program = differences.empty();
  const std::string first = is_same_program ? "" : absl::StrCat("NEW differs: ", OwnClause(input), differences, ". ");
  if (decision.time.finding == Speed::kEqual) {
    return absl::StrCat(first, is_same_program ? "no difference: " : "No difference in time: ",
                        HumanTime(decision.time.base_ns), PerText(input), " on both sides");
  }
  if (decision.time.finding == Speed::kNoise) {
    const std::vector<std::string> within = ChangesWithin(input);
    const bool is_undecided = IsUndecided(input);
    const std::string own = is_undecided ? OwnCause(input) : "";
    return absl::StrCat(first,
                        is_undecided      ? (first.empty() ? "undecided: " : "Undecided: ")
                        : is_same_program ? "no difference beyond noise: "
                                          : "No difference in time beyond noise: ",
                        TimesText(input), own.empty() ? "" : ": ", own,
                        within.empty() ? "" : "; within the step: ", absl::StrJoin(within, "; "));
  }
  if (const std::string own = WithoutWaits(input); !own.empty())
    return absl::StrCat(first, first.empty() ? "undecided: " : "Undecided: ", TimesText(input), own);
  return absl::StrCat("NEW is ", SlowerText(input), Why(input), is_same_program ? "" : ". NEW differs: ", differences);
}

// Of the compared steps; empty: not known, or several.
std::string NetworkOf(const MeasuredRun& run) {
  std::set<std::string> networks;
  for (const StepTrack& track : run.steps.tracks) {
    for (const Step& step : track.steps) networks.insert(step.model);
  }
  return networks.size() == 1 ? *networks.begin() : "";
}

std::string NetworksText(const VerdictInput& input) {
  const std::string base = NetworkOf(*input.base_run), other = NetworkOf(*input.new_run);
  if (base.empty() || other.empty() || base == other) return "";
  return absl::StrCat("different networks (BASE ", base, ", NEW ", other, "): ");
}

// ". Outside of the steps: 148 ms -> 561 ms after the last": what no comparison of steps shows.
std::string AroundText(const VerdictInput& input) {
  const TimeAround &base = input.base_run->around, &after = input.new_run->around;
  const double least_ns = kAroundWorthNaming * std::min(base.run_ns, after.run_ns);
  std::vector<std::string> changes;
  const auto add = [&](double base_ns, double new_ns, const char* place) {
    if (std::abs(new_ns - base_ns) < least_ns || std::max(base_ns, new_ns) < kAroundLonger * std::min(base_ns, new_ns))
      return;
    changes.push_back(absl::StrCat(HumanTime(base_ns), " -> ", HumanTime(new_ns), place));
  };
  if (least_ns > 0) {
    add(base.before_ns, after.before_ns, " before the first");
    add(base.warm_up_ns, after.warm_up_ns, " in the warm-up");
    if (base.after_ns >= 0 && after.after_ns >= 0) add(base.after_ns, after.after_ns, " after the last");
  }
  return changes.empty() ? "" : absl::StrCat(". Outside of the steps: ", absl::StrJoin(changes, ", "));
}

}  // namespace

std::string OwnFinding::Sentence() const {
  const char* side = is_of_new ? "NEW" : "BASE";
  if (other_ns == 0) return absl::StrCat(side, " has ", words);
  return absl::StrCat(side, " loses more to ", words, " (", is_of_new ? "BASE" : "NEW", ": ", HumanTime(other_ns), ")");
}

const OwnFinding* ReasonOfLongerSteps(const std::vector<OwnFinding>& findings, bool of_new) {
  for (const char* rule : {"longer-steps", "recompilations", "made-anew"}) {
    const auto found = absl::c_find_if(
        findings, [&](const OwnFinding& finding) { return finding.rule == rule && finding.is_of_new == of_new; });
    if (found != findings.end()) return &*found;
  }
  return nullptr;
}

std::string VerdictSentence(const VerdictInput& input) {
  return absl::StrCat(FailureText(input), NetworksText(input), BusyText(input), LongerText(input), DecisionText(input),
                      AroundText(input));
}

Table VerdictTable(const VerdictInput& input) {
  const TypedColumns<Contribution> columns = Columns();
  Table table = NewTable("verdict", VerdictSentence(input), columns);
  const Decision& decision = *input.decision;
  if (decision.time.finding != Speed::kEqual) {
    if (!AreStepsCompared(input)) AddRow(columns, {"sample", "", decision.time, Match::kSame, {}}, &table);
    AddRow(columns, {Unit(input), "", decision.whole, Match::kSame, {}}, &table);
    for (const Contribution& contribution : input.contributions) {
      if (contribution.time.IsBeyondNoise()) AddRow(columns, contribution, &table);
    }
  }
  table.notes.push_back(SideNote("BASE", *input.base_run));
  table.notes.push_back(SideNote("NEW", *input.new_run));
  AddIntervalNote(input, table);
  AddPaceNote(input, table);
  AddDifferenceNotes(input, table);
  AddInterruptionNote(input, table);
  return table;
}

}  // namespace dlhook::analyzer::diff
