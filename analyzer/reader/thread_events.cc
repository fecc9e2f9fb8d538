#include "analyzer/reader/thread_events.h"

#include "analyzer/model/call_finder.h"

namespace dlhook::analyzer::inline reader {
namespace {

constexpr uint64_t kMaxIntervalNs = uint64_t{1} << 40;

// The innermost call of the thread at this time, or kNone: `range` is the thread's.
CallIndex CallAt(const CallColumns& calls, std::pair<CallIndex, CallIndex> range, int64_t ns) {
  const auto begin = calls.start_ns.begin();
  const auto after = std::upper_bound(begin + range.first, begin + range.second, ns);
  CallIndex call = after == begin + range.first ? kNone : static_cast<CallIndex>(after - begin - 1);
  while (call != kNone && calls.EndOf(call) <= ns) call = calls.parent[call];
  return call;
}

constexpr uint64_t kMaxMemoryBytes = uint64_t{1} << 40;  // of one allocation: far more than any real trace has
constexpr uint64_t kMaxAllBytes = uint64_t{1} << 62;     // of all: sums are exact
constexpr int64_t kMaxMemoryDevices = 1 << 10;

int64_t MemoryNumber(uint64_t number) {
  return static_cast<int64_t>(std::min<uint64_t>(number, kMaxMemoryBytes * kMaxMemoryDevices));
}

// Where a row's thread was.
template <typename Row>
FrameIndex FrameOf(const Row& row, const OperandBuilder& addresses, NativeStackBuilder* native_stacks) {
  const uint64_t address = addresses.AddressOf(row.address_iid);
  if (address == 0) return kNone;
  return native_stacks->Interrupted(address, row.stack_iid,
                                    FromProto<StackCut>(static_cast<int>(std::min(row.cut, 255u))));
}

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
std::map<uint32_t, ThreadIndex> ThreadsByTid(const ThreadIndices& threads, const TraceModel& model) {
  std::map<uint32_t, ThreadIndex> by_tid;
  for (const auto& [id, index] : threads) {
    const auto [at, is_new] = by_tid.emplace(model.threads[index].tid, index);
    if (!is_new) at->second = kNone;
  }
  by_tid.erase(0);
  return by_tid;
}

}  // namespace

void SampleBuilder::Add(const trace::SampleBatch& batch, const OperandBuilder& addresses,
                        NativeStackBuilder* native_stacks, PythonBuilder* python, Oddities* oddities) {
  values::SampleBatchRows row(batch);
  if (!FitsTogether(row, "samples", oddities)) return;
  const uint64_t interval_ns = std::min(batch.interval_ns(), kMaxIntervalNs);
  std::vector<Sample>& samples = samples_[batch.thread_id()];
  while (row.i < row.count) {
    row.Next();
    Sample sample = {row.ticks,
                     interval_ns * std::min<uint64_t>(row.intervals, 1 << 20),
                     FrameOf(row, addresses, native_stacks),
                     python->FindStack(row.python_stack_iid),
                     row.depth > 0,
                     row.state};
    samples.push_back(sample);
  }
}

std::pair<int64_t, int64_t> SampleBuilder::Finish(const ClockMap& clock, const ThreadIndices& threads,
                                                  TimeBudget* budget, TraceModel* model, Oddities* oddities) {
  CallFinder finder(*model);
  SampleColumns& columns = model->samples;
  std::pair<int64_t, int64_t> bounds = {INT64_MAX, INT64_MIN};
  for (auto& [thread_id, samples] : samples_) {
    absl::c_stable_sort(samples, [](const Sample& a, const Sample& b) { return a.ticks < b.ticks; });
    const ThreadIndex thread = threads.at(thread_id);
    const std::pair<CallIndex, CallIndex> calls = model->calls.RangeOf(thread);
    for (const Sample& sample : samples) {
      if (!budget->Take(static_cast<int64_t>(sample.cpu_ns))) {
        oddities->Count("a sample of CPU time that can't be true");
        continue;
      }
      const int64_t ns = clock.ToNs(sample.ticks);
      const CallIndex call = CallAt(model->calls, calls, ns);
      bounds = {std::min(bounds.first, ns), std::max(bounds.second, ns)};
      columns.time_ns.push_back(ns);
      columns.cpu_ns.push_back(static_cast<int64_t>(sample.cpu_ns));
      columns.thread.push_back(thread);
      columns.frame.push_back(sample.frame);
      columns.python_stack.push_back(sample.python_stack);
      columns.scope.push_back(finder.ScopeAt(thread, ns));
      columns.call.push_back(call);
      columns.is_in_call.push_back(call != kNone || sample.is_in_call ? 1 : 0);
      columns.state.push_back(sample.state);
    }
  }
  samples_.clear();
  return bounds;
}

void WaitBuilder::Add(const trace::WaitBatch& batch, const OperandBuilder& addresses, NativeStackBuilder* native_stacks,
                      PythonBuilder* python, Oddities* oddities) {
  values::WaitBatchRows row(batch);
  if (!FitsTogether(row, "waits", oddities)) return;
  while (row.i < row.count) {
    row.Next();
    waits_.push_back({static_cast<int64_t>(row.start), static_cast<int64_t>(row.ticks), batch.thread_id(),
                      FrameOf(row, addresses, native_stacks), python->FindStack(row.python_stack_iid),
                      row.blocked_in < kBlockedIns ? static_cast<BlockedIn>(row.blocked_in) : BlockedIn::kOther});
  }
}

void WaitBuilder::Finish(const ClockMap& clock, const ThreadIndices& threads, TimeBudget* budget, TraceModel* model,
                         Oddities* oddities) {
  for (Wait& wait : waits_) {
    const auto thread = threads.find(wait.thread);
    wait.duration_ns = clock.DurationNs(static_cast<uint64_t>(wait.duration_ns));
    if (thread == threads.end() || !budget->Take(wait.duration_ns)) {
      oddities->Count("a wait that can't be true, or of a thread that the trace does not name");
      continue;
    }
    wait.start_ns = clock.ToNs(static_cast<uint64_t>(wait.start_ns));
    wait.thread = thread->second;
    model->waits.push_back(wait);
  }
  waits_.clear();
}

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
std::map<CounterBuilder::Key, CounterBuilder::Readings> CounterBuilder::Join(const ThreadIndices& threads,
                                                                             const TraceModel& model) {
  const std::map<uint32_t, ThreadIndex> by_tid = ThreadsByTid(threads, model);
  std::map<Key, Readings> joined;
  for (const auto& [key, readings] : readings_) {
    Key to = key;
    const auto thread = key.thread == 0 ? threads.end() : threads.find(key.thread);
    const auto same_tid = by_tid.find(key.tid);
    to.thread = thread != threads.end() ? thread->second : same_tid != by_tid.end() ? same_tid->second : kNone;
    if (to.thread != kNone) to.tid = model.threads[to.thread].tid;
    Readings& all = joined[to];
    for (auto column : {&Readings::ticks, &Readings::value, &Readings::enabled_ns, &Readings::running_ns}) {
      (all.*column).insert((all.*column).end(), (readings.*column).begin(), (readings.*column).end());
    }
  }
  readings_.clear();
  return joined;
}

void CounterBuilder::Finish(const ClockMap& clock, ProcessIndex process, const ThreadIndices& threads,
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

void MemoryBuilder::Add(const trace::MemoryBatch& batch, Oddities* oddities) {
  values::MemoryBatchRows row(batch);
  if (!FitsTogether(row, "allocations", oddities)) return;
  while (row.i < row.count) {
    row.Next();
    const bool is_possible = row.bytes <= kMaxMemoryBytes && row.bytes <= kMaxAllBytes - all_bytes_;
    if (!is_possible || row.device > kMaxMemoryDevices) {
      oddities->Count("an allocation of more bytes than any memory has (it was left out)");
      continue;
    }
    all_bytes_ += row.bytes;
    MemoryEvent event;
    event.time_ns = static_cast<int64_t>(row.ticks);
    event.address = row.address;
    event.bytes = static_cast<int64_t>(row.bytes);
    event.device = row.device;
    event.thread = batch.thread_id();
    event.allocated_bytes = MemoryNumber(row.allocated);
    event.reserved_bytes = MemoryNumber(row.reserved);
    events_.push_back(event);
  }
}

void MemoryBuilder::Finish(const ClockMap& clock, const ThreadIndices& threads, TraceModel* model) {
  CallFinder finder(*model);
  for (MemoryEvent& event : events_) {
    event.time_ns = clock.ToNs(static_cast<uint64_t>(event.time_ns));
    event.thread = threads.at(event.thread);
    event.scope = finder.ScopeAt(event.thread, event.time_ns);
  }
  // Of one thread they are in order.
  const auto is_before = [](const MemoryEvent& a, const MemoryEvent& b) { return a.time_ns < b.time_ns; };
  if (!absl::c_is_sorted(events_, is_before)) absl::c_stable_sort(events_, is_before);
  if (model->memory.empty()) {
    model->memory.swap(events_);
  } else {
    model->memory.insert(model->memory.end(), events_.begin(), events_.end());
    std::vector<MemoryEvent>().swap(events_);
  }
}

}  // namespace dlhook::analyzer::reader
