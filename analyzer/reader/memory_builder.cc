#include "analyzer/reader/memory_builder.h"

#include <algorithm>

#include "analyzer/model/call_finder.h"

namespace dlhook::analyzer::inline reader {
namespace {

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
  std::stable_sort(events_.begin(), events_.end(),
                   [](const MemoryEvent& a, const MemoryEvent& b) { return a.time_ns < b.time_ns; });
  model->memory.insert(model->memory.end(), events_.begin(), events_.end());
  std::vector<MemoryEvent>().swap(events_);
}

}  // namespace dlhook::analyzer::reader
