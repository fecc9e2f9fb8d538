// The part of the wall time that aggregates represent (see wall_sweep.h).
#include <algorithm>
#include <map>

#include "analyzer/model/wall_sweep.h"

namespace dlhook::analyzer::inline model {
namespace {

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

  size_t IndexOf(int64_t time) const { return std::lower_bound(times.begin(), times.end(), time) - times.begin(); }
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
  std::sort(grid.times.begin(), grid.times.end());
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
  for (size_t i = 0; i < grid.times.size(); ++i) {
    grid.idle_before_ns[i + 1] = grid.idle_before_ns[i] + grid.idle_ns[i];
  }
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
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.start_ns < b.start_ns; });
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

}  // namespace

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

}  // namespace dlhook::analyzer::model
