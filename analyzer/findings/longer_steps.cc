// Rule longer-steps: some steps take much longer than the others, at regular distances or all for the same reason: a loader whose workers
// are started again for each epoch, a checkpoint each so many steps. The mean step leaves them out (compared_steps.h). What they do is
// known by the processes that start in them, by their waiting for input and by the longest time between two lines. Irregular ones in
// which no process starts and, on an idle machine, no line stands out are taken for interruptions by other programs, and so are regular
// ones without any reason that are longer by no more than others' time slices; those that compile belong to recompilations.
//
// Validation between the steps is in no step: it is told where it takes longer than they do. One pass right behind each step, with as many
// rows and without an operation before it that makes other data, is taken for the same batch once more (a metric of the training).
//
// Rule warm-up: a run so short that its first steps take much of it: searching for algorithms, compiling, creating primitives. Only
// information: no steady step gets faster.
//
// The gain of both: what these steps take beyond as many others, spread over all steps.

#include "analyzer/findings/rules.h"
#include "analyzer/work/generation.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kLongerPercent = 10;  // of the time of all steps
constexpr int64_t kLeastLonger = 2;
constexpr int64_t kLeastIrregular = 3;
constexpr double kOthersPercent = 5;  // of a step, waiting for a processor: then others may interrupt it anywhere
constexpr int64_t kLeastValidations = 3;
constexpr double kMostSteps = 0.8;         // that such a pass follows
constexpr double kSecondPassPercent = 10;  // of the steps and these passes
constexpr double kOthersSliceNs = 50e6;    // other programs, several on a processor, run so long at once
constexpr double kReasonPart = 0.5;        // of what they take beyond the mean step, or of the steps

struct Reasons {
  int64_t starting = 0;   // steps for which processes start
  int64_t processes = 0;  // that start in them
  double input_ns = 0;    // the others: of one such step
  const GapLines* lines = nullptr;
};

Reasons ReasonsOf(const StepFacts& facts, double extra_ns) {
  const ComparedSteps& steps = facts.steps();
  Reasons reasons;
  for (const StepTrack& track : steps.interrupted_tracks) {
    const uint32_t pid = facts.model().processes[track.process].pid;
    for (const Step& step : track.steps) {
      const auto started = std::count_if(
          facts.model().processes.begin(), facts.model().processes.end(), [&](const ProcessInfo& process) {
            return process.parent_pid == pid && process.start_ns >= step.start_ns && process.start_ns < step.end_ns;
          });
      reasons.starting += started > 0 ? 1 : 0;
      reasons.processes += started;
    }
  }
  if (static_cast<double>(reasons.starting) < kReasonPart * static_cast<double>(steps.interrupted)) {
    reasons.starting = 0;
  } else if (steps.interrupted_every > 0) {
    // A worker may be late, and the next step longer for it.
    reasons.starting = std::min(reasons.starting, steps.interrupted_regularly);
  }
  const double input_ns = static_cast<double>(steps.interrupted_input_ns) / static_cast<double>(steps.interrupted);
  if (input_ns >= kReasonPart * extra_ns) reasons.input_ns = input_ns;
  const std::vector<GapLines>& lines = GapLinesOfLonger(facts);
  if (!lines.empty() && lines.front().ns >= kReasonPart * extra_ns) reasons.lines = &lines.front();
  return reasons;
}

// "in each of them the program starts 2 processes and is blocked for 10.3 s at train.py:17 in main"
std::string DoneInEach(const Reasons& reasons) {
  std::vector<std::string> done;
  if (reasons.starting > 0) {
    const double processes = static_cast<double>(reasons.processes) / static_cast<double>(reasons.starting);
    done.push_back(absl::StrFormat("starts %.0f %s", processes, processes < 1.5 ? "process" : "processes"));
  }
  if (reasons.input_ns > 0) done.push_back(absl::StrCat("waits for input for ", HumanTime(reasons.input_ns)));
  if (const GapLines* const lines = reasons.lines) {
    const bool is_blocked = 2 * lines->blocked_ns.value_or(0) > lines->ns;
    done.push_back(absl::StrCat(is_blocked ? "is blocked for " : "spends ", HumanTime(lines->ns), " at ", lines->text,
                                !lines->package_function.empty() ? ", mostly in " + lines->package_function
                                : lines->function.empty()        ? ""
                                                                 : " in " + lines->function));
  }
  return done.empty() ? "" : absl::StrCat("in each of them the program ", absl::StrJoin(done, " and "));
}

std::string Advice(const StepFacts& facts, const Reasons& reasons) {
  const bool has_workers = facts.counted().preparer() == Preparer::kWorkers;
  if (reasons.starting > 0) {
    return has_workers
               ? "DataLoader(..., persistent_workers=True) keeps its workers from epoch to epoch. Starting one is dear "
                 "where it imports the program again and gets a copy of the dataset (spawn, forkserver)."
               : "Start these processes once, before the steps, and keep them (a pool).";
  }
  if (reasons.input_ns > 0) {
    return has_workers
               ? "The workers are late there, or begin another epoch: more batches ahead (prefetch_factor), cheaper "
                 "transforms, or a longer epoch."
               : absl::StrCat(
                     facts.Uses("TensorFlow")
                         ? "Dataset.shuffle(n) fills its buffer of n at the start of each epoch: before what is "
                           "costly (map, decoding) it holds indices or file names; or take a smaller n. "
                         : "",
                     "The input begins anew there: keep what it prepares (a cache), or prepare it during the "
                     "steps before.");
  }
  return "Look at what the program does in these steps (checkpoints, at an epoch's end: Lightning's ModelCheckpoint, "
         "transformers' save_strategy): do it more rarely, or beside the steps (another thread or process).";
}

std::vector<Finding> FindLongSteps(const StepFacts& facts) {
  const ComparedSteps& steps = facts.steps();
  if (steps.interrupted < kLeastLonger || facts.count() == 0 || GrowthOfSteps(facts)) return {};
  if (FindGeneration(facts).has_value()) return {};  // prompts
  const auto longer = static_cast<double>(steps.interrupted), all = static_cast<double>(steps.AllCount());
  const double mean_ns = static_cast<double>(steps.interrupted_ns) / longer, extra_ns = mean_ns - facts.step_ns();
  const auto all_ns = static_cast<double>(steps.AllNs());
  if (longer * extra_ns < kLongerPercent / 100 * all_ns) return {};
  const Reasons reasons = ReasonsOf(facts, extra_ns);
  const bool have_reason = reasons.starting > 0 || reasons.input_ns > 0 || reasons.lines != nullptr;
  if (!have_reason && !facts.model().scope_windows.empty()) return {};  // what was not recorded may be validation
  const bool is_idle = facts.load().is_known && !facts.IsAtLeast(facts.load().waiting_ns, kOthersPercent);
  const bool is_own = reasons.starting > 0 || (reasons.lines != nullptr && is_idle);
  // Of the many that others interrupt, some are regular by chance.
  const bool are_regular =
      steps.interrupted_every > 0 && (is_own || 2 * steps.interrupted_regularly >= steps.interrupted);
  if (!are_regular && (!is_own || steps.interrupted < kLeastIrregular)) return {};
  if (!have_reason && !is_idle && extra_ns < kOthersSliceNs) return {};
  if (!FindRecompilations(facts).empty()) return {};
  const std::string when = WhenInterrupted(steps), done = DoneInEach(reasons);
  Finding finding = {
      .where = "much longer steps",
      .line = reasons.lines != nullptr ? reasons.lines->text : "",
      .is_in_loop = true,
      .sentence = absl::StrFormat("%d of %.0f %ss%s take %s on average, the others %s%s%s.", steps.interrupted, all,
                                  facts.StepNoun(), when.empty() ? "" : absl::StrCat(" (", when, ")"),
                                  HumanTime(mean_ns), HumanTime(facts.step_ns()), done.empty() ? "" : ": ", done),
      .gain_ns = longer * extra_ns / all,
      .confidence = have_reason ? Confidence::kHigh : Confidence::kMedium,
      .evidence = "table steps: the durations; the time is spread over all steps",
      .advice = Advice(facts, reasons),
      .whole_ns = steps.MeanWithInterruptedNs()};
  if (reasons.lines == nullptr || reasons.starting > 0 || reasons.input_ns > 0) return {finding};
  const SlowText known = SlowTextOf(facts, finding.line, finding.is_in_loop);
  if (known.text.empty()) return {finding};
  finding.sentence.insert(finding.sentence.size() - 1, absl::StrCat(" (among these lines: ", known.text, ")"));
  finding.advice = known.advice;
  return {finding};
}

// Of a training: validation, again and again, takes longer than the steps themselves.
std::vector<Finding> FindLongValidation(const StepFacts& facts) {
  const ComparedSteps& steps = facts.steps();
  const auto steps_ns = static_cast<double>(steps.AllNs());
  if (!facts.model().read_spans.empty()) return {};  // how much of the rest is validation is not known
  if (steps.validations < kLeastValidations || static_cast<double>(steps.validation_ns) < steps_ns) return {};
  const double gain_ns = steps.ValidationNs();
  // Behind nearly each step: it may choose the next data.
  const bool is_rollout = static_cast<double>(steps.validations) >= kMostSteps * static_cast<double>(steps.AllCount());
  return {
      {.where = is_rollout ? "passes without gradients" : "validation",
       .sentence = absl::StrFormat(
           "%s %.1f times as long as the training steps: it runs %d times between %d of them, %d steps in all, %s "
           "for each training step of %s.",
           is_rollout ? "What runs without gradients (a rollout, or validation), with its input, takes"
                      : "Validation takes",
           static_cast<double>(steps.validation_ns) / steps_ns, steps.validations, steps.AllCount(),
           steps.validation_steps, HumanTime(steps.ValidationNs()), HumanTime(facts.step_ns())),
       .gain_ns = gain_ns,
       .confidence = Confidence::kHigh,
       .evidence = "table steps and phases: input and passes of the validation steps",
       .advice = absl::StrCat(
           is_rollout ? "Of a rollout: more environments in a pass; those that take microseconds are slower in "
                        "processes of their own (stable-baselines3: DummyVecEnv, not SubprocVecEnv). Validation: "
                      : "",
           "Validate less often (Lightning: val_check_interval, Keras: validation_freq), or on a part of the data."),
       .whole_ns = steps.MeanWithInterruptedNs() + gain_ns}};
}

// Within a training step the layers that are trained compute without gradients, too, at least twice as often.
std::vector<Finding> FindPassesWithin(const StepFacts& facts) {
  constexpr double kWithinPercent = 20;
  if (facts.steps().kind != StepKind::kTraining || facts.HasGpuTimes()) return {};
  struct Passes {
    double ns = 0, without = 0, with = 0;  // operations
  };
  const ScopeColumns& scopes = facts.model().scopes;
  std::map<LayerIndex, Passes> layers;
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    const StackIndex stack = scopes.look[scope].stack;
    const LayerIndex layer = facts.attribution().of_scope[scope].layer;
    if (!facts.IsOutermostOp(scope) || stack == kNone || layer == kNone || facts.places()[stack].is_in_backward ||
        facts.StepOfScope(scope) == kNone)
      continue;
    Passes& passes = layers[layer];
    const bool has_gradients = scopes.link[scope] >= 0;
    ++(has_gradients ? passes.with : passes.without);
    passes.ns += has_gradients ? 0 : static_cast<double>(scopes.duration_ns[scope]) / facts.count();
  }
  std::erase_if(layers, [](const auto& of) { return of.second.with == 0 || of.second.without < 2 * of.second.with; });
  double ns = 0, most = 0;
  for (const auto& [layer, passes] : layers) {
    ns += passes.ns;
    most = std::max(most, passes.without / passes.with);
  }
  if (!facts.IsAtLeast(ns, kWithinPercent)) return {};
  return {{.where = "validation",
           .sentence = absl::StrFormat("Within the training steps the network that is trained runs %.0f times without "
                                       "gradients for each pass with them (validation, a metric, a rollout): %s.",
                                       most, facts.PartOfStep(ns)),
           .gain_ns = ns,
           .evidence = "operations of the same layers for which PyTorch records no graph",
           .advice =
               "Validate between epochs (behind the update, not in each micro-batch), or on a part of the data. A "
               "metric of the batch itself: from the outputs that the loss was computed from."}};
}

// Whether an operation begins in this time, other than reading a number: it may make other data.
bool HasOperations(const TraceModel& model, ProcessIndex process, int64_t from_ns, int64_t to_ns) {
  const ScopeColumns& scopes = model.scopes;
  for (ThreadIndex thread = 0; thread < model.threads.size(); ++thread) {
    if (model.threads[thread].process != process) continue;
    const auto [begin, end] = scopes.thread.RangeOf(thread);
    const auto starts = scopes.start_ns.begin();
    auto scope = static_cast<ScopeIndex>(std::lower_bound(starts + begin, starts + end, from_ns) - starts);
    for (; scope < end && scopes.start_ns[scope] < to_ns; ++scope) {
      const std::string& name = model.names[scopes.look[scope].name];
      const bool reads = name == "aten::item" || name == "aten::_local_scalar_dense" || name == "aten::detach";
      if (scopes.look[scope].kind == ScopeKind::kFrameworkOp && !reads) return true;
    }
  }
  return false;
}

// Passes without gradients right behind a training step, each alone and with the step's batch.
std::vector<Finding> FindSecondPasses(const StepFacts& facts) {
  int64_t steps = 0, passes = 0;
  double steps_ns = 0, passes_ns = 0;
  for (const StepTrack& track : facts.options().analysis->steps()) {
    for (size_t i = 1; i < track.steps.size(); ++i) {
      const Step &before = track.steps[i - 1], &step = track.steps[i];
      if (before.kind != StepKind::kTraining) continue;
      ++steps;
      steps_ns += static_cast<double>(before.end_ns - before.start_ns);
      const bool is_alone = i + 1 == track.steps.size() || track.steps[i + 1].kind == StepKind::kTraining;
      if (step.kind != StepKind::kValidation || !is_alone || step.batch == 0 || step.batch != before.batch) continue;
      const int64_t from_ns = before.phases.empty() ? before.end_ns : before.phases.back().end_ns;
      const int64_t to_ns = step.phases.empty() ? step.start_ns : step.phases.front().start_ns;
      if (HasOperations(facts.model(), track.process, from_ns, to_ns)) continue;
      ++passes;
      passes_ns += static_cast<double>(step.end_ns - step.start_ns);
    }
  }
  if (passes < kLeastValidations || static_cast<double>(passes) < kMostSteps * static_cast<double>(steps)) return {};
  if (passes_ns < kSecondPassPercent / 100 * (steps_ns + passes_ns)) return {};
  const double gain_ns = passes_ns / static_cast<double>(steps);
  return {{.where = "validation",
           .sentence = absl::StrFormat("Behind %d of %d training steps the model runs once without gradients, with as "
                                       "many rows: %s for each step of %s.",
                                       passes, steps, HumanTime(gain_ns), HumanTime(facts.step_ns())),
           .gain_ns = gain_ns,
           .evidence = "table steps: a validation step of as many rows behind each training step",
           .advice = "If it is the same batch (accuracy of the training): use the outputs that the loss was computed "
                     "from (logits.detach()). What chooses the next data (a rollout) is needed.",
           .whole_ns = facts.steps().MeanWithInterruptedNs() + gain_ns}};
}

constexpr double kWarmUpPercent = 20;  // of all steps
constexpr double kLeastNs = 2e9;
constexpr double kIdleThreads = 0.5;

}  // namespace

std::vector<Finding> FindLongerSteps(const StepFacts& facts) {
  std::vector<Finding> findings = FindLongSteps(facts);
  std::vector<Finding> validation = FindSecondPasses(facts);
  if (validation.empty()) validation = FindLongValidation(facts);
  if (validation.empty()) validation = FindPassesWithin(facts);
  Append(std::move(validation), findings);
  return findings;
}

std::vector<Finding> FindLongWarmUp(const StepFacts& facts) {
  if (std::vector<Finding> compiled = FindLongXlaCompilation(facts); !compiled.empty()) return compiled;
  // A part of a run has all of its warm-up, but not all of its steps.
  if (!facts.HasSteps() || !facts.model().read_spans.empty()) return {};
  // First steps may have been slow for another reason. The steady ones tell: the program's own compilers are done there.
  if (facts.load().is_known && facts.load().runnable > facts.load().processors + kIdleThreads) return {};
  double warm_up = 0, warm_up_ns = 0, all = 0, all_ns = 0;
  for (const StepTrack& track : facts.options().analysis->steps()) {
    for (const Step& step : track.steps) {
      const auto ns = static_cast<double>(step.end_ns - step.start_ns);
      ++all;
      all_ns += ns;
      if (!step.is_warm_up || step.kind != facts.steps().kind) continue;
      ++warm_up;
      warm_up_ns += ns;
    }
  }
  const double extra_ns = warm_up_ns - warm_up * facts.step_ns();
  if (extra_ns < kLeastNs || extra_ns < kWarmUpPercent / 100 * all_ns) return {};
  const bool compiles = facts.model().HasRole(ScopeRole::kTorchRegion);
  return {{.where = "warm-up",
           .sentence = absl::StrFormat("%.0f warm-up %s %s; all %.0f steps of the run take %s, a steady one %s.",
                                       warm_up, warm_up == 1 ? "step takes" : "steps take", HumanTime(warm_up_ns), all,
                                       HumanTime(all_ns), HumanTime(facts.step_ns())),
           .gain_ns = extra_ns / all,
           .confidence = Confidence::kHigh,
           .evidence = "table steps, phase warm-up; the time is spread over all steps of the run",
           .advice = compiles
                         ? "For runs this short: without torch.compile, or with its cache kept between runs "
                           "(TORCHINDUCTOR_CACHE_DIR)."
                         : "For runs this short: do several in one process; table tuning shows searches and plans.",
           .is_information = true,
           .whole_ns = all_ns / all}};
}

}  // namespace dlhook::analyzer::findings
