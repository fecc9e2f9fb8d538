#include "analyzer/time/state_looks.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace dlhook::analyzer::inline time {
namespace {

constexpr int64_t kFewestLooks = 10;
constexpr int64_t kLookNs =
    50'000'000;  // of a thread that only sleeps no look in between was kept: one for each of these

// What the reading stands for. The kernel adds time without a processor when the thread gets one: a thread that was not
// blocked and did not run had none.
LookSums LookAt(const ThreadStates& states, size_t reading) {
  const StateSums &before = states.until[reading - 1], &after = states.until[reading];
  const int64_t whole_ns = after.wall_ns - before.wall_ns;
  LookSums look;
  int64_t found_ns = 0;
  for (size_t i = 0; i < kBlockedIns; ++i) {
    look.found_ns[i] = after.found_ns[i] - before.found_ns[i];
    found_ns += look.found_ns[i];
  }
  look.blocked_ns = std::min(found_ns, whole_ns);
  const int64_t awake_ns = whole_ns - look.blocked_ns;
  const auto running = static_cast<double>(after.running_ns - before.running_ns);
  const auto wanted = running + static_cast<double>(after.queued_ns - before.queued_ns);
  look.running_ns = wanted > 0 ? static_cast<int64_t>(static_cast<double>(awake_ns) * running / wanted) : 0;
  look.queued_ns = awake_ns - look.running_ns;
  look.looks = std::max<int64_t>(running == 0 ? whole_ns / kLookNs : 1, 1);
  return look;
}

// Whose time it is if nothing is known of it: the process's first thread, or its only one.
ThreadIndex OnlyThread(const TraceModel& model, ProcessIndex process, const std::vector<ThreadStates>& threads) {
  ThreadIndex only = kNone;
  for (ThreadIndex thread = 0; thread < model.threads.size(); ++thread) {
    if (model.threads[thread].process != process) continue;
    if (only != kNone) return kNone;
    only = thread;
  }
  const bool is_first = only != kNone && model.threads[only].tid == model.processes[process].pid;
  const bool has_others = std::any_of(threads.begin(), threads.end(), [process](const ThreadStates& states) {
    return states.process == process && states.thread == kNone && states.tid != 0;
  });
  return is_first || !has_others ? only : kNone;
}

std::vector<StateLook> Find(const TraceModel& model, ProcessIndex process, const std::vector<ThreadStates>& threads) {
  std::vector<TimeOfThread> times;
  std::vector<LookSums> sums;
  for (const ThreadStates& states : threads) {
    if (states.process != process || states.thread == kNone) continue;
    // The first look says nothing of what was before, only the second of the time since.
    for (size_t i = 2; i < states.time_ns.size(); ++i) {
      times.push_back({states.time_ns[i], states.thread, sums.size()});
      sums.push_back(LookAt(states, i));
    }
  }
  std::vector<StateLook> looks;
  const ThreadIndex only = OnlyThread(model, process, threads);
  ForEachPlace(model, process, std::move(times), [&](const TimeOfThread& at, absl::Span<const TimePiece> parts) {
    const TimePiece* own = PartOf(at.thread, parts);
    if (own == nullptr && at.thread == only) own = PartOf(kNone, parts);
    if (own == nullptr) return;
    looks.push_back({*own, sums[at.index]});
    looks.back().piece.start_ns = looks.back().piece.end_ns = at.time_ns;
  });
  return looks;
}

}  // namespace

void LookSums::Add(const LookSums& other) {
  looks += other.looks;
  running_ns += other.running_ns;
  queued_ns += other.queued_ns;
  blocked_ns += other.blocked_ns;
  for (size_t i = 0; i < kBlockedIns; ++i) found_ns[i] += other.found_ns[i];
}

std::optional<int64_t> LookSums::PartOf(int64_t part_ns, int64_t ns) const {
  const int64_t all_ns = running_ns + queued_ns + blocked_ns;
  if (looks < kFewestLooks || all_ns <= 0) return std::nullopt;
  return static_cast<int64_t>(CoveredOf(ns) * static_cast<double>(part_ns) / static_cast<double>(all_ns));
}

// All of it, unless looks that met it at random would hardly have met so little.
double LookSums::CoveredOf(int64_t ns) const {
  const auto all_ns = static_cast<double>(running_ns + queued_ns + blocked_ns);
  const double most_ns = all_ns * (1 + 2 / std::sqrt(static_cast<double>(std::max<int64_t>(looks, 1))));
  return most_ns < static_cast<double>(ns) ? all_ns : static_cast<double>(ns);
}

LookRange LookSums::BlockedRangeOf(int64_t ns) const {
  constexpr double kZ = 1.96;
  const auto n = static_cast<double>(looks);
  const double share = static_cast<double>(blocked_ns) / static_cast<double>(running_ns + queued_ns + blocked_ns);
  const double middle = share + kZ * kZ / (2 * n),
               half = kZ * std::sqrt(share * (1 - share) / n + kZ * kZ / (4 * n * n));
  const double covered = CoveredOf(ns), whole = covered / (1 + kZ * kZ / n);
  const double not_met = static_cast<double>(ns) - covered;
  return {static_cast<int64_t>(whole * (middle - half)), static_cast<int64_t>(whole * (middle + half) + not_met)};
}

LookSums LooksIn(const ThreadStates& states, const IntervalSet& times) {
  IntervalFinder finder(times.intervals());
  LookSums sums;
  for (size_t i = 2; i < states.time_ns.size(); ++i) {
    if (finder.Has(states.time_ns[i])) sums.Add(LookAt(states, i));
  }
  return sums;
}

StateLooks::StateLooks(const TraceModel& model) {
  const std::vector<ThreadStates> threads = ReadThreadStates(model);
  for (ProcessIndex process = 0; process < model.processes.size(); ++process) {
    of_.push_back(Find(model, process, threads));
  }
}

}  // namespace dlhook::analyzer::time
