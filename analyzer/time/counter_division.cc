// See counter_division.h. First each thread separately; what remains is kept as rates, which a second sweep over the
// process distributes.
#include "analyzer/time/counter_division.h"

#include <algorithm>
#include <cmath>
#include <numeric>

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
    std::iota(counters_.begin(), counters_.end(), 0);
  }

  void Run() {
    for (const CounterTimeline& timeline : run_.timelines) {
      if (timeline.process != process_) continue;
      if (timeline.thread == kNone) {
        for (size_t i = 0; i < timeline.size(); ++i) DeferInterval(timeline, i);
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
    const auto part = static_cast<double>(piece.end_ns - piece.start_ns) /
                      static_cast<double>(timeline.end_ns[interval] - timeline.start_ns[interval]);
    amounts_.clear();
    for (int64_t amount : timeline.AmountsOf(interval)) amounts_.push_back(static_cast<double>(amount) * part);
    piece.counters = timeline.counters;
    piece.amounts = amounts_;
    take_(piece);
  }

  void DeferInterval(const CounterTimeline& timeline, size_t interval) {
    Defer(timeline, interval, timeline.start_ns[interval], timeline.end_ns[interval]);
  }

  // A sweep would not reach anything outside the run's time.
  void Defer(const CounterTimeline& timeline, size_t interval, int64_t start_ns, int64_t end_ns) {
    const absl::Span<const int64_t> amounts = timeline.AmountsOf(interval);
    if (std::all_of(amounts.begin(), amounts.end(), [](int64_t amount) { return amount == 0; })) return;
    const int64_t inside_start_ns = std::clamp(start_ns, model_.start_ns, model_.end_ns);
    const int64_t inside_end_ns = std::clamp(end_ns, model_.start_ns, model_.end_ns);
    const int64_t whole_ns = timeline.end_ns[interval] - timeline.start_ns[interval];
    const int64_t outside_ns = (end_ns - start_ns) - (inside_end_ns - inside_start_ns);
    if (outside_ns > 0)
      TakeOutside(timeline, interval, static_cast<double>(outside_ns) / static_cast<double>(whole_ns));
    if (inside_end_ns <= inside_start_ns) return;
    const Pool pool = timeline.thread == kNone ? kOthers : kIdle;
    for (size_t j = 0; j < amounts.size(); ++j) {
      if (amounts[j] == 0) continue;
      const Rate rate = (static_cast<Rate>(amounts[j]) << kRateBits) / whole_ns;
      changes_.push_back({inside_start_ns, timeline.counters[j], pool, rate});
      changes_.push_back({inside_end_ns, timeline.counters[j], pool, -rate});
    }
  }

  void TakeOutside(const CounterTimeline& timeline, size_t interval, double part) {
    CountedPiece piece;
    piece.start_ns = timeline.start_ns[interval];
    piece.end_ns = timeline.end_ns[interval];
    piece.is_of_other_threads = timeline.thread == kNone;
    amounts_.clear();
    for (int64_t amount : timeline.AmountsOf(interval)) amounts_.push_back(static_cast<double>(amount) * part);
    piece.counters = timeline.counters;
    piece.amounts = amounts_;
    take_(piece);
  }

  void DivideRest() {
    std::sort(changes_.begin(), changes_.end(),
              [](const RateChange& a, const RateChange& b) { return a.time_ns < b.time_ns; });
    std::vector<int64_t> boundaries = boundaries_;
    for (const RateChange& change : changes_) boundaries.push_back(change.time_ns);
    boundaries.push_back(model_.processes[process_].start_ns);
    boundaries.push_back(model_.processes[process_].end_ns);
    std::sort(boundaries.begin(), boundaries.end());
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
  std::iota(by_fraction.begin(), by_fraction.end(), 0);
  std::stable_sort(by_fraction.begin(), by_fraction.end(), [&](size_t a, size_t b) {
    return parts[a] - static_cast<double>(whole[a]) > parts[b] - static_cast<double>(whole[b]);
  });
  if (parts.empty()) return whole;
  const auto count = static_cast<int64_t>(parts.size());
  if (left >= 0 && left <= count) {
    for (int64_t i = 0; i < left; ++i) ++whole[by_fraction[static_cast<size_t>(i)]];
  } else {  // beyond rounding: too large for doubles
    *std::max_element(whole.begin(), whole.end()) += left;
  }
  return whole;
}

}  // namespace dlhook::analyzer::time
