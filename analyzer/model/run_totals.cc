// Totals per op, of calls and of aggregates (RunTotals), and what of the wall time is whose: a sweep over the calls, and the part
// that aggregates represent.
#include <queue>

#include "analyzer/model/same_work.h"

namespace dlhook::analyzer::inline model {
namespace {

// Divides the wall time of a run among its calls: computes RunTotals.wall_share_ns.
// Exact, in time linear in the calls: instead of dividing every instant among the active threads, a "meter" accumulates
// the share of one active thread, and a thread reads it when its innermost call changes.
struct WallShares {
  std::vector<int64_t> op_ns;  // per op; with idle_ns they add up to model.wall_ns() exactly
  int64_t idle_ns = 0;         // time without active calls
  // When that was: intervals [start, end), in order. Only if the run has aggregates, which divide it.
  std::vector<std::pair<int64_t, int64_t>> idle;
};

// The meter counts in 2^-16 ns; the remainder of each division is carried to the next interval.
constexpr int kMeterBits = 16;

// Steps through the starts and ends of one thread's calls.
class ThreadCursor {
 public:
  ThreadCursor(const TraceModel& model, size_t begin, size_t end) : model_(model), next_(begin), end_(end) {
    FindNextTime();
  }

  int64_t next_time_ns() const { return next_time_ns_; }  // INT64_MAX: no more
  bool is_active() const { return !open_.empty(); }
  OpIndex innermost_op() const { return open_.back().op; }

  void Step() {
    if (!open_.empty() && open_.back().end_ns == next_time_ns_) {
      open_.pop_back();
    } else {
      const int64_t end_ns = model_.calls.EndOf(next_);
      open_.push_back({std::min(end_ns, model_.end_ns), model_.calls.op[next_]});
      ++next_;
    }
    FindNextTime();
  }

  uint64_t meter_ = 0;  // as of the last change of the innermost call

 private:
  struct Open {
    int64_t end_ns;
    OpIndex op;
  };

  // If an end and a start are at the same time, the end comes first.
  void FindNextTime() {
    next_time_ns_ = open_.empty() ? INT64_MAX : open_.back().end_ns;
    if (next_ < end_ && model_.calls.start_ns[next_] < next_time_ns_) {
      next_time_ns_ = std::clamp(model_.calls.start_ns[next_], model_.start_ns, model_.end_ns);
    }
  }

  const TraceModel& model_;
  size_t next_;
  size_t end_;
  int64_t next_time_ns_ = INT64_MAX;
  std::vector<Open> open_;
};

// For model.calls alone, without aggregates.
class Sweep {
 public:
  explicit Sweep(const TraceModel& model) : model_(model), now_ns_(model.start_ns), metered_(model.ops.size()) {}

  WallShares Run() {
    for (size_t i = 0, end; i < model_.calls.size(); i = end) {
      end = i + 1;
      while (end < model_.calls.size() && model_.calls.thread[end] == model_.calls.thread[i]) ++end;
      cursors_.emplace_back(model_, i, end);
    }
    for (size_t i = 0; i < cursors_.size(); ++i) queue_.push({cursors_[i].next_time_ns(), i});
    while (!queue_.empty()) RunThread();
    AdvanceTo(model_.end_ns);
    shares_.op_ns = Rounded();
    return std::move(shares_);
  }

 private:
  using Event = std::pair<int64_t, size_t>;

  // Advances the thread whose turn it is for as long as it stays ahead of the others.
  void RunThread() {
    const size_t index = queue_.top().second;
    queue_.pop();
    const int64_t limit_ns = queue_.empty() ? INT64_MAX : queue_.top().first;
    ThreadCursor& cursor = cursors_[index];
    while (cursor.next_time_ns() <= limit_ns && cursor.next_time_ns() != INT64_MAX) {
      AdvanceTo(cursor.next_time_ns());
      const bool was_active = cursor.is_active();
      if (was_active) metered_[cursor.innermost_op()] += meter_ - cursor.meter_;
      cursor.meter_ = meter_;
      cursor.Step();
      active_ += static_cast<int>(cursor.is_active()) - static_cast<int>(was_active);
    }
    if (cursor.next_time_ns() != INT64_MAX) queue_.push({cursor.next_time_ns(), index});
  }

  void AdvanceTo(int64_t time_ns) {
    if (time_ns <= now_ns_) return;
    const uint64_t elapsed_ns = time_ns - now_ns_;
    if (active_ == 0) {
      AddIdle(now_ns_, time_ns);
    } else if (active_ == 1 && carry_ == 0) {
      meter_ += elapsed_ns << kMeterBits;
    } else {
      const unsigned __int128 scaled = (static_cast<unsigned __int128>(elapsed_ns) << kMeterBits) + carry_;
      meter_ += static_cast<uint64_t>(scaled / active_);
      carry_ = static_cast<uint64_t>(scaled % active_);
    }
    now_ns_ = time_ns;
  }

  void AddIdle(int64_t start_ns, int64_t end_ns) {
    shares_.idle_ns += end_ns - start_ns;
    if (model_.aggregates.empty()) return;
    if (!shares_.idle.empty() && shares_.idle.back().second == start_ns) {
      shares_.idle.back().second = end_ns;
    } else {
      shares_.idle.emplace_back(start_ns, end_ns);
    }
  }

  // Whole nanoseconds per op. All meter readings and the carry are exactly the busy time, so what rounding moves from
  // one op to the next adds up to it, too.
  std::vector<int64_t> Rounded() {
    std::vector<int64_t> rounded(metered_.size());
    unsigned __int128 sum = carry_;
    int64_t given_ns = 0;
    for (size_t op = 0; op < metered_.size(); ++op) {
      sum += metered_[op];
      const int64_t until_ns = static_cast<int64_t>(sum >> kMeterBits);
      rounded[op] = until_ns - given_ns;
      given_ns = until_ns;
    }
    return rounded;
  }

  const TraceModel& model_;
  int64_t now_ns_;
  std::vector<ThreadCursor> cursors_;
  std::priority_queue<Event, std::vector<Event>, std::greater<Event>> queue_;
  int active_ = 0;
  uint64_t meter_ = 0;
  uint64_t carry_ = 0;  // in meter units, less than active_ at the time
  std::vector<unsigned __int128> metered_;
  WallShares shares_;
};

void AddRange(OpTotals* totals, int64_t min_ns, int64_t max_ns) {
  totals->min_ns = totals->calls == 0 ? min_ns : std::min(totals->min_ns, min_ns);
  totals->max_ns = std::max(totals->max_ns, max_ns);
}

void AddCalls(const TraceModel& model, RunTotals* totals) {
  const CallColumns& calls = model.calls;
  const SameWork same_work(model);
  for (size_t i = 0; i < calls.size(); ++i) {
    OpTotals& op = totals->ops[calls.op[i]];
    const int64_t duration_ns = calls.duration_ns[i];
    AddRange(&op, duration_ns, duration_ns);
    ++op.calls;
    op.self_ns += calls.self_ns[i];
    if (calls.parent[i] == kNone) {
      totals->thread_time_ns += duration_ns;
      op.total_ns += duration_ns;
    } else if (same_work.Outermost(static_cast<CallIndex>(i)) == i) {
      op.total_ns += duration_ns;
    }
    if (same_work.IsNested(static_cast<CallIndex>(i))) ++op.nested_calls;
  }
}

// For nested calls, an aggregate does not say inside which call they ran. Their time is part of that call's, so only
// the time of the others counts: as total, self (of the outer call) and thread time.
void AddAggregates(const TraceModel& model, RunTotals* totals) {
  for (const AggregateRow& row : model.aggregates) {
    OpTotals& op = totals->ops[row.op];
    const int64_t outer_ns = row.sum_ns - row.nested_sum_ns;
    AddRange(&op, row.min_ns, row.max_ns);
    op.calls += row.count;
    op.nested_calls += row.nested_count;
    op.total_ns += outer_ns;
    op.self_ns += outer_ns;
    totals->thread_time_ns += outer_ns;
  }
}

// An aggregate that gets a part of the idle time.
struct Row {
  OpIndex op;
  ThreadIndex thread;
  int64_t start_ns;
  int64_t end_ns;
  double density;  // active time per idle nanosecond of the window
};

using Intervals = std::vector<std::pair<int64_t, int64_t>>;

// Sorted times between which the set of open windows does not change, and the idle time between consecutive times.
struct Grid {
  std::vector<int64_t> times;
  std::vector<int64_t> idle_ns;
  std::vector<int64_t> idle_before_ns;  // prefix sums

  size_t IndexOf(int64_t time) const { return absl::c_lower_bound(times, time) - times.begin(); }
  int64_t IdleBetween(int64_t start, int64_t end) const {
    return idle_before_ns[IndexOf(end)] - idle_before_ns[IndexOf(start)];
  }
};

// A window without length still represents time: it gets the nanosecond after it.
int64_t WindowEnd(const AggregateRow& row) { return std::max(row.window_end_ns, row.window_start_ns + 1); }

Grid MakeGrid(const TraceModel& model, const Intervals& idle) {
  Grid grid;
  for (const AggregateRow& row : model.aggregates) {
    grid.times.push_back(row.window_start_ns);
    grid.times.push_back(WindowEnd(row));
  }
  absl::c_sort(grid.times);
  grid.times.erase(std::unique(grid.times.begin(), grid.times.end()), grid.times.end());
  grid.idle_ns.assign(grid.times.size(), 0);
  size_t interval = 0;
  for (size_t i = 0; i + 1 < grid.times.size(); ++i) {
    while (interval < idle.size() && idle[interval].second <= grid.times[i]) ++interval;
    for (size_t j = interval; j < idle.size() && idle[j].first < grid.times[i + 1]; ++j) {
      grid.idle_ns[i] += std::min(idle[j].second, grid.times[i + 1]) - std::max(idle[j].first, grid.times[i]);
      interval = j;
    }
  }
  grid.idle_before_ns.assign(grid.times.size() + 1, 0);
  for (size_t i = 0; i < grid.times.size(); ++i) grid.idle_before_ns[i + 1] = grid.idle_before_ns[i] + grid.idle_ns[i];
  return grid;
}

std::vector<Row> MakeRows(const TraceModel& model, const Grid& grid) {
  std::vector<Row> rows;
  for (const AggregateRow& row : model.aggregates) {
    const int64_t end_ns = WindowEnd(row);
    const int64_t idle_ns = grid.IdleBetween(row.window_start_ns, end_ns);
    const int64_t sum_ns = row.sum_ns - row.nested_sum_ns;
    if (sum_ns <= 0 || idle_ns == 0) continue;
    rows.push_back(
        {row.op, row.thread, row.window_start_ns, end_ns, static_cast<double>(sum_ns) / static_cast<double>(idle_ns)});
  }
  absl::c_sort(rows, [](const Row& a, const Row& b) { return a.start_ns < b.start_ns; });
  return rows;
}

// The part of an instant that is covered by threads with these densities, and the sum of the densities.
std::pair<double, double> Cover(const std::map<ThreadIndex, std::pair<double, int>>& threads) {
  double free = 1;
  double sum = 0;
  for (const auto& [thread, density] : threads) {
    free *= 1 - std::clamp(density.first, 0.0, 1.0);
    sum += density.first;
  }
  return {1 - free, sum};
}

// Assigns a part of the idle time in their windows to aggregates, adding it to `op_ns`. Returns the total.
//
// An aggregate says how long calls were active in its window, not when. Exact calls keep their share; the total of a
// thread's aggregates is spread evenly over the idle rest of the window, and threads are assumed to be independent: if
// one is active for 1/2 and another for 1/2, 3/4 of an instant are covered, and divided in proportion. Only calls that
// were not nested count: the others are part of their time.
int64_t ShareIdleTime(const TraceModel& model, const Intervals& idle, std::vector<int64_t>* op_ns) {
  if (model.aggregates.empty()) return 0;
  const Grid grid = MakeGrid(model, idle);
  const std::vector<Row> rows = MakeRows(model, grid);
  // What a row of density 1 gets from the beginning up to each of the grid's times, and what all rows get together.
  std::vector<double> gain(grid.times.size() + 1, 0);
  double covered_ns = 0;
  std::map<ThreadIndex, std::pair<double, int>> threads;  // density and number of open windows
  std::multimap<int64_t, const Row*> ends;
  size_t next = 0;
  for (size_t i = 0; i < grid.times.size(); ++i) {
    for (; !ends.empty() && ends.begin()->first <= grid.times[i]; ends.erase(ends.begin())) {
      const Row& row = *ends.begin()->second;
      auto thread = threads.find(row.thread);
      thread->second.first -= row.density;
      if (--thread->second.second == 0) threads.erase(thread);
    }
    for (; next < rows.size() && rows[next].start_ns <= grid.times[i]; ++next) {
      auto& [density, windows] = threads[rows[next].thread];
      density += rows[next].density;
      ++windows;
      ends.emplace(rows[next].end_ns, &rows[next]);
    }
    const auto [cover, sum] = Cover(threads);
    const double given_ns = cover * static_cast<double>(grid.idle_ns[i]);
    gain[i + 1] = gain[i] + (sum > 0 ? given_ns / sum : 0);
    covered_ns += given_ns;
  }
  const int64_t idle_ns = grid.idle_before_ns.back();
  const int64_t all_ns = std::clamp<int64_t>(static_cast<int64_t>(covered_ns + 0.5), 0, idle_ns);
  double sum_ns = 0;
  int64_t assigned_ns = 0;
  for (const Row& row : rows) {
    sum_ns += row.density * (gain[grid.IndexOf(row.end_ns)] - gain[grid.IndexOf(row.start_ns)]);
    const bool is_last = &row == &rows.back();
    const int64_t until_ns =
        is_last ? all_ns : std::clamp<int64_t>(static_cast<int64_t>(sum_ns + 0.5), assigned_ns, all_ns);
    (*op_ns)[row.op] += until_ns - assigned_ns;
    assigned_ns = until_ns;
  }
  return assigned_ns;
}

}  // namespace

RunTotals ComputeTotals(const TraceModel& model) {
  RunTotals totals;
  totals.ops.resize(model.ops.size());
  AddCalls(model, &totals);
  AddAggregates(model, &totals);
  WallShares shares = Sweep(model).Run();
  totals.unattributed_ns = shares.idle_ns - ShareIdleTime(model, shares.idle, &shares.op_ns);
  for (size_t op = 0; op < model.ops.size(); ++op) totals.ops[op].wall_share_ns = shares.op_ns[op];
  totals.in_library_wall_ns = model.wall_ns() - totals.unattributed_ns;
  return totals;
}

}  // namespace dlhook::analyzer::model
