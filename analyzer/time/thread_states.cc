#include "analyzer/time/thread_states.h"

namespace dlhook::analyzer::inline time {
namespace {

constexpr const char* kBlockedInWords[kBlockedIns] = {"lock",  "poll",       "read or write", "sleep",
                                                      "child", "page fault", "other"};
constexpr int64_t kLeastPercent = 5;        // less in one place is not worth a word
constexpr int64_t kLeastNamedPercent = 20;  // … where it stands alone
constexpr double kMostlyOne = 0.98;         // of the time between two looks: the thread did nothing else

// Which column of the series holds each of kThreadStateNames; names.size(): none.
std::array<size_t, kThreadStates> ColumnsOf(const TraceModel& model, const CounterSeries& series) {
  std::array<size_t, kThreadStates> columns;
  for (size_t state = 0; state < kThreadStates; ++state) {
    columns[state] = static_cast<size_t>(
        absl::c_find_if(series.names, [&](NameIndex name) { return model.names[name] == kThreadStateNames[state]; }) -
        series.names.begin());
  }
  return columns;
}

ThreadStates Read(const TraceModel& model, const CounterSeries& series) {
  const std::array<size_t, kThreadStates> columns = ColumnsOf(model, series);
  ThreadStates states = {series.process, series.thread, series.tid, series.thread_name, {}, {}};
  for (size_t i = 0; i < series.time_ns.size(); ++i) {
    const auto value = [&](size_t state) {
      const size_t width = series.names.size();
      return columns[state] == width ? 0 : static_cast<int64_t>(series.value[i * width + columns[state]]);
    };
    if (!states.time_ns.empty() && series.time_ns[i] <= states.time_ns.back()) {
      states.time_ns.pop_back();
      states.until.pop_back();
    }
    StateSums sums = {.running_ns = value(0), .queued_ns = value(1)};
    for (size_t place = 0; place < kBlockedIns; ++place) sums.found_ns[place] = value(2 + place);
    states.time_ns.push_back(series.time_ns[i]);
    sums.wall_ns = states.time_ns.back() - states.time_ns.front();
    states.until.push_back(sums);
  }
  return states;
}

// after - before, times a part.
StateSums PartBetween(const StateSums& before, const StateSums& after, double part) {
  const auto of = [part](int64_t from, int64_t to) {
    return static_cast<int64_t>(part * static_cast<double>(to - from));
  };
  StateSums sums = {.wall_ns = of(before.wall_ns, after.wall_ns),
                    .running_ns = of(before.running_ns, after.running_ns),
                    .queued_ns = of(before.queued_ns, after.queued_ns)};
  for (size_t i = 0; i < kBlockedIns; ++i) sums.found_ns[i] = of(before.found_ns[i], after.found_ns[i]);
  return sums;
}

// What it had done until then; `spread_ns`: how far from the nearer of two readings, if it did several things between them.
StateSums UntilTime(const ThreadStates& states, int64_t time_ns) {
  const auto after = absl::c_upper_bound(states.time_ns, time_ns);
  if (after == states.time_ns.begin()) return states.until.front();
  const auto at = static_cast<size_t>(after - states.time_ns.begin());
  if (after == states.time_ns.end()) return states.until.back();
  const int64_t since_ns = time_ns - states.time_ns[at - 1], whole_ns = *after - states.time_ns[at - 1];
  StateSums sums = states.until[at - 1];
  sums.Add(PartBetween(states.until[at - 1], states.until[at],
                       static_cast<double>(since_ns) / static_cast<double>(whole_ns)));
  const StateSums between = PartBetween(states.until[at - 1], states.until[at], 1);
  const int64_t most_ns = std::max({between.running_ns, between.queued_ns, between.blocked_ns()});
  const bool did_one_thing = static_cast<double>(most_ns) >= kMostlyOne * static_cast<double>(whole_ns);
  sums.spread_ns = did_one_thing ? 0 : std::min(since_ns, whole_ns - since_ns);
  return sums;
}

using Places = std::vector<std::pair<int64_t, const char*>>;

// Most time first, without those of less than so much of all.
Places PlacesOf(const std::array<int64_t, kBlockedIns>& found_ns, int64_t least_percent) {
  const int64_t all_ns = absl::c_accumulate(found_ns, int64_t{0});
  Places places;
  for (size_t i = 0; i < kBlockedIns; ++i) {
    if (found_ns[i] > 0 && found_ns[i] >= all_ns / 100 * least_percent) {
      places.emplace_back(found_ns[i], kBlockedInWords[i]);
    }
  }
  absl::c_stable_sort(places, [](const auto& a, const auto& b) { return a.first > b.first; });
  return places;
}

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
  const bool has_others = absl::c_any_of(threads, [process](const ThreadStates& states) {
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

constexpr int64_t kLeastPart = 10;               // 1/10
constexpr int64_t kLeastLoopNs = 1'000'000'000;  // threads are looked at some twenty times a second
constexpr int64_t kShortestLoopNs = 100'000'000;

// When it is unknown what came before, because the run was read in parts or recording had stopped.
std::vector<int64_t> UnknownBefore(const TraceModel& model) {
  std::vector<int64_t> times_ns;
  for (const ReadSpan& span : model.read_spans) times_ns.push_back(span.start_ns);
  for (const RecordingStop& stop : model.recording_stops) times_ns.push_back(stop.start_ns);
  absl::c_sort(times_ns);
  return times_ns;
}

// Two requests, and whether nothing between them is unknown.
bool AreRequests(const Step& step, const Step& next, const std::vector<int64_t>& unknown_before_ns) {
  if (step.kind != StepKind::kInference || next.kind != StepKind::kInference) return false;
  const auto unknown = absl::c_lower_bound(unknown_before_ns, step.end_ns);
  return step.end_ns < next.start_ns && (unknown == unknown_before_ns.end() || *unknown > next.start_ns);
}

}  // namespace

void StateSums::Add(const StateSums& other) {
  wall_ns += other.wall_ns;
  running_ns += other.running_ns;
  queued_ns += other.queued_ns;
  spread_ns += other.spread_ns;
  for (size_t i = 0; i < kBlockedIns; ++i) found_ns[i] += other.found_ns[i];
}

StateSums ThreadStates::In(Interval time) const {
  if (time_ns.empty() || time.end_ns <= time.start_ns) return {};
  const StateSums from = UntilTime(*this, time.start_ns), to = UntilTime(*this, time.end_ns);
  StateSums sums = PartBetween(from, to, 1);
  sums.spread_ns = std::min(from.spread_ns + to.spread_ns, sums.wall_ns);
  return sums;
}

std::vector<ThreadStates> ReadThreadStates(const TraceModel& model) {
  std::vector<ThreadStates> threads;
  for (const CounterSeries& series : model.states) {
    threads.push_back(Read(model, series));
    if (threads.back().time_ns.size() < 2) threads.pop_back();
  }
  absl::c_stable_sort(threads, [](const ThreadStates& a, const ThreadStates& b) {
    return std::tuple(a.process, a.thread, a.tid == 0) < std::tuple(b.process, b.thread, b.tid == 0);
  });
  return threads;
}

const ThreadStates* StatesOf(const TraceModel& model, const std::vector<ThreadStates>& threads,
                             const StepTrack& track) {
  const auto is_its = [&](const ThreadStates& states) {
    if (states.process != track.process) return false;
    return track.thread == kNone ? states.tid == model.processes[track.process].pid : states.thread == track.thread;
  };
  const auto found = absl::c_find_if(threads, is_its);
  return found == threads.end() ? nullptr : &*found;
}

bool IsOwnThread(const ThreadData& thread) { return thread.name == "dlhook-gpu" || thread.name == "dlhook-jax"; }

std::string BlockedInText(const std::array<int64_t, kBlockedIns>& found_ns) {
  const int64_t all_ns = absl::c_accumulate(found_ns, int64_t{0});
  return absl::StrJoin(PlacesOf(found_ns, kLeastPercent), ", ", [&](std::string* text, const auto& place) {
    const auto [ns, word] = place;
    absl::StrAppend(text, word, ns == all_ns ? "" : absl::StrFormat(" %d %%", (ns * 100 + all_ns / 2) / all_ns));
  });
}

std::string BlockedInWords(const std::array<int64_t, kBlockedIns>& found_ns) {
  return absl::StrJoin(PlacesOf(found_ns, kLeastNamedPercent), ", ",
                       [](std::string* text, const auto& place) { text->append(place.second); });
}

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

void CloseLoops(const TraceModel& model, std::vector<StepTrack>* tracks) {
  const std::vector<ThreadStates> threads = ReadThreadStates(model);
  const std::vector<int64_t> unknown_before_ns = UnknownBefore(model);
  for (StepTrack& track : *tracks) {
    const ThreadStates* const states = StatesOf(model, threads, track);
    if (states == nullptr) continue;
    std::vector<size_t> closed;
    StateSums all, between;
    for (size_t i = 0; i + 1 < track.steps.size(); ++i) {
      const Step &step = track.steps[i], &next = track.steps[i + 1];
      if (!AreRequests(step, next, unknown_before_ns)) continue;
      closed.push_back(i);
      all.Add(states->In({step.start_ns, next.start_ns}));
      between.Add(states->In({step.end_ns, next.start_ns}));
    }
    // On a busy machine a thread that waited also waits for a processor. What it waits for may be its own other threads.
    // Of a short loop it is known whether the thread was blocked in it, not where: by less than half of what lies between.
    const bool lasts =
        all.wall_ns >= kLeastLoopNs
            ? between.running_ns * kLeastPart >= all.running_ns && 2 * between.running_ns >= between.blocked_ns()
            : all.wall_ns >= kShortestLoopNs && between.wall_ns * kLeastPart >= all.wall_ns &&
                  2 * all.blocked_ns() < between.wall_ns;
    if (!lasts) continue;
    for (const size_t i : closed) track.steps[i].end_ns = track.steps[i + 1].start_ns;
  }
}

}  // namespace dlhook::analyzer::time
