// Rule python-lock: one thread runs Python at a time. Another thread of the program computes in Python, and the main thread waits
// for the interpreter's lock (the GIL), 5 ms each time by default, wherever it has left it.
//
// Seen are the waits: the main thread is blocked in a lock between operations, where no pool of a library makes it wait, and
// in a framework's ops that go back to Python; and a thread of the same process without any operation or call runs as long.
// A queue that this thread fills looks the same. Where samples met that thread, they must have met Python.

#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kLockPercent = 10;
constexpr double kBetweenPart = 0.05;   // of it between operations: within them pools wait for each other, too
constexpr double kRunsMeanwhile = 0.8;  // of the time in the lock
constexpr int64_t kLeastLooks = 10;
constexpr double kLongestTurnNs = 20'000'000;  // four times what Python's lock is kept for by default

// Of the main threads, in a step; 0: too few looks, or mostly within operations.
double InLockNs(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  LookSums between, within;
  facts.ForEachLook([&](ProcessIndex process, const StateLook& look) {
    const ThreadIndex thread = look.piece.thread;  // kNone: the one that records
    if (thread != kNone && model.threads[thread].tid != model.processes[process].pid) return;
    if (look.piece.kind == ActivityKind::kNotSeen) between.Add(look.sums);
    if (look.piece.kind == ActivityKind::kScope) within.Add(look.sums);
  });
  const auto lock = [](const LookSums& sums) {
    return static_cast<double>(sums.found_ns[static_cast<size_t>(BlockedIn::kLock)]);
  };
  const double ns = lock(between) + lock(within);
  if (between.looks + within.looks < kLeastLooks || lock(between) < kBetweenPart * ns) return 0;
  return ns / facts.count();
}

}  // namespace

std::vector<ThreadTime> ThreadsWithoutCalls(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  const auto has_calls = [&](ThreadIndex thread) {
    const auto calls = model.calls.RangeOf(thread), scopes = model.scopes.thread.RangeOf(thread);
    return calls.first != calls.second || scopes.first != scopes.second;
  };
  std::vector<ThreadTime> threads;
  for (const ThreadStates& states : ReadThreadStates(model)) {
    if (states.tid == 0 || states.tid == model.processes[states.process].pid) continue;
    if (states.thread != kNone && has_calls(states.thread)) continue;
    ThreadTime time = {states.tid, states.thread};
    for (const StepTrack& track : facts.steps().tracks) {
      if (track.process != states.process) continue;
      for (const Step& step : track.steps) {
        const StateSums sums = states.In({step.start_ns, step.end_ns});
        time.running_ns += static_cast<double>(sums.running_ns) / facts.count();
        time.wanted_ns += static_cast<double>(sums.running_ns + sums.queued_ns) / facts.count();
      }
    }
    threads.push_back(time);
  }
  std::ranges::stable_sort(threads, std::ranges::greater(), &ThreadTime::wanted_ns);
  return threads;
}

namespace {

// By samples of the thread; true where there are none.
bool MayRunPython(const StepFacts& facts, ThreadIndex thread) {
  const SampleColumns& samples = facts.model().samples;
  const auto& places = facts.Derived<SamplePlaces>();
  int64_t all = 0, in_python = 0;
  for (size_t sample = 0; thread != kNone && sample < samples.size(); ++sample) {
    if (samples.thread[sample] != thread) continue;
    ++all;
    in_python += samples.python_stack[sample] != kNone || places.name(places.OwnerOf(sample)) == "Python" ? 1 : 0;
  }
  return 2 * in_python >= all;
}

// Whether most of it passes in waits of one line that are far longer than Python lets others wait: slow-lines tells them.
bool WaitsForOneItem(const StepFacts& facts, double lock_ns) {
  return absl::c_any_of(GapLinesOf(facts), [&](const GapLines& lines) {
    return 2 * lines.blocked_ns.value_or(0) > lock_ns && lines.stretch_ns > kLongestTurnNs * lines.stretch_count;
  });
}

}  // namespace

std::vector<Finding> FindPythonLock(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  if (!facts.HasSteps() || !facts.UsesTorch() || facts.HasGpuTimes() || model.states.empty()) return {};
  const double ns = InLockNs(facts);
  if (!facts.IsAtLeast(ns, kLockPercent) || WaitsForOneItem(facts, ns)) return {};
  const std::vector<ThreadTime> threads = ThreadsWithoutCalls(facts);
  const auto busiest = absl::c_max_element(
      threads, [](const ThreadTime& a, const ThreadTime& b) { return a.running_ns < b.running_ns; });
  if (busiest == threads.end() || busiest->running_ns < kRunsMeanwhile * ns || !MayRunPython(facts, busiest->thread))
    return {};
  const double gain_ns = std::min(ns, facts.step_ns());
  return {
      {.sentence = absl::StrFormat(
           "The main thread waits for a lock: %s. Thread %d of the same process runs %s of a %s and calls no "
           "operation: it has Python's lock (GIL), which one thread has at a time, or fills a queue.",
           facts.PartOfStep(gain_ns), busiest->tid, HumanTime(busiest->running_ns), facts.StepNoun()),
       .gain_ns = gain_ns,
       .evidence = "table threads (column tid): what the main thread was blocked in, and how long the other one ran",
       .advice = absl::StrCat(
           "Let a process do that thread's work (multiprocessing), or let it do less while steps run.",
           model.samples.empty() ? " dlhook run --sample names its code." : " Its code: table hotspots.")}};
}

}  // namespace dlhook::analyzer::findings
