// Rule uneven-threads: threads of the program share a step's work, and the first thread waits for the last of them. A thread's part of a
// step lasts from its first operation to its last. Where the parts overlap, and from the end of the first one on only k of n threads work,
// (n - k) / n of that time would be gone if they were equal. Parts that don't overlap wait for each other's results; where the first thread
// computes meanwhile, nobody waits. Parts of the same calls are equal: if one takes longer, others use its processor. Threads within a call
// are not judged: they wait actively, so the processor time of each is the same, however uneven their work was.
//
// Rule late-rank: ranks wait in collective operations for the one that comes last. Where all wait longer for processors than for each other,
// and it is late because it waits even longer for them, or now one and now another is, processors are why: other rules tell that.

#include "absl/hash/hash.h"
#include "analyzer/findings/rules.h"
#include "analyzer/steps/step_groups.h"
#include "analyzer/tables/ranks/collective_arrivals.h"
#include "analyzer/time/intervals.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kUnevenThreadsPercent = 5;
constexpr double kInTurnPercent = 10;         // if it is another one in each step
constexpr double kLeastShared = 0.25;         // of the steps
constexpr double kUnevenThreadsMostly = 0.8;  // of these steps: one thread is late, rather than each in turn
constexpr double kLonger = 1.25;              // its part, than the others' mean; else it only begins later

struct Part {
  Interval time;
  size_t operations = 0;
  uint64_t calls = 0;  // equal for the same calls in any order; 0: none

  bool IsSameWork(const Part& other) const {
    return calls != 0 && calls == other.calls && operations == other.operations;
  }
};

struct SharedStep {
  std::map<ThreadIndex, Part> parts;
  Interval tail;       // from the end of the first part to the end of the last
  double busy_ns = 0;  // of the first thread in the tail
};

struct Sharing {
  size_t threads = 0;
  double steps = 0;                    // in which their parts overlap
  double lost_ns = 0;                  // in all of them
  std::map<ThreadIndex, double> last;  // in how many of them
  std::map<ThreadIndex, double> part_ns;
};

bool IsFirst(const TraceModel& model, ThreadIndex thread) {
  return model.threads[thread].tid == model.processes[model.threads[thread].process].pid;
}

// Of each step, the parts of all threads but the first.
std::vector<SharedStep> PartsOf(const StepFacts& facts, const StepTrack& track) {
  const TraceModel& model = facts.model();
  std::vector<SharedStep> steps(track.steps.size());
  facts.ForEachOperation([&](ThreadIndex thread, int64_t start_ns, int64_t duration_ns) {
    if (model.threads[thread].process != track.process || IsFirst(model, thread)) return;
    const size_t step = facts.StepAt(track.process, start_ns);
    if (step == kNone) return;
    Part& part = steps[step].parts.try_emplace(thread, Part{{start_ns, start_ns}}).first->second;
    part.time.end_ns = std::max(part.time.end_ns, start_ns + duration_ns);
    ++part.operations;
  });
  const CallColumns& calls = model.calls;
  for (CallIndex call = 0; call < calls.size(); ++call) {
    if (model.threads[calls.thread[call]].process != track.process) continue;
    const size_t step = facts.StepAt(track.process, calls.start_ns[call]);
    if (step == kNone) continue;
    const auto part = steps[step].parts.find(calls.thread[call]);
    if (part != steps[step].parts.end()) part->second.calls += absl::HashOf(calls.op[call]);
  }
  return steps;
}

// All parts consist of the same calls: what one of them takes longer, its processor does.
bool IsEven(const std::map<ThreadIndex, Part>& parts) {
  const Part& first = parts.begin()->second;
  return absl::c_all_of(parts, [&](const auto& part) { return part.second.IsSameWork(first); });
}

std::vector<SharedStep> StepsOf(const StepFacts& facts, const StepTrack& track) {
  const TraceModel& model = facts.model();
  std::vector<SharedStep> steps = PartsOf(facts, track);
  for (SharedStep& step : steps) {
    Interval all = {INT64_MIN, INT64_MAX};  // in which all of them work
    for (const auto& [thread, part] : step.parts) {
      all = {std::max(all.start_ns, part.time.start_ns), std::min(all.end_ns, part.time.end_ns)};
    }
    if (step.parts.size() < 2 || all.start_ns >= all.end_ns || IsEven(step.parts)) {
      step.parts.clear();
      continue;
    }
    step.tail = {INT64_MAX, INT64_MIN};
    for (const auto& [thread, part] : step.parts) {
      step.tail = {std::min(step.tail.start_ns, part.time.end_ns), std::max(step.tail.end_ns, part.time.end_ns)};
    }
  }
  const auto is_shared = [](const SharedStep& step) { return !step.parts.empty(); };
  if (absl::c_none_of(steps, is_shared)) return {};
  facts.ForEachOperation([&](ThreadIndex thread, int64_t start_ns, int64_t duration_ns) {
    if (model.threads[thread].process != track.process || !IsFirst(model, thread)) return;
    const size_t at = facts.StepAt(track.process, start_ns);
    if (at == kNone) return;
    const Interval& tail = steps[at].tail;
    const int64_t from_ns = std::max(start_ns, tail.start_ns), to_ns = std::min(start_ns + duration_ns, tail.end_ns);
    steps[at].busy_ns += static_cast<double>(std::max<int64_t>(to_ns - from_ns, 0));
  });
  return steps;
}

// Of the tail, what equal parts would save on that many processors.
double LostNs(const SharedStep& step, double processors) {
  std::vector<int64_t> ends;
  for (const auto& [thread, part] : step.parts) ends.push_back(part.time.end_ns);
  absl::c_sort(ends);
  const double at_once = std::min(processors, static_cast<double>(ends.size()));
  double lost_ns = 0;
  for (size_t i = 1; i < ends.size(); ++i) {
    const auto working = static_cast<double>(ends.size() - i);
    lost_ns += static_cast<double>(ends[i] - ends[i - 1]) * std::max(1 - working / at_once, 0.0);
  }
  const auto tail_ns = static_cast<double>(step.tail.end_ns - step.tail.start_ns);
  return tail_ns > 0 ? lost_ns * std::max(1 - step.busy_ns / tail_ns, 0.0) : 0;
}

Sharing SharingOf(const StepFacts& facts) {
  Sharing sharing;
  if (facts.FirstThreadsWorkAlone()) return sharing;
  for (const StepTrack& track : facts.steps().tracks) {
    if (track.thread != kNone && !IsFirst(facts.model(), track.thread)) continue;  // threads with steps of their own
    for (const SharedStep& step : StepsOf(facts, track)) {
      if (step.parts.empty()) continue;
      ++sharing.steps;
      sharing.threads = std::max(sharing.threads, step.parts.size());
      sharing.lost_ns += LostNs(step, facts.processors() > 0 ? facts.processors() : 1e9);
      for (const auto& [thread, part] : step.parts) {
        sharing.part_ns[thread] += static_cast<double>(part.time.end_ns - part.time.start_ns);
        sharing.last[thread] += part.time.end_ns == step.tail.end_ns ? 1 : 0;
      }
    }
  }
  return sharing;
}

constexpr double kLateRankPercent = 5;  // of a step, mean over the ranks that wait
constexpr double kMoreWork = 1.1;

// How many times as many floating-point operations the products of the late rank have in a mean step as the others', on
// average; 0: not known.
double TimesAsMuchWork(const StepFacts& facts, const std::vector<RankFacts>& ranks) {
  const TraceModel& model = facts.model();
  std::vector<double> flops(model.processes.size()), steps(model.processes.size());
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    const Op& op = model.ops[model.calls.op[call]];
    if (!op.flops || model.calls.parent[call] != kNone) continue;
    double& of_process = flops[model.threads[model.calls.thread[call]].process];
    of_process += facts.StepOfCall(call) != kNone ? static_cast<double>(*op.flops) : 0;
  }
  for (const StepTrack& track : facts.steps().tracks) steps[track.process] += static_cast<double>(track.steps.size());
  double own = 0, others = 0;
  for (const RankFacts& rank : ranks) {
    if (steps[rank.process] > 0) (rank.is_late ? own : others) += flops[rank.process] / steps[rank.process];
  }
  return others > 0 ? own * (std::ssize(ranks) - 1.0) / others : 0;
}

}  // namespace

std::vector<Finding> FindUnevenThreads(const StepFacts& facts) {
  // Executors of other frameworks choose a thread for each operation; on a GPU a thread's time is not its work's.
  const bool is_judged = facts.frameworks().empty() || (facts.UsesTorch() && facts.frameworks().size() == 1);
  if (!facts.HasSteps() || !is_judged || facts.HasGpuTimes()) return {};
  const Sharing sharing = SharingOf(facts);
  const double ns = sharing.lost_ns / facts.count();
  if (sharing.steps < kLeastShared * facts.count() || !facts.IsAtLeast(ns, kUnevenThreadsPercent)) return {};
  const auto [latest, times] = *MostOf(sharing.last);
  double others_ns = 0;  // mean
  for (const auto& [thread, part_ns] : sharing.part_ns) {
    if (thread != latest) others_ns += part_ns / static_cast<double>(sharing.part_ns.size() - 1);
  }
  const double own_ns = sharing.part_ns.at(latest);
  const bool is_one = times >= kUnevenThreadsMostly * sharing.steps && own_ns >= kLonger * others_ns;
  // On a busy machine any of them may come last.
  const bool is_disturbed = !facts.load().is_known || facts.load().runnable > facts.load().processors + 0.5;
  if (!is_one && (is_disturbed || !facts.IsAtLeast(ns, kInTurnPercent))) return {};
  const std::string where = is_one ? absl::StrCat("thread ", ThreadLabel(facts.model(), {latest})) : "threads";
  return {{.where = where,
           .sentence = absl::StrCat(
               sharing.threads, " threads share a step's work unevenly, and the step waits for the last one: ",
               is_one ? absl::StrFormat("%s works for %s of it, the others for %s on average.", where,
                                        HumanTime(own_ns / sharing.steps), HumanTime(others_ns / sharing.steps))
                      : "now for one, now for another."),
           .gain_ns = ns,
           .evidence = "each thread's time from its first operation in a step to its last; the gain: as if all ended "
                       "at once, less what the first thread computed meanwhile",
           .advice = "Partition by cost, not by item count: more and smaller chunks than threads, of which each thread "
                     "takes the next (ThreadPoolExecutor.map)."}};
}

std::vector<Finding> FindLateRank(const StepFacts& facts) {
  if (!facts.HasSteps() || facts.model().processes.size() < 2) return {};
  const std::vector<RankFacts> ranks = RanksCompared(facts.model(), facts.options().analysis->steps());
  double waiting_ns = 0, all_ns = 0, no_processor_ns = 0;  // of those that wait
  const RankFacts* last = nullptr;
  for (const RankFacts& rank : ranks) {
    waiting_ns += rank.waiting_ns;
    all_ns += rank.step_ns;
    no_processor_ns += rank.no_processor_ns;
    if (rank.is_late) last = &rank;
  }
  if (all_ns <= 0) return {};
  const bool is_one = last != nullptr;
  // The one that comes last does not wait; if each does in turn, all of them wait at times.
  if (is_one) {
    waiting_ns -= last->waiting_ns;
    all_ns -= last->step_ns;
    no_processor_ns -= last->no_processor_ns;
  }
  // As a part of the time, because the table's mean step has the much longer ones that the answer's leaves out.
  const double ns = waiting_ns / all_ns * facts.step_ns();
  if (!facts.IsAtLeast(ns, kLateRankPercent)) return {};
  const double work = is_one ? TimesAsMuchWork(facts, ranks) : 0;
  const double longer_ns = is_one ? last->no_processor_ns - no_processor_ns / (std::ssize(ranks) - 1.0) : 0;
  const bool has_more = work >= kMoreWork, is_starved = is_one && !has_more && longer_ns >= ns / 2;
  if ((!is_one || is_starved) && no_processor_ns >= waiting_ns) return {};
  return {
      {.where = is_one ? last->name : "ranks",
       .sentence = absl::StrCat(
           is_one
               ? absl::StrFormat("The other ranks wait for %s, the last to arrive at %d of %d collective operations: ",
                                 last->name, last->came_last, last->collectives)
               : "Ranks wait for each other in collective operations; no single rank stands out: ",
           facts.PartOfStep(ns), ".",
           has_more ? absl::StrFormat(" Its products have %.1f times as many operations.", work) : "",
           is_starved ? absl::StrCat(" On average it waits ", HumanTime(longer_ns),
                                     " longer for a processor than the others do.")
                      : ""),
       .gain_ns = ns,
       .evidence = "table ranks: waiting, waited_for",
       .advice =
           is_starved
               ? "Give it a processor that nobody else uses (taskset, cpusets), or stop what competes with it there."
           : is_one && !has_more
               ? "Find what takes that rank longer than the others: report its process trace (RUN/*.dlh) alone and "
                 "compare its input, its processors and its GPU with another one's."
               : "Where a rank's steps differ in work (lengths of sequences, its batch, its experts' tokens), give all "
                 "ranks the same in each step."}};
}

}  // namespace dlhook::analyzer::findings
