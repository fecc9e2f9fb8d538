// GPU activities and their links in the drain.
// Thread: the drain's. Trusts nothing in the mapping: a record is copied before it is read.
#include "preload/drain/describe.h"
#include "preload/drain/drain.h"
#include "preload/format/definitions.h"
#include "preload/format/gpu_records.h"

namespace dlhook::inline drain {
namespace {

// Distinguishes kernels; without padding.
struct KernelKey {
  uint32_t name;  // definition
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t registers_per_thread;
  uint32_t static_shared_bytes;
  uint32_t dynamic_shared_bytes;
};
static_assert(sizeof(KernelKey) == 40);

constexpr char kAtLimit[] = "the trace has reached its limit";

template <typename Enum>
Enum AtMost(Enum value, Enum last) {
  return value <= last ? value : Enum{};
}

}  // namespace

uint32_t Drain::GpuKernelOf(const GpuActivityRecord& activity) {
  KernelKey key = {activity.kernel,
                   {},
                   {},
                   activity.registers_per_thread,
                   activity.static_shared_bytes,
                   activity.dynamic_shared_bytes};
  memcpy(key.grid, activity.grid, sizeof key.grid);
  memcpy(key.block, activity.block, sizeof key.block);
  const auto [iid, is_new] = interner_.gpu_kernels.Find(&key, sizeof key);
  if (!is_new) return iid;
  DefinedBytes name = FindDefinition(session_, mapping_bytes_, key.name, DefinitionKind::kKernel);
  PacketWriter writer(&pending_);
  MessageScope message(&writer, fields::Interned::kGpuKernel);
  writer.UInt(fields::InternedGpuKernel::kIid, iid);
  writer.UInt(fields::InternedGpuKernel::kNameIid, name.data == nullptr ? 0 : NameOf(name.data, name.bytes));
  fields::InternedGpuKernel::Write(key, &writer);
  return iid;
}

void Drain::Take(uint32_t, const GpuActivityRecord* record) {
  GpuActivityRecord activity;
  memcpy(&activity, record, sizeof activity);
  if (LeavesOutGpu(activity.start_ns)) return;
  state_.detail.has_gpu = 1;
  activity.kind = AtMost(activity.kind, GpuActivityKind::kGraph);
  activity.source = AtMost(activity.source, GpuTimeSource::kEvents);
  activity.direction = AtMost(activity.direction, CopyDirection::kSet);
  activity.host_memory = AtMost(activity.host_memory, HostMemory::kManaged);
  const auto source = static_cast<uint64_t>(activity.source);
  if (!gpu_activities_.Takes(source)) FlushBatch();
  const struct {
    uint64_t duration_ns;
    uint32_t kernel_iid;
  } more = {activity.end_ns > activity.start_ns ? activity.end_ns - activity.start_ns : 0,
            activity.kind == GpuActivityKind::kKernel ? GpuKernelOf(activity) : 0};
  if (!gpu_activities_.Add(source, more, activity)) LoseForMemory();
}

// Ring `slot` has links for calls of its own thread, or names another one.
void Drain::Take(uint32_t slot, const GpuLinkRecord* record) {
  GpuLinkRecord link;
  memcpy(&link, record, sizeof link);
  uint32_t thread_id = link.thread_id != 0 ? link.thread_id : state_.thread_ids[slot];
  if (thread_id == 0 || LeavesOutGpu(0)) return;  // no thread, or beyond the limit
  auto links = BatchFor(uint64_t{thread_id}, gpu_links_);
  if (links == nullptr) {
    for (auto& batch : gpu_links_) batch.Flush(&out_);
    links = gpu_links_;
  }
  if (!links->Add(thread_id, link)) LoseForMemory();
}

void Drain::Take(uint32_t slot, const GpuGraphNodeRecord* record) {
  GpuGraphNodeRecord node;
  memcpy(&node, record, sizeof node);
  const uint32_t thread_id = state_.thread_ids[slot];
  if (thread_id == 0 || LeavesOutGpu(0)) return;
  if (!gpu_nodes_.Takes(thread_id)) gpu_nodes_.Flush(&out_);
  if (!gpu_nodes_.Add(thread_id, node)) LoseForMemory();
}

// Of the beginning that is kept in detail: what is freed after a gap is not known.
void Drain::Take(uint32_t slot, const MemoryRecord* record) {
  MemoryRecord memory = {};
  memcpy(&memory, record, record->header.hook == 0 ? offsetof(MemoryRecord, allocated) : sizeof memory);
  const uint32_t thread_id = state_.thread_ids[slot];
  if (thread_id == 0 || state_.detail.windows != 0 || !KeepsDetail(memory.ticks)) return;
  if (!memory_.Takes(thread_id)) memory_.Flush(&out_);
  const struct { uint32_t device; } more = {memory.header.hook};
  if (!memory_.Add(thread_id, memory, more)) LoseForMemory();
}

void Drain::Take(uint32_t, const GpuDeviceRecord* record) {
  GpuDeviceRecord device;
  memcpy(&device, record, sizeof device);
  if (sizeof device + uint64_t{device.name_bytes} > uint64_t{device.header.words} * 8) return;
  PacketScope packet(&out_, fields::Packet::kGpuDevice);
  fields::GpuDevice::Write(device, &packet.writer);
  packet.writer.Text(fields::GpuDevice::kName, reinterpret_cast<const char*>(record + 1), device.name_bytes);
}

void Drain::Take(uint32_t, const GpuWindowRecord* record) {
  GpuWindowRecord window;
  memcpy(&window, record, sizeof window);
  if (sizeof window + uint64_t{window.text_bytes} > uint64_t{window.header.words} * 8) return;
  const bool is_kept = KeepsDetail(window.ticks);
  const TextSpan text(reinterpret_cast<const char*>(record + 1), window.text_bytes);
  fields::GpuWindow::WritePacket(
      {window.ticks, is_kept ? AtMost(window.source, GpuTimeSource::kEvents) : GpuTimeSource::kNone,
       is_kept ? text : TextSpan(kAtLimit)},
      &out_);
}

// True if GPU activities are counted but dropped, because no details are kept. Records since when, so that this time is
// not taken for idle time. `start_ns`: of work, which is reported late; 0: none.
bool Drain::LeavesOutGpu(uint64_t start_ns) {
  const uint64_t end_ticks = KeepsDetail(state_.last_record_ticks) ? 0 : state_.detail.end_ticks;
  const ClockSample& known = session_->clock_samples[1];
  const double ended_ns = (static_cast<double>(end_ticks) - static_cast<double>(known.ticks)) * 1e9 /
                          static_cast<double>(TicksPerSecond(*session_));
  const bool is_earlier = start_ns != 0 && static_cast<double>(start_ns - known.realtime_ns) < ended_ns;
  if (end_ticks == 0 || is_earlier) return false;
  if (!leaves_out_gpu_) {
    fields::GpuWindow::WritePacket(
        {end_ticks > 1 ? end_ticks : state_.last_record_ticks, GpuTimeSource::kNone, kAtLimit}, &out_);
  }
  leaves_out_gpu_ = true;
  ++state_.left_out_gpu;
  return true;
}

void Drain::LoseForMemory() {
  ++state_.lost_bytes;
  state_.lost_errno = ENOMEM;
}

// Counter readings in the drain.
// Thread: the drain's. Trusts nothing in the mapping.

// `names`: separated by commas.
void Drain::NameCounters(const char* names, size_t size, CounterBatchKey* key) {
  const char* const end = names + size;
  for (key->count = 0; key->count < kMaxCountersOfSet && names < end;) {
    auto stop = static_cast<const char*>(memchr(names, ',', static_cast<size_t>(end - names)));
    if (stop == nullptr) stop = end;
    key->name_iids[key->count++] = NameOf(names, static_cast<uint32_t>(stop - names));
    names = stop + 1;
  }
}

void Drain::Take(uint32_t slot, const CounterRecord* record) {
  DefinedBytes names = FindDefinition(session_, mapping_bytes_, record->set, DefinitionKind::kText);
  uint32_t count = record->header.shape_words;
  if (names.data == nullptr || count > kMaxCountersOfSet) return;
  bool is_process = record->is_process != 0;
  if (!is_process && state_.thread_ids[slot] == 0) return;  // belongs to no thread
  if (record->ticks > state_.last_record_ticks) state_.last_record_ticks = record->ticks;
  CounterBatchKey key = {0, 0, ReadingKind::kBoundary, record->source, 0, {}};
  if (!is_process) key.thread_id = state_.thread_ids[slot];
  if (!is_process) key.tid = tids_[slot];
  NameCounters(names.data, names.bytes, &key);
  if (key.count != count) return;  // changed since its header was read
  CounterReading reading = {record->ticks, record->enabled_ns, record->running_ns, {}};
  memcpy(reading.values, record + 1, count * sizeof reading.values[0]);
  AddReading(key, reading);
}

void Drain::AddReading(const CounterBatchKey& key, const CounterReading& reading) {
  if (key.kind == ReadingKind::kBoundary && key.thread_id != 0 && !KeepsDetail(reading.ticks)) {
    ++state_.left_out_readings;
    return;
  }
  CounterBatch* batch = BatchFor(key, counters_);
  if (batch == nullptr) {
    FlushBatch();
    batch = counters_;
  }
  if (batch->rows() == 0) batch->SetKey(key);
  if (!batch->Add(reading)) LoseForMemory();
}

void Drain::AddSamples(uint32_t thread_id, uint32_t tid, ReadingKind kind, CounterSource source, const char* names,
                       const CounterReading* readings, uint32_t count) {
  CounterBatchKey key = {thread_id, tid, kind, source, 0, {}};
  NameCounters(names, strlen(names), &key);
  for (uint32_t i = 0; i < count; ++i) AddReading(key, readings[i]);
}

void Drain::AddThread(uint32_t thread_id, uint32_t tid, const char (&name)[16]) {
  fields::ThreadInfo::WritePacket(
      {.thread_id = thread_id, .tid = tid, .name = {name, strnlen(name, sizeof name)}, .handle = 0}, &out_);
}

void Drain::AddCapability(const char* name, fields::Capability::State state, const char* reason) {
  fields::Capability::WritePacket(
      {.name = name, .state = state, .object = {}, .reason = reason, .ticks = NowTicks(*session_)}, &out_);
}

}  // namespace dlhook::inline drain
