#include "analyzer/reader/counter_builder.h"

#include <numeric>

namespace dlhook::analyzer::inline reader {
namespace {

constexpr int kMaxCounters = 64;                        // per reading; far more than any real trace has
constexpr uint64_t kMaxDifference = uint64_t{1} << 56;  // between two readings: years of cycles

// Adds up zigzag deltas, `width` per reading.
void AddUp(const google::protobuf::RepeatedField<int64_t>& deltas, size_t readings, size_t width,
           std::vector<uint64_t>* out) {
  std::vector<uint64_t> now(width, 0);
  for (size_t i = 0; i < readings * width; ++i) {
    now[i % width] += static_cast<uint64_t>(deltas.Get(static_cast<int>(i)));
    out->push_back(now[i % width]);
  }
}

void Append(const std::vector<uint64_t>& from, std::vector<uint64_t>* column) {
  column->insert(column->end(), from.begin(), from.end());
}

std::vector<size_t> OrderOf(const std::vector<uint64_t>& ticks) {
  std::vector<size_t> order(ticks.size());
  absl::c_iota(order, 0);
  absl::c_stable_sort(order, [&](size_t a, size_t b) { return ticks[a] < ticks[b]; });
  return order;
}

std::vector<uint64_t> InOrder(const std::vector<size_t>& order, size_t width, const std::vector<uint64_t>& column) {
  std::vector<uint64_t> sorted;
  sorted.reserve(column.size());
  for (size_t reading : order) {
    for (size_t j = 0; j < width; ++j) sorted.push_back(column[reading * width + j]);
  }
  return sorted;
}

// Makes every difference in a column plausible: one backwards, or too large, counts as zero. Values keep their origin.
int64_t Straighten(size_t width, TimeBudget* budget, std::vector<uint64_t>* column) {
  int64_t impossible = 0;
  for (size_t j = 0; j < width && j < column->size(); ++j) {
    uint64_t before = (*column)[j], now = before;
    for (size_t i = width + j; i < column->size(); i += width) {
      const uint64_t difference = (*column)[i] - before;
      before = (*column)[i];
      if (difference <= kMaxDifference && budget->Take(static_cast<int64_t>(difference))) {
        now += difference;
      } else {
        ++impossible;
      }
      (*column)[i] = now;
    }
  }
  return impossible;
}

// Maps each tid that belonged to exactly one thread to that thread.
std::map<uint32_t, ThreadIndex> ThreadsByTid(const std::map<uint32_t, ThreadIndex>& threads, const TraceModel& model) {
  std::map<uint32_t, ThreadIndex> by_tid;
  for (const auto& [id, index] : threads) {
    const auto [at, is_new] = by_tid.emplace(model.threads[index].tid, index);
    if (!is_new) at->second = kNone;
  }
  by_tid.erase(0);
  return by_tid;
}

}  // namespace

void CounterBuilder::Add(const trace::CounterBatch& batch, PythonBuilder* names, Oddities* oddities) {
  const auto width = static_cast<size_t>(batch.name_iid_size());
  const auto readings = static_cast<size_t>(batch.tick_delta_size());
  const auto is_whole = [&](int size) { return size == 0 || static_cast<size_t>(size) == readings; };
  if (width == 0 || width > kMaxCounters || static_cast<size_t>(batch.value_delta_size()) != readings * width ||
      !is_whole(batch.enabled_delta_ns_size()) || batch.enabled_delta_ns_size() != batch.running_delta_ns_size()) {
    oddities->Count("a batch of counter readings whose arrays do not fit together (it was left out)");
    return;
  }
  const bool is_multiplexed = batch.enabled_delta_ns_size() != 0;
  Key key = {batch.thread_id(), batch.tid(), batch.kind(), batch.source(), is_multiplexed, {}};
  for (uint32_t iid : batch.name_iid()) key.names.push_back(names->FindName(iid));
  Readings& to = readings_[std::move(key)];
  AddUp(batch.tick_delta(), readings, 1, &to.ticks);
  AddUp(batch.value_delta(), readings, width, &to.value);
  if (!is_multiplexed) return;
  AddUp(batch.enabled_delta_ns(), readings, 1, &to.enabled_ns);
  AddUp(batch.running_delta_ns(), readings, 1, &to.running_ns);
}

// By thread; those without one have kNone and come last.
std::map<CounterBuilder::Key, CounterBuilder::Readings> CounterBuilder::Join(
    const std::map<uint32_t, ThreadIndex>& threads, const TraceModel& model) {
  const std::map<uint32_t, ThreadIndex> by_tid = ThreadsByTid(threads, model);
  std::map<Key, Readings> joined;
  for (const auto& [key, readings] : readings_) {
    Key to = key;
    const auto thread = key.thread == 0 ? threads.end() : threads.find(key.thread);
    const auto same_tid = by_tid.find(key.tid);
    to.thread = thread != threads.end() ? thread->second : same_tid != by_tid.end() ? same_tid->second : kNone;
    if (to.thread != kNone) to.tid = model.threads[to.thread].tid;
    Readings& all = joined[to];
    Append(readings.ticks, &all.ticks);
    Append(readings.value, &all.value);
    Append(readings.enabled_ns, &all.enabled_ns);
    Append(readings.running_ns, &all.running_ns);
  }
  readings_.clear();
  return joined;
}

void CounterBuilder::Finish(const ClockMap& clock, ProcessIndex process, const std::map<uint32_t, ThreadIndex>& threads,
                            TimeBudget* budget, TraceModel* model, Oddities* oddities) {
  int64_t impossible = 0;
  for (auto& [key, readings] : Join(threads, *model)) {
    const size_t width = key.names.size();
    const std::vector<size_t> order = OrderOf(readings.ticks);
    CounterSeries series;
    series.process = process;
    series.thread = key.thread;
    series.tid = key.tid;
    if (const auto name = thread_names_.find(key.tid); name != thread_names_.end()) series.thread_name = name->second;
    series.kind = FromProto<CounterKind>(key.kind);
    series.source = FromProto<CounterSource>(key.source);
    series.names = key.names;
    series.value = InOrder(order, width, readings.value);
    series.time_ns.reserve(order.size());
    for (size_t reading : order) series.time_ns.push_back(clock.ToNs(readings.ticks[reading]));
    impossible += Straighten(width, budget, &series.value);
    if (key.is_multiplexed) {
      series.enabled_ns = InOrder(order, 1, readings.enabled_ns);
      series.running_ns = InOrder(order, 1, readings.running_ns);
      impossible += Straighten(1, budget, &series.enabled_ns) + Straighten(1, budget, &series.running_ns);
    }
    (series.kind == CounterKind::kStates ? model->states : model->counters).push_back(std::move(series));
  }
  oddities->Count("a counter that ran backwards, or jumped too far (counted anew from there)", impossible);
}

}  // namespace dlhook::analyzer::reader
