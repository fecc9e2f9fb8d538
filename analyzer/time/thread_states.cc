#include "analyzer/time/thread_states.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

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
        std::find_if(series.names.begin(), series.names.end(),
                     [&](NameIndex name) { return model.names[name] == kThreadStateNames[state]; }) -
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
  const auto after = std::upper_bound(states.time_ns.begin(), states.time_ns.end(), time_ns);
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
  std::stable_sort(threads.begin(), threads.end(), [](const ThreadStates& a, const ThreadStates& b) {
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
  const auto found = std::find_if(threads.begin(), threads.end(), is_its);
  return found == threads.end() ? nullptr : &*found;
}

namespace {

using Places = std::vector<std::pair<int64_t, const char*>>;

// Most time first, without those of less than so much of all.
Places PlacesOf(const std::array<int64_t, kBlockedIns>& found_ns, int64_t least_percent) {
  const int64_t all_ns = std::accumulate(found_ns.begin(), found_ns.end(), int64_t{0});
  Places places;
  for (size_t i = 0; i < kBlockedIns; ++i) {
    if (found_ns[i] > 0 && found_ns[i] >= all_ns / 100 * least_percent) {
      places.emplace_back(found_ns[i], kBlockedInWords[i]);
    }
  }
  std::stable_sort(places.begin(), places.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  return places;
}

}  // namespace

bool IsOwnThread(const ThreadData& thread) { return thread.name == "dlhook-gpu" || thread.name == "dlhook-jax"; }

std::string BlockedInText(const std::array<int64_t, kBlockedIns>& found_ns) {
  const int64_t all_ns = std::accumulate(found_ns.begin(), found_ns.end(), int64_t{0});
  return absl::StrJoin(PlacesOf(found_ns, kLeastPercent), ", ", [&](std::string* text, const auto& place) {
    const auto [ns, word] = place;
    absl::StrAppend(text, word, ns == all_ns ? "" : absl::StrFormat(" %d %%", (ns * 100 + all_ns / 2) / all_ns));
  });
}

std::string BlockedInWords(const std::array<int64_t, kBlockedIns>& found_ns) {
  return absl::StrJoin(PlacesOf(found_ns, kLeastNamedPercent), ", ",
                       [](std::string* text, const auto& place) { text->append(place.second); });
}

}  // namespace dlhook::analyzer::time
