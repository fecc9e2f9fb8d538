// Turns counter readings into intervals: see counter_timeline.h.
#include "analyzer/time/counter_timeline.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace dlhook::analyzer::inline time {
namespace {

// The readings of one counter in one series.
struct Claim {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  bool since_birth = false;  // values count from the start of the thread
  int64_t start_value = 0;
  int64_t end_value = 0;
};

// Whether the counter starts with the thread, however it is read.
bool CountsSinceBirth(const CounterSeries& series) {
  return (series.source == CounterSource::kRusage || series.source == CounterSource::kProc) &&
         series.running_ns.empty();
}

using Ranges = std::vector<std::pair<int64_t, int64_t>>;

// The ranges at which a timeline is cut.
Ranges RangesOf(const std::vector<Claim>& claims) {
  Ranges ranges;
  for (const Claim& claim : claims) ranges.emplace_back(claim.start_ns, claim.end_ns);
  std::sort(ranges.begin(), ranges.end());
  return ranges;
}

bool IsOfProcess(const CounterSeries& series) { return series.thread == kNone && series.tid == 0; }

class Reader {
 public:
  explicit Reader(const TraceModel& model) : model_(model) { run_.processes.resize(model.processes.size()); }

  CountedRun Read() {
    std::vector<const CounterSeries*> ordered;
    for (const CounterSeries& series : model_.counters) ordered.push_back(&series);
    // Threads without an index are identified by tid.
    const auto rank = [](const CounterSeries* series) {
      return std::tuple(series->process, series->thread, series->tid, series->kind != CounterKind::kBoundary);
    };
    std::stable_sort(ordered.begin(), ordered.end(), [&](const auto* a, const auto* b) { return rank(a) < rank(b); });
    const CounterSeries* before = nullptr;
    for (const CounterSeries* series : ordered) {
      const bool same_thread = before != nullptr && before->process == series->process &&
                               before->thread == series->thread && before->tid == series->tid;
      if (!same_thread) claims_.clear();
      before = series;
      Add(*series);
    }
    for (ProcessCounts& process : run_.processes) {
      process.amount.resize(run_.counters.size());
      process.is_known.resize(run_.counters.size());
    }
    return std::move(run_);
  }

 private:
  CounterIndex IndexOf(NameIndex name) {
    const auto [at, is_new] = index_.emplace(name, static_cast<CounterIndex>(run_.counters.size()));
    if (is_new) run_.counters.push_back(name);
    return at->second;
  }

  // Counters of a series that are cut at the same times share a timeline.
  void Add(const CounterSeries& series) {
    const std::vector<size_t> readings = Usable(series);
    if (readings.size() < 2) return;
    std::map<Ranges, std::vector<size_t>> groups;
    for (size_t j = 0; j < series.names.size(); ++j) groups[RangesOf(claims_[series.names[j]])].push_back(j);
    for (const auto& [taken, columns] : groups) AddTimeline(series, readings, taken, columns);
    for (size_t j = 0; j < series.names.size(); ++j) {
      claims_[series.names[j]].push_back({series.time_ns[readings.front()], series.time_ns[readings.back()],
                                          CountsSinceBirth(series), ValueOf(series, readings.front(), j),
                                          ValueOf(series, readings.back(), j)});
    }
  }

  // Without readings before the group started counting, and without the first of two at the same time.
  std::vector<size_t> Usable(const CounterSeries& series) {
    std::vector<size_t> usable;
    for (size_t i = 0; i < series.time_ns.size(); ++i) {
      if (!usable.empty() && series.time_ns[i] <= series.time_ns[usable.back()]) {
        // A count in zero time belongs to the interval before; for the first one, it precedes all intervals.
        if (usable.size() > 1) usable.back() = i;
        continue;
      }
      const bool counted =
          usable.empty() || series.running_ns.empty() || series.running_ns[i] > series.running_ns[usable.back()];
      if (counted) usable.push_back(i);
    }
    return usable;
  }

  static int64_t ValueOf(const CounterSeries& series, size_t reading, size_t column) {
    return static_cast<int64_t>(series.value[reading * series.names.size() + column]);
  }

  // The amount counted between two readings, of which the group was active for `running` of `enabled` ns.
  static int64_t AmountOf(const CounterSeries& series, size_t from, size_t to, size_t column) {
    const int64_t difference = ValueOf(series, to, column) - ValueOf(series, from, column);
    if (series.running_ns.empty()) return difference;
    const auto running = static_cast<double>(series.running_ns[to] - series.running_ns[from]);
    const auto enabled = static_cast<double>(series.enabled_ns[to] - series.enabled_ns[from]);
    return enabled <= running ? difference : std::llround(static_cast<double>(difference) * enabled / running);
  }

  // The part of it counted until `time_ns`: as read by another series at that time, else proportionally.
  int64_t AmountUntil(const CounterSeries& series, size_t from, size_t to, size_t column, int64_t time_ns) const {
    const int64_t amount = AmountOf(series, from, to, column);
    const int64_t start_ns = series.time_ns[from], end_ns = series.time_ns[to];
    if (time_ns <= start_ns) return 0;
    if (time_ns >= end_ns) return amount;
    for (const Claim& claim : claims_.at(series.names[column])) {
      if (!claim.since_birth || !CountsSinceBirth(series)) continue;
      if (time_ns != claim.start_ns && time_ns != claim.end_ns) continue;
      const int64_t value = time_ns == claim.start_ns ? claim.start_value : claim.end_value;
      return std::clamp<int64_t>(value - ValueOf(series, from, column), 0, amount);
    }
    return static_cast<int64_t>(static_cast<__int128>(amount) * (time_ns - start_ns) / (end_ns - start_ns));
  }

  void AddTimeline(const CounterSeries& series, const std::vector<size_t>& readings, const Ranges& taken,
                   const std::vector<size_t>& columns) {
    CounterTimeline timeline;
    timeline.process = series.process;
    timeline.thread = series.thread;
    timeline.tid = series.tid;
    for (size_t column : columns) timeline.counters.push_back(IndexOf(series.names[column]));
    for (size_t i = 1; i < readings.size(); ++i) {
      ForEachOutside(
          {series.time_ns[readings[i - 1]], series.time_ns[readings[i]]}, taken, [&](int64_t start_ns, int64_t end_ns) {
            timeline.start_ns.push_back(start_ns);
            timeline.end_ns.push_back(end_ns);
            for (size_t column : columns) {
              timeline.amounts.push_back(AmountUntil(series, readings[i - 1], readings[i], column, end_ns) -
                                         AmountUntil(series, readings[i - 1], readings[i], column, start_ns));
            }
          });
    }
    if (!series.running_ns.empty() && taken.empty()) {
      run_.running_ns += static_cast<int64_t>(series.running_ns[readings.back()] - series.running_ns[readings.front()]);
      run_.enabled_ns += static_cast<int64_t>(series.enabled_ns[readings.back()] - series.enabled_ns[readings.front()]);
    }
    if (IsOfProcess(series)) return AddToProcess(timeline);
    if (timeline.size() > 0) run_.timelines.push_back(std::move(timeline));
  }

  // The parts of an interval that are in none of the ranges (ascending).
  template <typename Take>
  static void ForEachOutside(std::pair<int64_t, int64_t> interval, const Ranges& taken, Take take) {
    int64_t at_ns = interval.first;
    for (const auto& [start_ns, end_ns] : taken) {
      if (std::min(start_ns, interval.second) > at_ns) take(at_ns, std::min(start_ns, interval.second));
      at_ns = std::max(at_ns, end_ns);
    }
    if (interval.second > at_ns) take(at_ns, interval.second);
  }

  void AddToProcess(const CounterTimeline& timeline) {
    ProcessCounts& process = run_.processes[timeline.process];
    process.amount.resize(run_.counters.size());
    process.is_known.resize(run_.counters.size());
    for (size_t i = 0; i < timeline.amounts.size(); ++i) {
      const CounterIndex counter = timeline.counters[i % timeline.counters.size()];
      process.amount[counter] += timeline.amounts[i];
      process.is_known[counter] = true;
    }
  }

  const TraceModel& model_;
  CountedRun run_;
  std::map<NameIndex, CounterIndex> index_;
  std::map<NameIndex, std::vector<Claim>> claims_;  // of earlier series of the thread
};

}  // namespace

CountedRun ReadCounters(const TraceModel& model) { return Reader(model).Read(); }

}  // namespace dlhook::analyzer::time
