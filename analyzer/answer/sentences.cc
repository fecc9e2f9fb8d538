// What the answer says of steps: see sentences.h.
#include "analyzer/answer/sentences.h"

#include "analyzer/findings/rules.h"
#include "analyzer/model/release.h"
#include "analyzer/steps/step_assembly.h"
#include "analyzer/table/table_ops.h"
#include "analyzer/work/generation.h"

namespace dlhook::analyzer::inline answer {
namespace {

constexpr size_t kLeastForQuartiles = 8;
constexpr int64_t kLeastOfRate = 5;  // calls
constexpr double kWorthSayingLonger = 1.3;
constexpr double kWorthSaying = 0.05;     // of the steps: others of their kind
constexpr double kWorthMentioning = 0.1;  // of all steps: what much longer ones hold, and what they change

// Whether more warm-up steps may follow where nothing was read: the first part ends with one.
bool IsWarmUpCut(const TraceModel& model, const StepTrack& track) {
  const auto is_its = [&](const ReadSpan& span) { return span.process == track.process; };
  const auto first = absl::c_find_if(model.read_spans, is_its);
  if (first == model.read_spans.end()) return false;
  bool is_cut = false;
  for (const Step& step : track.steps) {
    if (step.end_ns <= first->end_ns) is_cut = step.is_warm_up;
  }
  return is_cut;
}

// Of a run that was read in parts: how many, and what part of its processes' time. Empty: it was read whole.
std::string ReadPartsSentence(const TraceModel& model) {
  if (model.read_spans.empty()) return "";
  int64_t read_ns = 0, whole_ns = 0;
  for (const ProcessInfo& process : model.processes) whole_ns += process.end_ns - process.start_ns;
  for (const ReadSpan& span : model.read_spans) {
    const ProcessInfo& process = model.processes[span.process];
    read_ns += std::max<int64_t>(std::min(span.end_ns, process.end_ns) - std::max(span.start_ns, process.start_ns), 0);
  }
  return absl::StrFormat(" From %d evenly spread parts, %.0f %% of the run (tables: all of it).",
                         model.read_spans.size(), 100 * static_cast<double>(read_ns) / static_cast<double>(whole_ns));
}

// Requests of one thread that waits for them longer than they take: most of the run is in none.
std::string PauseSentence(const StepFacts& facts) {
  const std::vector<StepTrack>& tracks = facts.options().analysis->steps();
  const bool are_requests = facts.steps().kind == StepKind::kInference;
  if (!are_requests || tracks.size() != 1 || !facts.model().read_spans.empty()) return "";
  if (!AreStepsKnownBetweenWindows(facts.model())) return "";
  int64_t in_ns = 0, pause_ns = 0;
  const Step* before = nullptr;
  for (const Step& step : tracks.front().steps) {
    if (step.is_warm_up) continue;
    in_ns += step.end_ns - step.start_ns;
    if (before != nullptr) {
      pause_ns += std::max<int64_t>(step.start_ns - before->end_ns, 0) -
                  StoppedNs(facts.model(), tracks.front().process, before->end_ns, step.start_ns);
    }
    before = &step;
  }
  return pause_ns > in_ns ? absl::StrCat(" Between requests ", HumanTime(static_cast<double>(pause_ns)), " passed.")
                          : "";
}

// Samples a second from the first training step to the last, with all that lies between; 0: not known.
double WholeRate(const StepFacts& facts) {
  const StepTrack* const track = facts.WholeTrack();
  if (track == nullptr || facts.steps().kind != StepKind::kTraining || !facts.model().read_spans.empty()) return 0;
  const Step *first = nullptr, *last = nullptr;
  int64_t samples = 0, told = 0, untold = 0;  // steps between windows have as many as those in them
  for (const Step& step : track->steps) {
    if (step.kind != StepKind::kTraining) continue;
    if (step.samples == 0 && step.has_scopes) return 0;
    if (first == nullptr) first = &step;
    last = &step;
    samples += step.samples;
    ++(step.samples == 0 ? untold : told);
  }
  if (told == 0 || !AreStepsKnownBetweenWindows(facts.model())) return 0;
  samples += samples * untold / told;
  const int64_t stopped_ns = StoppedNs(facts.model(), track->process, first->start_ns, last->end_ns);
  return static_cast<double>(samples) * 1e9 / static_cast<double>(last->end_ns - first->start_ns - stopped_ns);
}

std::string Rate(double per_second) { return absl::StrFormat("%.*f", per_second < 10 ? 2 : 0, per_second); }

// Whether much longer steps are more than an interruption of the program by others: they come regularly, or hold much of
// the time.
bool IsStructure(const ComparedSteps& steps) {
  const auto all_ns = static_cast<double>(steps.AllNs());
  return steps.interrupted_every > 0 || static_cast<double>(steps.interrupted_ns) >= kWorthMentioning * all_ns;
}

// "4 much longer steps of 24.3 ms on average".
std::string LongerSteps(const ComparedSteps& steps) {
  return absl::StrCat(Many(static_cast<size_t>(steps.interrupted), "much longer step"), " of ",
                      HumanTime(static_cast<double>(steps.interrupted_ns) / static_cast<double>(steps.interrupted)),
                      steps.interrupted > 1 ? " on average" : "");
}

std::string GenerationSentence(const Generation& generation) {
  return absl::StrFormat(
      " It generates token by token: the pass over a prompt takes %s (time to the first token), each further token %s; "
      "%.3g tokens take %s: %s tokens/s for each sequence of the batch.",
      HumanTime(generation.prefill_ns), HumanTime(generation.decode_ns), generation.tokens,
      HumanTime(generation.sequence_ns), Rate(generation.tokens * 1e9 / generation.sequence_ns));
}

std::string SeriesSentence(const PassSeries& series) {
  return absl::StrFormat(
      " Here a request is one pass of the network: %.3g of them, %s in all, for each time that %s%s runs.",
      series.passes, HumanTime(series.ns), series.line,
      series.caller.empty() ? "" : absl::StrCat(" (called at ", series.caller, ")"));
}

// " With 3 much longer steps of 8.10 s on average (each 6th, 5.20 s of it waiting for input) it takes 3.05 s."
std::string MeanOfAll(const ComparedSteps& steps) {
  if (steps.interrupted == 0 || !IsStructure(steps)) return "";
  const auto count = static_cast<double>(steps.interrupted);
  const auto input_ns = static_cast<double>(steps.interrupted_input_ns);
  std::vector<std::string> facts;
  if (std::string when = WhenInterrupted(steps); !when.empty()) facts.push_back(std::move(when));
  if (input_ns >= static_cast<double>(steps.interrupted_ns) / 3) {
    facts.push_back(absl::StrCat(HumanTime(input_ns / count), " waiting for input"));
  }
  return absl::StrCat(" With ", LongerSteps(steps), facts.empty() ? "" : " (", absl::StrJoin(facts, ", "),
                      facts.empty() ? "" : ")", " it takes ", HumanTime(steps.MeanWithInterruptedNs()), ".");
}

// Steps of the same kind that are in no mean: with other batches or passes.
std::string OtherSteps(const StepFacts& facts) {
  const ComparedSteps& steps = facts.steps();
  const StepTrack* const track = facts.WholeTrack();
  if (track == nullptr || steps.tracks.size() != 1 || !facts.model().scope_windows.empty()) return "";
  int64_t count = 0, ns = 0;
  for (const Step& step : track->steps) {
    if (step.kind != steps.kind || step.is_warm_up || step.is_regular || &step == &track->steps.back()) continue;
    ++count;
    ns += step.end_ns - step.start_ns;
  }
  if (steps.kind == StepKind::kInference ||
      static_cast<double>(ns) < kWorthSaying * static_cast<double>(steps.total_ns()))
    return "";
  return absl::StrCat(" ", Many(static_cast<size_t>(count), "step"), " with another batch or other passes took ",
                      HumanTime(static_cast<double>(ns)), ".");
}

// "Recording took 0.4 % of all steps, 31 % of those in windows"; by steps in windows and outside.
std::string CostSentence(const WindowCost& cost, double inside_ns) {
  constexpr double kLeastPercent = 0.01;
  const double all_ns = cost.outside_mean_ns() * static_cast<double>(cost.all);
  const auto recorded = static_cast<double>(cost.recorded);
  if (!cost.IsSeen()) {
    const double most_ns = std::max(cost.added_ns, 0.0) + 2 * cost.error_ns;
    return absl::StrFormat(" Recording took at most %.2g %% of all steps.",
                           std::max(100 * most_ns * recorded / all_ns, kLeastPercent));
  }
  return absl::StrFormat(" Recording took %.2g %% of all steps, %.0f %% of the recorded ones (+- %.0f %%).",
                         100 * cost.added_ns * recorded / (all_ns + cost.added_ns * recorded),
                         100 * cost.added_ns / inside_ns, 100 * cost.error_ns / inside_ns);
}

// How many times as long steps in windows take as others, by how fast the calls follow each other that steps make: at least,
// since what is outside may be no step. 0: too few calls, or steps that are not in windows only.
double TimesAsLongInWindows(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  if (facts.steps().tracks.size() != 1 || facts.steps().tracks.front().steps.empty()) return 0;
  const StepTrack* const track = &facts.steps().tracks.front();
  std::vector<Interval> recorded, windows;
  for (const Step& step : track->steps) recorded.push_back({step.start_ns, step.end_ns});
  for (const ScopeWindow& window : model.scope_windows) {
    if (window.process == track->process) windows.push_back({window.start_ns, window.end_ns});
  }
  const IntervalSet steps(std::move(recorded)), in_windows(std::move(windows));
  const int64_t from_ns = track->steps.front().start_ns;
  int64_t until_ns = from_ns, inside = 0, outside = 0;
  std::map<OpIndex, std::pair<int64_t, int64_t>> calls;  // some are recorded in windows only
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    const int64_t start_ns = model.calls.start_ns[call];
    if (model.threads[model.calls.thread[call]].process != track->process || start_ns < from_ns) continue;
    auto& [in, out] = calls[model.calls.op[call]];
    in += steps.CoveredNs(start_ns, start_ns + 1);
    out += 1 - in_windows.CoveredNs(start_ns, start_ns + 1);
    until_ns = std::max(until_ns, start_ns);
  }
  for (const auto& [op, count] : calls) {
    inside += count.second > 0 ? count.first : 0;
    outside += count.second;
  }
  const int64_t outside_ns = until_ns - from_ns - in_windows.CoveredNs(from_ns, until_ns);
  if (std::min(inside, outside) < kLeastOfRate || outside_ns <= 0) return 0;
  return static_cast<double>(outside) / static_cast<double>(outside_ns) * static_cast<double>(steps.total_ns()) /
         static_cast<double>(inside);
}

// Of which part of the run steps are known in full.
std::string RecordedPart(const StepFacts& facts, const std::optional<WindowCost>& cost) {
  const TraceModel& model = facts.model();
  const std::string whole = HumanTime(static_cast<double>(model.wall_ns()));
  int64_t limit_ns = model.end_ns;
  for (const AggregateRow& row : model.aggregates) {
    if (row.cause == AggregateCause::kTraceLimit) limit_ns = std::min(limit_ns, row.window_start_ns);
  }
  if (limit_ns < model.end_ns && model.scope_windows.empty()) {
    return absl::StrCat(" Only the first ", HumanTime(static_cast<double>(limit_ns - model.start_ns)), " of ", whole,
                        " could be divided into steps: then the trace had reached its limit (DLHOOK_MAX_BYTES).");
  }
  std::map<ProcessIndex, int64_t> recorded_ns;
  for (const ScopeWindow& window : model.scope_windows) recorded_ns[window.process] += window.end_ns - window.start_ns;
  int64_t most_ns = 0;
  for (const auto& [process, ns] : recorded_ns) most_ns = std::max(most_ns, ns);
  if (cost.has_value()) {
    return absl::StrCat(" Operations were recorded in ", cost->recorded, " of ", cost->all, " steps",
                        cost->slow > 0 ? absl::StrCat(" (", cost->slow, " of them for being slow)") : "",
                        "; what follows is the mean of ", facts.steps().count(), " of these, ",
                        HumanTime(facts.step_ns()), ".", cost->is_cost_told ? CostSentence(*cost, facts.step_ns()) : "",
                        cost->is_cost_told && cost->has_gpu_times_throughout
                            ? " GPU times, whose cost is not in this, were recorded throughout."
                            : "");
  }
  if (most_ns == 0 || most_ns > model.wall_ns() / 10 * 9) return "";
  std::string text = absl::StrCat(" They are from the ", HumanTime(static_cast<double>(most_ns)), " of ", whole,
                                  " in which operations were recorded.");
  if (const double times = TimesAsLongInWindows(facts); times >= kWorthSayingLonger) {
    absl::StrAppendFormat(
        &text,
        " Outside of it the same calls come %.1f times as fast: a step takes about %s there, if each makes as many.",
        times, HumanTime(facts.step_ns() / times));
  }
  return text;
}

}  // namespace

bool AreRanks(const TraceModel& model, const ComparedSteps& steps) {
  std::set<std::string> ranks;
  for (const StepTrack& track : steps.tracks) {
    if (!track.steps.empty()) ranks.insert(RankOf(model.processes[track.process]));
  }
  return ranks.size() > 1 && ranks.size() == steps.tracks.size() && !ranks.contains("");
}

std::string ProgramsSentence(const TraceModel& model, const ComparedSteps& steps) {
  std::map<std::string, ComparedSteps> programs;
  for (const StepTrack& track : steps.tracks) {
    if (!track.steps.empty()) programs[ProgramOf(model.processes[track.process])].tracks.push_back(track);
  }
  if (programs.size() < 2) return "";
  std::vector<std::string> means;
  for (const auto& [name, of] : programs) {
    means.push_back(
        absl::StrCat(name, " ", HumanTime(static_cast<double>(of.total_ns()) / static_cast<double>(of.count()))));
  }
  return absl::StrCat(" These are steps of different programs (", absl::StrJoin(means, ", "),
                      "): this mean, and what follows, is of all of them. Report one trace alone.");
}

std::string BatchSentence(const ComparedSteps& steps, double step_ns, bool are_ranks, double whole_per_second) {
  const double samples = steps.samples(), per_second = samples * 1e9 / step_ns;
  if (samples == 0) return "";
  int64_t least = INT64_MAX, most = 0, processes = 0;
  int64_t passes = 0;    // of a step: gradients are accumulated
  bool is_batch = true;  // the same in each pass
  for (const StepTrack& track : steps.tracks) {
    processes += track.steps.empty() ? 0 : 1;
    for (const Step& step : track.steps) {
      least = std::min(least, step.samples);
      most = std::max(most, step.samples);
      if (passes == 0) passes = step.micro_steps;
      is_batch =
          is_batch && step.batch == steps.batch && step.micro_steps == passes && step.samples == step.batch * passes;
    }
  }
  const char* const word = steps.batch_is_rows ? "rows" : "samples";
  const std::string noun = steps.batch_is_rows ? "rows (samples, or their tokens)" : word;
  const char* const of = steps.kind == StepKind::kInference ? "request" : "step";
  std::string text = absl::StrFormat(" %d to %d %s a %s, %.3g on average", least, most, noun, of, samples);
  if (least == most) text = absl::StrFormat(" %d %s a %s", most, noun, of);
  if (is_batch) {
    const std::string times = passes > 1 ? absl::StrCat(passes, " x ") : "";
    text = steps.batch_is_rows ? absl::StrCat(" ", times, steps.batch, " ", noun)
                               : absl::StrCat(" Batch ", times, steps.batch);
  }
  const auto ranks = static_cast<double>(are_ranks ? processes : 1);
  absl::StrAppend(&text, ": ", Rate(per_second * ranks), " ", word, "/s");
  const bool is_part = steps.other_threads > 0;
  if (are_ranks) {
    absl::StrAppend(&text, " in ", processes, " ranks, if each has samples of its own; ", Rate(per_second),
                    is_batch ? "" : " on average", " in each");
  } else if (processes > 1) {
    absl::StrAppend(&text, is_part ? " in the busiest thread of" : " in", " each of ", processes, " processes");
  } else if (is_part) {
    absl::StrAppend(&text, " in the busiest of ", steps.other_threads + 1, " threads");
  }
  if (whole_per_second > 0 && std::abs(per_second - whole_per_second) >= kWorthMentioning * per_second) {
    absl::StrAppend(&text, "; ", Rate(whole_per_second), are_ranks ? " there" : "", " from the first step to the last");
  }
  return absl::StrCat(text, ".");
}

TimesOfSteps TimesOf(const StepFacts& facts) {
  const std::optional<WindowCost> cost = CostOfWindows(facts);
  if (!cost.has_value()) return {facts.steps().Durations(), facts.step_ns()};
  return {cost->outside_ns, cost->outside_mean_ns()};
}

double SamplesPerSecond(const StepFacts& facts) {
  if (!ProgramsSentence(facts.model(), facts.steps()).empty()) return 0;
  const double ranks = AreRanks(facts.model(), facts.steps()) ? static_cast<double>(facts.steps().tracks.size()) : 1;
  return ranks * facts.steps().samples() * 1e9 / std::max(TimesOf(facts).mean_ns, PaceOf(facts).work_ns);
}

std::string HowLong(const StepFacts& facts) {
  if (!facts.HasSteps()) return "No repeating step was found: the rest describes the whole run.";
  const std::optional<WindowCost> cost = CostOfWindows(facts);
  const auto [durations, step_ns] = TimesOf(facts);
  const Quartiles quartiles = QuartilesOf(durations);
  int64_t warm_up = 0, warm_up_ns = 0, validation = 0, validation_ns = 0;
  bool is_cut = false;
  for (const StepTrack& track : facts.options().analysis->steps()) {
    is_cut |= IsWarmUpCut(facts.model(), track);
    for (const Step& step : track.steps) {
      if (step.kind == StepKind::kValidation) {
        ++validation;
        validation_ns += step.end_ns - step.start_ns;
      }
      if (!step.is_warm_up || step.kind != facts.steps().kind) continue;
      ++warm_up;
      warm_up_ns += step.end_ns - step.start_ns;
    }
  }
  const ComparedSteps& steps = facts.steps();
  const std::optional<Generation> generation = FindGeneration(facts);
  const std::optional<PassSeries> series = generation.has_value() ? std::nullopt : FindPassSeries(facts);
  // Of a network that generates, passes over prompts are no steps left out: both have a time of their own below.
  const std::string left_out = generation.has_value() ? "" : steps.left_out.Text();
  std::string text =
      absl::StrFormat("A %s takes %s, mean of %s", facts.StepNoun(), HumanTime(step_ns),
                      cost.has_value() || left_out.empty()
                          ? Many(durations.size(), "steady one")
                          : absl::StrCat(steps.count(), " of ", steps.left_out.all, " (without ", left_out, ")"));
  // With few steps, quartiles say nothing.
  if (durations.size() >= kLeastForQuartiles) {
    absl::StrAppend(&text, "; the middle half take ", HumanTime(static_cast<double>(quartiles.lower)), " to ",
                    HumanTime(static_cast<double>(quartiles.upper)));
  }
  text += ".";
  if (const auto& tracks = steps.tracks; !tracks.empty() && !tracks.front().steps.empty()) {
    const Step& step = tracks.front().steps.front();
    if (steps.kind == StepKind::kTraining && step.updates > 1)
      absl::StrAppend(&text, " Each has ", step.updates, " updates in turn, ",
                      step.updates_of_most == 1 ? "of different optimizers"
                                                : absl::StrCat(step.updates_of_most, " of them by one optimizer"),
                      ".");
  }
  const GpuPace pace = PaceOf(facts);
  const std::string programs = ProgramsSentence(facts.model(), steps);
  const std::string passes = generation.has_value() ? GenerationSentence(*generation)
                             : series.has_value()   ? SeriesSentence(*series)
                                                    : "";
  absl::StrAppend(&text, programs, PaceSentence(facts, pace), generation.has_value() ? "" : MeanOfAll(steps), passes,
                  programs.empty() ? BatchSentence(steps, std::max(step_ns, pace.work_ns),
                                                   AreRanks(facts.model(), steps), WholeRate(facts))
                                   : "",
                  PauseSentence(facts));
  text += OtherSteps(facts);
  absl::StrAppend(&text, ReadPartsSentence(facts.model()), RecordedPart(facts, cost));
  if (warm_up > 0)
    absl::StrAppend(&text, is_cut ? " At least " : " ", Many(static_cast<size_t>(warm_up), "warm-up step"), " took ",
                    HumanTime(static_cast<double>(warm_up_ns)), ".");
  if (validation > 0 && facts.model().read_spans.empty()) {
    absl::StrAppend(&text, " ", Many(static_cast<size_t>(validation), "step"),
                    " without training (such as validation) took ", HumanTime(static_cast<double>(validation_ns)), ".");
  }
  return text;
}

std::vector<std::string> StepRemarks(const StepFacts& facts) {
  std::vector<std::string> remarks;
  const MachineLoad& load = facts.load();
  if (load.is_known && facts.IsAtLeast(load.waiting_ns, 1)) {
    remarks.push_back(absl::StrCat("In ", HumanTime(std::min(load.waiting_ns, facts.step_ns())),
                                   " of it the main thread waited for a processor (part of the rows above)."));
  }
  const double own_ns = CostOfScopes(facts, [](ScopeIndex) { return true; }) + CostOfGpuCalls(facts);
  const std::optional<WindowCost> cost = CostOfWindows(facts);
  const bool is_cost_told = cost.has_value() && cost->is_cost_told;
  if (facts.HasSteps() && !is_cost_told && own_ns >= kWorthMentioning * facts.step_ns()) {
    remarks.push_back(
        absl::StrFormat("Recording takes about %s of the host's time in it (%.0f %%), by its usual costs.",
                        HumanTime(own_ns), 100 * own_ns / facts.step_ns()));
  }
  for (std::string& remark : GpuRemarks(facts)) remarks.push_back(std::move(remark));
  return remarks;
}

}  // namespace dlhook::analyzer::answer
