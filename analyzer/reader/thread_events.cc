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

// Of a column that may be empty.
template <typename Column>
int64_t MemoryNumberAt(const Column& column, int i) {
  return i < column.size()
             ? static_cast<int64_t>(std::min<uint64_t>(column.Get(i), kMaxMemoryBytes * kMaxMemoryDevices))
             : 0;
}

}  // namespace

void SampleBuilder::Add(const trace::SampleBatch& batch, const OperandBuilder& addresses,
                        NativeStackBuilder* native_stacks, PythonBuilder* python, Oddities* oddities) {
  const int count = batch.tick_delta_size();
  for (const int size : {batch.intervals_size(), batch.address_iid_size(), batch.stack_iid_size(), batch.cut_size(),
                         batch.python_stack_iid_size(), batch.depth_size(), batch.state_size()}) {
    if (size == count) continue;
    return oddities->Count("a batch of samples whose arrays do not fit together (it was left out)");
  }
  const uint64_t interval_ns = std::min(batch.interval_ns(), kMaxIntervalNs);
  std::vector<Sample>& samples = samples_[batch.thread_id()];
  uint64_t ticks = 0;
  for (int i = 0; i < count; ++i) {
    ticks += static_cast<uint64_t>(batch.tick_delta(i));
    Sample sample = {ticks,
                     interval_ns * std::min<uint64_t>(batch.intervals(i), 1 << 20),
                     kNone,
                     python->FindStack(batch.python_stack_iid(i)),
                     batch.depth(i) > 0,
                     FromProto<SampleState>(batch.state(i))};
    const uint64_t address = addresses.AddressOf(batch.address_iid(i));
    const auto cut = FromProto<StackCut>(static_cast<int>(std::min(batch.cut(i), 255u)));
    if (address != 0) sample.frame = native_stacks->Interrupted(address, batch.stack_iid(i), cut);
    samples.push_back(sample);
  }
}

std::pair<int64_t, int64_t> SampleBuilder::Finish(const ClockMap& clock, const std::map<uint32_t, ThreadIndex>& threads,
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
  const int count = batch.start_delta_size();
  for (const int size : {batch.ticks_size(), batch.blocked_in_size(), batch.address_iid_size(), batch.stack_iid_size(),
                         batch.cut_size(), batch.python_stack_iid_size()}) {
    if (size == count) continue;
    return oddities->Count("a batch of waits whose arrays do not fit together (it was left out)");
  }
  uint64_t ticks = 0;
  for (int i = 0; i < count; ++i) {
    ticks += static_cast<uint64_t>(batch.start_delta(i));
    Wait wait = {ticks,
                 batch.ticks(i),
                 batch.thread_id(),
                 batch.blocked_in(i) < kBlockedIns ? static_cast<BlockedIn>(batch.blocked_in(i)) : BlockedIn::kOther,
                 kNone,
                 python->FindStack(batch.python_stack_iid(i))};
    const uint64_t address = addresses.AddressOf(batch.address_iid(i));
    const auto cut = FromProto<StackCut>(static_cast<int>(std::min(batch.cut(i), 255u)));
    if (address != 0) wait.frame = native_stacks->Interrupted(address, batch.stack_iid(i), cut);
    waits_.push_back(wait);
  }
}

void WaitBuilder::Finish(const ClockMap& clock, const std::map<uint32_t, ThreadIndex>& threads, TimeBudget* budget,
                         TraceModel* model, Oddities* oddities) {
  for (const Wait& wait : waits_) {
    const auto thread = threads.find(wait.thread_id);
    const int64_t duration_ns = clock.DurationNs(wait.ticks);
    if (thread == threads.end() || !budget->Take(duration_ns)) {
      oddities->Count("a wait that can't be true, or of a thread that the trace does not name");
      continue;
    }
    model->waits.push_back(
        {clock.ToNs(wait.start_ticks), duration_ns, thread->second, wait.frame, wait.python_stack, wait.blocked_in});
  }
  waits_.clear();
}

void MemoryBuilder::Add(const trace::MemoryBatch& batch, Oddities* oddities) {
  const int count = batch.tick_delta_size();
  if (batch.address_delta_size() != count || batch.bytes_size() != count) {
    return oddities->Count("a batch of allocations whose arrays do not fit together (it was left out)");
  }
  uint64_t ticks = 0, address = 0;
  for (int i = 0; i < count; ++i) {
    ticks += static_cast<uint64_t>(batch.tick_delta(i));
    address += static_cast<uint64_t>(batch.address_delta(i));
    all_bytes_ += std::min(batch.bytes(i), kMaxMemoryBytes);
    if (batch.bytes(i) > kMaxMemoryBytes || all_bytes_ > kMaxAllBytes ||
        MemoryNumberAt(batch.device(), i) > kMaxMemoryDevices) {
      oddities->Count("an allocation of more bytes than any memory has (it was left out)");
      continue;
    }
    MemoryEvent event;
    event.time_ns = static_cast<int64_t>(ticks);
    event.address = address;
    event.bytes = static_cast<int64_t>(batch.bytes(i));
    event.device = static_cast<uint32_t>(MemoryNumberAt(batch.device(), i));
    event.thread = batch.thread_id();
    event.allocated_bytes = MemoryNumberAt(batch.allocated(), i);
    event.reserved_bytes = MemoryNumberAt(batch.reserved(), i);
    events_.push_back(event);
  }
}

void MemoryBuilder::Finish(const ClockMap& clock, const std::map<uint32_t, ThreadIndex>& threads, TraceModel* model) {
  CallFinder finder(*model);
  for (MemoryEvent& event : events_) {
    event.time_ns = clock.ToNs(static_cast<uint64_t>(event.time_ns));
    event.thread = threads.at(event.thread);
    event.scope = finder.ScopeAt(event.thread, event.time_ns);
  }
  absl::c_stable_sort(events_, [](const MemoryEvent& a, const MemoryEvent& b) { return a.time_ns < b.time_ns; });
  model->memory.insert(model->memory.end(), events_.begin(), events_.end());
  std::vector<MemoryEvent>().swap(events_);
}

}  // namespace dlhook::analyzer::reader
