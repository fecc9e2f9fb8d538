// See counter_division.h. First each thread separately; what remains is kept as rates, which a second sweep over the
// process distributes.
#include "analyzer/time/counter_division.h"

#include "analyzer/time/thread_activity.h"

namespace dlhook::analyzer::inline time {
namespace {

using Rate = __int128;  // amount per ns, in units of 2^-kRateBits: exact, so that sums return to zero
constexpr int kRateBits = 48;

double FromRate(Rate rate) { return std::ldexp(static_cast<double>(rate), -kRateBits); }

// Pools of counts by threads that were in no activity, and by threads without recorded calls.
enum Pool : size_t { kIdle, kOthers, kPools };

// A change of a counter's rate in a pool at `time_ns`.
struct RateChange {
  int64_t time_ns = 0;
  CounterIndex counter = 0;
  Pool pool = kIdle;
  Rate by = 0;
};

class CounterDivision {
 public:
  CounterDivision(const TraceModel& model, const CountedRun& run, ProcessIndex process,
                  const std::vector<int64_t>& boundaries, const std::function<void(const CountedPiece&)>& take)
      : model_(model), run_(run), process_(process), boundaries_(boundaries), take_(take), rules_(model) {
    counters_.resize(run.counters.size());
    absl::c_iota(counters_, 0);
  }

  void Run() {
    for (const CounterTimeline& timeline : run_.timelines) {
      if (timeline.process != process_) continue;
      if (timeline.thread == kNone) {
        for (size_t i = 0; i < timeline.size(); ++i) Defer(timeline, i, timeline.start_ns[i], timeline.end_ns[i]);
      } else {
        DivideThread(timeline);
      }
    }
    DivideRest();
  }

 private:
  void DivideThread(const CounterTimeline& timeline) {
    ThreadActivity activity(model_, rules_, timeline.thread);
    auto boundary = boundaries_.begin();
    for (size_t i = 0; i < timeline.size(); ++i) {
      int64_t at_ns = timeline.start_ns[i];
      while (at_ns < timeline.end_ns[i]) {
        while (activity.next_time_ns() <= at_ns) activity.Step();
        while (boundary != boundaries_.end() && *boundary <= at_ns) ++boundary;
        int64_t end_ns = std::min(timeline.end_ns[i], activity.next_time_ns());
        if (boundary != boundaries_.end()) end_ns = std::min(end_ns, *boundary);
        const Activity& now = activity.now();
        TakeOwn(timeline, i, {{at_ns, end_ns, 0, now.kind, now.index, timeline.thread, now.gap}});
        at_ns = end_ns;
      }
    }
  }

  void TakeOwn(const CounterTimeline& timeline, size_t interval, CountedPiece piece) {
    if (piece.kind == ActivityKind::kUnattributed) return Defer(timeline, interval, piece.start_ns, piece.end_ns);
    TakePart(timeline, interval, piece.end_ns - piece.start_ns, piece);
  }

  // Of what was counted in an interval, that of `part_ns` of it.
  void TakePart(const CounterTimeline& timeline, size_t interval, int64_t part_ns, CountedPiece piece) {
    const auto part =
        static_cast<double>(part_ns) / static_cast<double>(timeline.end_ns[interval] - timeline.start_ns[interval]);
    amounts_.clear();
    for (int64_t amount : timeline.AmountsOf(interval)) amounts_.push_back(static_cast<double>(amount) * part);
    piece.counters = timeline.counters;
    piece.amounts = amounts_;
    take_(piece);
  }

  // A sweep would not reach anything outside the run's time.
  void Defer(const CounterTimeline& timeline, size_t interval, int64_t start_ns, int64_t end_ns) {
    const absl::Span<const int64_t> amounts = timeline.AmountsOf(interval);
    if (absl::c_all_of(amounts, [](int64_t amount) { return amount == 0; })) return;
    const int64_t inside_start_ns = std::clamp(start_ns, model_.start_ns, model_.end_ns);
    const int64_t inside_end_ns = std::clamp(end_ns, model_.start_ns, model_.end_ns);
    const int64_t whole_ns = timeline.end_ns[interval] - timeline.start_ns[interval];
    const int64_t outside_ns = (end_ns - start_ns) - (inside_end_ns - inside_start_ns);
    if (outside_ns > 0) {
      CountedPiece outside = {{timeline.start_ns[interval], timeline.end_ns[interval]}};
      outside.is_of_other_threads = timeline.thread == kNone;
      TakePart(timeline, interval, outside_ns, outside);
    }
    if (inside_end_ns <= inside_start_ns) return;
    const Pool pool = timeline.thread == kNone ? kOthers : kIdle;
    for (size_t j = 0; j < amounts.size(); ++j) {
      if (amounts[j] == 0) continue;
      const Rate rate = (static_cast<Rate>(amounts[j]) << kRateBits) / whole_ns;
      changes_.push_back({inside_start_ns, timeline.counters[j], pool, rate});
      changes_.push_back({inside_end_ns, timeline.counters[j], pool, -rate});
    }
  }

  void DivideRest() {
    std::ranges::sort(changes_, {}, &RateChange::time_ns);
    std::vector<int64_t> boundaries = boundaries_;
    for (const RateChange& change : changes_) boundaries.push_back(change.time_ns);
    boundaries.push_back(model_.processes[process_].start_ns);
    boundaries.push_back(model_.processes[process_].end_ns);
    absl::c_sort(boundaries);
    boundaries.erase(std::unique(boundaries.begin(), boundaries.end()), boundaries.end());
    for (std::vector<Rate>& rates : rates_) rates.assign(counters_.size(), 0);
    DivideTime(model_, process_, boundaries, [this](const TimePiece& piece) { TakeRest(piece); });
  }

  void ApplyChangesUntil(int64_t time_ns) {
    for (; next_change_ < changes_.size() && changes_[next_change_].time_ns <= time_ns; ++next_change_) {
      const RateChange& change = changes_[next_change_];
      rates_[change.pool][change.counter] += change.by;
      if (change.by > 0) ++open_[change.pool];
      if (change.by < 0) --open_[change.pool];
    }
  }

  void TakeRest(const TimePiece& time) {
    ApplyChangesUntil(time.start_ns);
    const ProcessInfo& process = model_.processes[process_];
    const bool is_alive = time.start_ns >= process.start_ns && time.end_ns <= process.end_ns;
    CountedPiece piece = {time};
    if (!is_alive) piece.share_ns = 0;
    take_(piece);
    piece.share_ns = 0;
    for (Pool pool : {kIdle, kOthers}) {
      if (open_[pool] == 0) continue;
      amounts_.clear();
      for (Rate rate : rates_[pool]) amounts_.push_back(FromRate(rate) * static_cast<double>(time.share_ns));
      piece.is_estimated = time.kind != ActivityKind::kUnattributed;
      piece.is_of_other_threads = pool == kOthers && !piece.is_estimated;
      piece.counters = counters_;
      piece.amounts = amounts_;
      take_(piece);
    }
  }

  const TraceModel& model_;
  const CountedRun& run_;
  const ProcessIndex process_;
  const std::vector<int64_t>& boundaries_;
  const std::function<void(const CountedPiece&)>& take_;
  const ActivityRules rules_;
  std::vector<CounterIndex> counters_;  // all
  std::vector<RateChange> changes_;
  size_t next_change_ = 0;
  std::vector<Rate> rates_[kPools];
  int64_t open_[kPools] = {};  // increases without a matching decrease yet
  std::vector<double> amounts_;
};

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
    absl::c_stable_sort(ordered, [&](const auto* a, const auto* b) { return rank(a) < rank(b); });
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
    std::map<std::vector<Interval>, std::vector<size_t>> groups;
    for (size_t j = 0; j < series.names.size(); ++j) {
      std::vector<Interval> taken;
      for (const Claim& claim : claims_[series.names[j]]) taken.push_back({claim.start_ns, claim.end_ns});
      groups[IntervalSet(std::move(taken)).intervals()].push_back(j);
    }
    for (const auto& [taken, columns] : groups) AddTimeline(series, readings, IntervalSet(taken), columns);
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

  void AddTimeline(const CounterSeries& series, const std::vector<size_t>& readings, const IntervalSet& taken,
                   const std::vector<size_t>& columns) {
    CounterTimeline timeline = {.process = series.process, .thread = series.thread, .tid = series.tid};
    for (size_t column : columns) timeline.counters.push_back(IndexOf(series.names[column]));
    for (size_t i = 1; i < readings.size(); ++i) {
      const size_t from = readings[i - 1], to = readings[i];
      const IntervalSet free = IntervalSet({{series.time_ns[from], series.time_ns[to]}}).Difference(taken);
      for (const auto& [start_ns, end_ns] : free.intervals()) {
        timeline.start_ns.push_back(start_ns);
        timeline.end_ns.push_back(end_ns);
        for (size_t column : columns) {
          timeline.amounts.push_back(AmountUntil(series, from, to, column, end_ns) -
                                     AmountUntil(series, from, to, column, start_ns));
        }
      }
    }
    if (!series.running_ns.empty() && taken.empty()) {
      run_.running_ns += static_cast<int64_t>(series.running_ns[readings.back()] - series.running_ns[readings.front()]);
      run_.enabled_ns += static_cast<int64_t>(series.enabled_ns[readings.back()] - series.enabled_ns[readings.front()]);
    }
    if (series.thread == kNone && series.tid == 0) return AddToProcess(timeline);
    if (timeline.size() > 0) run_.timelines.push_back(std::move(timeline));
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

void DivideCounters(const TraceModel& model, const CountedRun& run, ProcessIndex process,
                    const std::vector<int64_t>& boundaries, const std::function<void(const CountedPiece&)>& take) {
  CounterDivision(model, run, process, boundaries, take).Run();
}

std::vector<int64_t> RoundToSum(const std::vector<double>& parts, int64_t sum) {
  std::vector<int64_t> whole;
  int64_t left = sum;
  for (double part : parts) {
    whole.push_back(static_cast<int64_t>(std::floor(part)));
    left -= whole.back();
  }
  std::vector<size_t> by_fraction(parts.size());
  absl::c_iota(by_fraction, 0);
  absl::c_stable_sort(by_fraction, [&](size_t a, size_t b) {
    return parts[a] - static_cast<double>(whole[a]) > parts[b] - static_cast<double>(whole[b]);
  });
  if (parts.empty()) return whole;
  const auto count = std::ssize(parts);
  if (left >= 0 && left <= count) {
    for (int64_t i = 0; i < left; ++i) ++whole[by_fraction[static_cast<size_t>(i)]];
  } else {  // beyond rounding: too large for doubles
    *absl::c_max_element(whole) += left;
  }
  return whole;
}

CountedRun ReadCounters(const TraceModel& model) { return Reader(model).Read(); }

}  // namespace dlhook::analyzer::time
