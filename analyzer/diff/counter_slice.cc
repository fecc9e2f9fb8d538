// Readings of counters, cut to steps: see step_slice.h.
#include <algorithm>

#include "analyzer/diff/step_slice.h"

namespace dlhook::analyzer::inline diff {
namespace {

using Values = std::vector<uint64_t>;  // of the counters, then enabled and running time if recorded

Values ReadingAt(const CounterSeries& series, size_t reading) {
  const auto first = series.value.begin() + static_cast<int64_t>(reading * series.names.size());
  Values values(first, first + static_cast<int64_t>(series.names.size()));
  if (!series.running_ns.empty()) values.insert(values.end(), {series.enabled_ns[reading], series.running_ns[reading]});
  return values;
}

// At a time between the first and the last reading.
Values ValuesAt(const CounterSeries& series, int64_t time_ns) {
  const auto after = std::upper_bound(series.time_ns.begin(), series.time_ns.end(), time_ns);
  const auto from = static_cast<size_t>(after - series.time_ns.begin()) - 1;
  Values values = ReadingAt(series, from);
  const int64_t since_ns = time_ns - series.time_ns[from];
  if (since_ns == 0) return values;
  const Values next = ReadingAt(series, from + 1);
  for (size_t j = 0; j < values.size(); ++j) {
    const auto difference = static_cast<unsigned __int128>(next[j] - values[j]);
    values[j] += static_cast<uint64_t>(difference * static_cast<uint64_t>(since_ns) /
                                       static_cast<uint64_t>(series.time_ns[from + 1] - series.time_ns[from]));
  }
  return values;
}

class Slice {
 public:
  explicit Slice(const CounterSeries& series) : series_(series) {
    slice_.process = series.process;
    slice_.thread = series.thread;
    slice_.tid = series.tid;
    slice_.kind = series.kind;
    slice_.names = series.names;
    now_.resize(series.names.size() + (series.running_ns.empty() ? 0 : 2));
  }

  // Adds the part of the series from `start_ns` to `end_ns`, which must lie between its first and last reading.
  void Add(int64_t start_ns, int64_t end_ns) {
    Values before = ValuesAt(series_, start_ns);
    Append(start_ns);
    const auto take = [&](int64_t time_ns) {
      const Values values = ValuesAt(series_, time_ns);
      for (size_t j = 0; j < values.size(); ++j) now_[j] += values[j] - before[j];
      before = values;
      Append(time_ns);
    };
    for (auto time = std::upper_bound(series_.time_ns.begin(), series_.time_ns.end(), start_ns);
         time != series_.time_ns.end() && *time < end_ns; ++time) {
      take(*time);
    }
    take(end_ns);
  }

  CounterSeries Take() { return std::move(slice_); }

 private:
  void Append(int64_t time_ns) {
    const size_t width = series_.names.size();
    slice_.time_ns.push_back(time_ns);
    slice_.value.insert(slice_.value.end(), now_.begin(), now_.begin() + static_cast<int64_t>(width));
    if (series_.running_ns.empty()) return;
    slice_.enabled_ns.push_back(now_[width]);
    slice_.running_ns.push_back(now_[width + 1]);
  }

  const CounterSeries& series_;
  CounterSeries slice_;  // without a known source: its values count from the first interval
  Values now_;
};

}  // namespace

CounterSeries SliceOf(const CounterSeries& series, const std::vector<std::pair<int64_t, int64_t>>& intervals) {
  Slice slice(series);
  if (series.time_ns.empty()) return slice.Take();
  for (const auto& [start_ns, end_ns] : intervals) {
    const int64_t from_ns = std::max(start_ns, series.time_ns.front());
    const int64_t to_ns = std::min(end_ns, series.time_ns.back());
    if (from_ns < to_ns) slice.Add(from_ns, to_ns);
  }
  return slice.Take();
}

}  // namespace dlhook::analyzer::diff
