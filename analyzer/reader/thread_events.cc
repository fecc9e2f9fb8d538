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

}  // namespace

void SampleBuilder::Add(const trace::SampleBatch& batch, const OperandBuilder& addresses,
                        NativeStackBuilder* native_stacks, PythonBuilder* python, Oddities* oddities) {
  values::SampleBatchRows row(batch);
  if (row.count != row.longest) {
    return oddities->Count("a batch of samples whose arrays do not fit together (it was left out)");
  }
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
  values::WaitBatchRows row(batch);
  if (row.count != row.longest) {
    return oddities->Count("a batch of waits whose arrays do not fit together (it was left out)");
  }
  while (row.i < row.count) {
    row.Next();
    waits_.push_back({row.start, row.ticks, batch.thread_id(),
                      row.blocked_in < kBlockedIns ? static_cast<BlockedIn>(row.blocked_in) : BlockedIn::kOther,
                      FrameOf(row, addresses, native_stacks), python->FindStack(row.python_stack_iid)});
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
  values::MemoryBatchRows row(batch);
  if (row.count != row.longest) {
    return oddities->Count("a batch of allocations whose arrays do not fit together (it was left out)");
  }
  while (row.i < row.count) {
    row.Next();
    all_bytes_ += std::min(row.bytes, kMaxMemoryBytes);
    if (row.bytes > kMaxMemoryBytes || all_bytes_ > kMaxAllBytes || row.device > kMaxMemoryDevices) {
      oddities->Count("an allocation of more bytes than any memory has (it was left out)");
      continue;
    }
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

void MemoryBuilder::Finish(const ClockMap& clock, const std::map<uint32_t, ThreadIndex>& threads, TraceModel* model) {
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
