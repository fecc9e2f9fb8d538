// Rule slow-lines: between two of its lines the program does something for long that is no operation of a framework and no
// call of a hooked library: Python, or native code that Python calls (a list made into a tensor, NumPy, pandas, JSON, a file).
//
// Only stretches that are long by themselves (gap_lines.h): many short ones are python-bound's. Stretches in one function of the program
// are told together, by their longest one's lines. Where looks from outside found the thread blocked, that is said; where
// samples met a function most, it is named; where most of it passes from the first tensor that is released to the last, that.

#include "analyzer/findings/rules.h"
#include "analyzer/model/release.h"
#include "analyzer/model/scope_role.h"
#include "analyzer/work/source_lines.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kSlowLinesPercent = 10;
constexpr int64_t kLeastSamplesOfStretch = 8;
constexpr double kStartsEachStep = 0.5;  // processes that begin
constexpr double kWaitForChildPercent = 5;
constexpr int64_t kSmallBatch = 16;
constexpr double kMostlyReleases = 0.5;                        // of a stretch
constexpr double kWorksMeanwhile = 0.7, kIdleMeanwhile = 0.1;  // of the time in which the main thread is blocked

struct Stretches {
  const GapLines* longest = nullptr;
  double ns = 0, count = 0, blocked_ns = 0;
};

// torch.tensor(list): a tensor is filled with Python's objects.
bool MakesTensor(const GapLines& lines) {
  const bool is_one_line = !absl::StrContains(lines.text, " to ");
  return is_one_line && lines.before == "aten::empty" && RoleOfName(lines.after) == ScopeRole::kConversion;
}

bool HasSamples(const GapLines& lines) { return lines.sampled && lines.sampled->samples >= kLeastSamplesOfStretch; }

// "make_batch (train.py:13)"
std::string WhoRuns(const GapLines& lines) {
  const bool has_samples = HasSamples(lines);
  const std::string& function = has_samples ? lines.sampled->function : lines.function;
  if (!lines.callback.empty())
    return absl::StrCat("The callback ", lines.callback, ", of ", lines.package, " at ", lines.text, ",");
  if (!lines.package.empty()) return absl::StrCat(lines.package, ", called at ", lines.text, ",");
  return absl::StrCat(function.empty() ? "The main code" : function, " (",
                      has_samples ? lines.sampled->line : lines.text, ")");
}

std::string WhatSamplesMet(const StepFacts& facts, const GapLines& lines) {
  if (!HasSamples(lines)) return "";
  const auto& places = facts.Derived<SamplePlaces>();
  const auto percent = static_cast<int>(100 * lines.sampled->samples / std::max<int64_t>(lines.samples, 1));
  return absl::StrCat(" Of the samples there ", percent, " % met it, mostly in ", places.name(lines.sampled->owner),
                      ".");
}

// "It waits for processes that it starts: …"; empty: it does not, or that is not known.
std::string StartedProcesses(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  double started = 0, waited_ns = 0;
  for (const ProcessInfo& child : model.processes) {
    for (ProcessIndex process = 0; process < model.processes.size(); ++process) {
      if (model.processes[process].pid != child.parent_pid) continue;
      started += facts.StepAt(process, child.start_ns) != kNone ? 1 / facts.count() : 0;
    }
  }
  facts.ForEachLook([&](ProcessIndex, const StateLook& look) {
    waited_ns += static_cast<double>(look.sums.found_ns[static_cast<size_t>(BlockedIn::kChild)]) / facts.count();
  });
  if (started >= kStartsEachStep) {
    return absl::StrFormat("%.0f %s %s in each %s.", started, started < 1.5 ? "process" : "processes",
                           started < 1.5 ? "begins" : "begin", facts.StepNoun());
  }
  if (!facts.IsAtLeast(waited_ns, kWaitForChildPercent)) return "";
  return absl::StrCat("Thread-state samples found it waiting for the end of a child process for ", HumanTime(waited_ns),
                      " of each ", facts.StepNoun(), ": it starts new ones.");
}

// " Only one other thread of the program works meanwhile (4711: 2.1 ms of a step).", while the main thread is blocked; empty: none
// works, or several.
std::string WorksAlone(const StepFacts& facts, double blocked_ns) {
  const std::vector<ThreadTime> threads = ThreadsWithoutCalls(facts);
  const bool is_one = !threads.empty() && threads.front().wanted_ns >= kWorksMeanwhile * blocked_ns &&
                      (threads.size() == 1 || threads[1].wanted_ns < kIdleMeanwhile * blocked_ns);
  return is_one ? absl::StrFormat(" Only one other thread of the program works meanwhile (%d: %s of a %s).",
                                  threads.front().tid, HumanTime(threads.front().wanted_ns), facts.StepNoun())
                : "";
}

Finding OfStretches(const StepFacts& facts, const Stretches& stretches) {
  const GapLines& longest = *stretches.longest;
  const bool is_blocked = 2 * stretches.blocked_ns > stretches.ns;
  const bool releases = !is_blocked && longest.released_part > kMostlyReleases;
  const bool may_wait =
      !longest.blocked_ns && !HasSamples(longest) && !HasOneThread(facts.model(), facts.steps().tracks.front().process);
  const double gain_ns = std::min(stretches.ns, facts.step_ns());
  const std::string processes = facts.HasSteps() ? StartedProcesses(facts) : "";
  const std::string works = is_blocked ? WorksAlone(facts, stretches.blocked_ns) : "";
  const bool is_own = !releases && !longest.is_called_back && !MakesTensor(longest);
  const std::string line = HasSamples(longest) ? longest.sampled->line : longest.text;
  const bool in_loop = !HasSamples(longest) && longest.package.empty() && !MakesTensor(longest);
  const SlowText known = is_own ? SlowTextOf(facts, line, in_loop) : SlowText();
  Finding finding = {
      .where = longest.module,
      .line = line,
      .is_in_loop = in_loop,
      .sentence = absl::StrCat(WhoRuns(longest), " ",
                               is_blocked ? "is blocked"
                               : releases ? absl::StrFormat("releases tensors, %.0f at a time,", longest.released)
                               : !SeesLibraries(facts.model().processes.front())
                                   ? "runs code outside of operations, or waits (the trace does not tell which),"
                               : may_wait ? "runs Python or native code that calls no hooked library, or waits for "
                                            "another thread (states were not sampled),"
                                          : "runs Python or native code that calls no hooked library",
                               known.text.empty() ? "" : " (among these lines, or what they call here: ", known.text,
                               known.text.empty() ? "" : ")", " for ", facts.PartOfStep(gain_ns), ", in stretches of ",
                               HumanTime(stretches.ns / std::max(stretches.count, 1.0)), " on average",
                               longest.before.empty() || longest.after.empty()
                                   ? ""
                                   : absl::StrCat(", mostly between ", longest.before, " and ", longest.after),
                               ".", PackageFunctionText(longest), WhatSamplesMet(facts, longest)),
      .gain_ns = gain_ns,
      .confidence = Confidence::kHigh,
      .evidence = "table accounting: rows \"not seen\", with the lines they lie between"};
  if (!processes.empty()) {
    absl::StrAppend(&finding.sentence, " ", processes);
    finding.advice =
        "Start processes once, before the steps, and keep them (one Pool or ProcessPoolExecutor for all), and give "
        "them much work at a time; what takes less than starting one, compute in the program itself.";
  } else if (!works.empty()) {
    absl::StrAppend(&finding.sentence, works);
    finding.advice =
        "It waits for one item at a time, so that the others wait, too: hand all of them to the threads first "
        "(pool.map, or a list of futures whose results are asked for behind the last submit), or a batch ahead.";
  } else if (!known.advice.empty()) {
    finding.advice = known.advice;
  } else if (is_blocked) {
    finding.advice = "Wait for it in another thread, or ask for it before it is needed (files, network, locks, sleep).";
  } else if (releases) {
    finding.advice =
        "What ends there held them (a list, a variable that is set anew or goes out of scope, a graph): keep fewer and "
        "larger tensors, or write into the same ones again (out=, in-place operations).";
  } else if (MakesTensor(longest)) {
    finding.advice =
        "A tensor is made of Python's objects there, one by one: join arrays first (torch.from_numpy(np.stack(list))), "
        "or torch.stack a list of tensors.";
  } else if (!longest.package.empty() && longest.is_called_back) {
    finding.advice = absl::StrCat(
        "That is what ", longest.function.empty() ? "the program" : longest.function, " asks ", longest.package,
        " for each time it is called: do it less often (each 100th step, each epoch), or less of it.");
  } else if (!longest.callback.empty()) {
    finding.advice =
        "Have it do less often what it does (ModelCheckpoint(save_freq=\"epoch\"), TensorBoard(update_freq=\"epoch\"), "
        "each 100th step), or leave it out.";
  } else if (!longest.package.empty()) {
    finding.advice =
        absl::StrCat("That is ", longest.package, "'s own work for each step: ",
                     longest.package == "keras" && facts.Uses("TensorFlow")
                         ? "compile(steps_per_execution=N) runs several steps in one call; else "
                         : "",
                     "a larger batch has less of it for each sample",
                     facts.steps().batch > 0 && facts.steps().batch <= kSmallBatch
                         ? absl::StrFormat(" (it is %d now: fit(batch_size=...), Dataset.batch).", facts.steps().batch)
                         : ".");
  } else {
    finding.advice =
        "Look at these lines: work on whole arrays instead of elements, do once what does not change, or do it beside "
        "the step (another thread or process, not each step).";
    if (facts.model().samples.empty()) finding.advice += " dlhook run --sample names the function.";
  }
  return finding;
}

}  // namespace

std::string PackageFunctionText(const GapLines& lines) {
  std::vector<std::string> halves;
  if (!lines.package_function.empty()) halves.push_back(absl::StrCat("passes in ", lines.package_function));
  if (!lines.called_from.empty() && lines.called_from != lines.package_function)
    halves.push_back(absl::StrCat("follows a call in ", lines.called_from));
  return halves.empty() ? ""
                        : absl::StrCat(" More than half of it ", absl::StrJoin(halves, ", and more than half "), ".");
}

// Requests of a thread that runs asyncio's loop: what blocks it but for waiting for events. In a lock it may wait for threads
// that compute with it.
std::vector<Finding> FindBlockedEventLoop(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  const StepTrack* const track = facts.WholeTrack();
  if (track == nullptr) return {};
  const std::vector<bool> in_loop = facts.StacksWith([](const std::string& file, const std::string& function) {
    return absl::EndsWith(file, "/asyncio/base_events.py") && absl::EndsWith(function, "_run_once");
  });
  // A notebook's cells run one after the other in its kernel's loop.
  const std::vector<bool> in_cell = facts.StacksWith(
      [](const std::string& file, const std::string&) { return absl::StrContains(file, "/ipykernel/"); });
  std::map<std::string, int64_t> lines;
  for (const auto& [call, stack] : model.call_stacks) {
    if (stack != kNone && in_loop[stack] && !in_cell[stack]) ++lines[facts.LineOfStack(stack)];
  }
  const std::vector<ThreadStates> threads = ReadThreadStates(model);
  const ThreadStates* const states = StatesOf(model, threads, *track);
  if (lines.empty() || states == nullptr) return {};
  const StateSums sums = states->In({track->steps.front().start_ns, track->steps.back().end_ns});
  std::array<int64_t, kBlockedIns> found_ns = {};
  for (const BlockedIn in : {BlockedIn::kTransfer, BlockedIn::kSleep, BlockedIn::kChild})
    found_ns[static_cast<size_t>(in)] = sums.found_ns[static_cast<size_t>(in)];
  const auto blocked_ns = static_cast<double>(absl::c_accumulate(found_ns, int64_t{0}));
  const auto all_ns = static_cast<double>(sums.wall_ns), count = static_cast<double>(track->steps.size());
  if (blocked_ns < kSlowLinesPercent / 100 * all_ns) return {};
  const std::string line = MostOf(lines)->first;
  const SlowText known = SlowTextOf(facts, line, /*in_loop=*/true, /*in_function=*/true);
  return {
      {.line = line,
       .is_in_loop = true,
       .sentence = absl::StrFormat(
           "asyncio's event loop is blocked (%s) for %s of %s from the first %s to the last, while a task runs%s: "
           "all other tasks wait meanwhile.",
           BlockedInText(found_ns), HumanTime(blocked_ns), HumanTime(all_ns), facts.StepNoun(),
           known.text.empty() ? "" : absl::StrCat(" (among its lines, or what they call: ", known.text, ")")),
       .gain_ns = blocked_ns / count,
       .evidence =
           "table threads: in what it was blocked, by samples of its state; Python's stacks, which have asyncio's loop",
       .advice = "Await what blocks (asyncio.sleep, a client that is made for asyncio), or run it in another thread "
                 "(await asyncio.to_thread(f)).",
       .whole_ns = all_ns / count,
       .whole = "the time from the first to the last"}};
}

double StretchesNs(const StepFacts& facts) {
  double ns = 0;
  for (const GapLines& lines : GapLinesOf(facts)) ns += lines.stretch_ns;
  return ns;
}

std::vector<Finding> FindSlowLines(const StepFacts& facts) {
  if (facts.HasGpuTimes()) return {};
  if (!facts.HasSteps()) return KnownInSamples(facts);
  if (std::vector<Finding> loop = FindBlockedEventLoop(facts); !loop.empty()) return loop;
  const bool waits_in_pool = !FindPoolWait(facts).empty();
  std::map<std::string, Stretches> by_function;
  for (const GapLines& lines : GapLinesOf(facts)) {  // the longest first
    if (lines.stretch_ns == 0) continue;
    // The main code is no one place: by its lines.
    Stretches& stretches = by_function[lines.function.empty() ? lines.text : lines.function];
    if (stretches.longest == nullptr || lines.stretch_ns > stretches.longest->stretch_ns) stretches.longest = &lines;
    stretches.ns += lines.stretch_ns;
    stretches.count += lines.stretch_count;
    stretches.blocked_ns += std::min(lines.blocked_ns.value_or(0), lines.stretch_ns);
  }
  std::vector<Finding> findings;
  for (const auto& [function, stretches] : by_function) {
    if (waits_in_pool && 2 * stretches.blocked_ns > stretches.ns) continue;
    if (facts.IsAtLeast(stretches.ns, kSlowLinesPercent)) findings.push_back(OfStretches(facts, stretches));
  }
  // Threads that begin for a request, and what they do before their first call, are in no step.
  return findings.empty() && facts.frameworks().empty() ? KnownInSamples(facts) : findings;
}

}  // namespace dlhook::analyzer::findings
