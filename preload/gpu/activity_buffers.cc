#include "preload/gpu/activity_buffers.h"

#include <initializer_list>
#include <iterator>

#include "preload/base/own_pages.h"

namespace dlhook::inline gpu {
namespace {

constexpr uint32_t kFewestRecords = 16;
constexpr uint32_t kRecordsOfWhole = 1024;  // buffers of more records count as whole
constexpr uint32_t kManyBuffers = 8;        // per second

// Under the lock.
uint32_t Pop(ActivityBuffers* pool, uint32_t* first) {
  uint32_t number = *first;
  if (number != 0) *first = pool->buffers[number - 1].next;
  return number;
}

// 0: `most` of this kind are in use.
uint32_t TakeFreeOrNew(ActivityBuffers* pool, BufferKind kind, uint64_t most) {
  auto index = static_cast<uint32_t>(kind);
  SpinLockHolder holder(&pool->lock);
  uint32_t number = Pop(pool, &pool->free_first[index]);
  if (number != 0 || pool->made_of_kind[index] >= most || pool->made == kMostActivityBuffers) return number;
  ++pool->made_of_kind[index];
  pool->buffers[pool->made].kind = kind;
  return ++pool->made;
}

void GiveBack(ActivityBuffers* pool, uint32_t number) {
  ActivityBuffer* buffer = &pool->buffers[number - 1];
  if (buffer->kind == BufferKind::kFewRecords) pool->with_few.fetch_sub(1, std::memory_order_relaxed);
  SpinLockHolder holder(&pool->lock);
  uint32_t* first = &pool->free_first[static_cast<uint32_t>(buffer->kind)];
  buffer->next = *first;
  *first = number;
}

// Its pages; null: none available.
uint8_t* Take(ActivityBuffers* pool, BufferKind kind, uint64_t most, size_t bytes) {
  uint32_t number = TakeFreeOrNew(pool, kind, most);
  if (number == 0) return nullptr;
  if (kind == BufferKind::kFewRecords) pool->with_few.fetch_add(1, std::memory_order_relaxed);
  ActivityBuffer* buffer = &pool->buffers[number - 1];
  if (buffer->data == nullptr) buffer->data = static_cast<uint8_t*>(MapOwnPages(bytes));
  if (buffer->data == nullptr) GiveBack(pool, number);
  return buffer->data;
}

// The number of the buffer at `data`, 0: none of the pool's. Needs no lock: a buffer that CUPTI has does not change.
uint32_t NumberOf(const ActivityBuffers* pool, const uint8_t* data) {
  for (uint32_t i = 0; data != nullptr && i < pool->made; ++i) {
    if (pool->buffers[i].data == data) return i + 1;
  }
  return 0;
}

// The number of records it may take: four times as many for each quarter of the buffers in use.
size_t FewRecords(const ActivityBuffers& pool) {
  uint32_t records = pool.records.load(std::memory_order_relaxed);
  uint32_t quarter = pool.with_few.load(std::memory_order_relaxed) * 4 / kFewRecordsBuffers;
  return std::min(size_t{std::max(records, kFewestRecords)} << (2 * quarter), size_t{kRecordsOfWhole});
}

}  // namespace

BufferGift TakeActivityBuffer(ActivityBuffers* pool, uint64_t total) {
  BufferGift gift = {nullptr, kFewRecordsBytes, FewRecords(*pool)};
  if (pool->records.load(std::memory_order_relaxed) < kRecordsOfWhole) {
    gift.data = Take(pool, BufferKind::kFewRecords, kFewRecordsBuffers, gift.bytes);
  }
  if (gift.data == nullptr) {
    gift = {nullptr, ActivityBufferBytes(total), 0};
    uint64_t most = std::min(total / gift.bytes, uint64_t{kMostActivityBuffers / 2});
    gift.data = Take(pool, BufferKind::kWhole, most, gift.bytes);
  }
  if (gift.data != nullptr) pool->at_cupti.fetch_add(1, std::memory_order_relaxed);
  return gift;
}

BufferGift TakeScratch(ActivityBuffers* pool) {
  return {Take(pool, BufferKind::kScratch, kMostActivityBuffers, kScratchBytes), kScratchBytes, 0};
}

void AdaptRecords(ActivityBuffers* pool) {
  uint32_t filled = pool->filled.exchange(0, std::memory_order_relaxed);
  uint32_t records = std::max(pool->records.load(std::memory_order_relaxed), kFewestRecords);
  if (filled > kManyBuffers && records < kRecordsOfWhole) records *= 4;
  if (filled == 0 && pool->at_cupti.load(std::memory_order_relaxed) != 0) records /= 4;
  pool->records.store(records, std::memory_order_relaxed);
}

bool TakeBackBuffer(ActivityBuffers* pool, uint8_t* data, size_t valid, CountRecords count_lost) {
  uint32_t number = NumberOf(pool, data);
  if (number == 0) return false;
  ActivityBuffer* buffer = &pool->buffers[number - 1];
  bool is_scratch = buffer->kind == BufferKind::kScratch;
  if (is_scratch) {
    count_lost(data, valid);
    memset(data, 0, valid);
  } else {
    pool->at_cupti.fetch_sub(1, std::memory_order_relaxed);
  }
  if (is_scratch || valid == 0) return GiveBack(pool, number), true;
  buffer->valid = valid;
  buffer->next = 0;
  pool->filled.fetch_add(1, std::memory_order_relaxed);
  SpinLockHolder holder(&pool->lock);
  (pool->full_first == 0 ? pool->full_first : pool->buffers[pool->full_last - 1].next) = number;
  pool->full_last = number;
  return true;
}

bool HasFullBuffer(ActivityBuffers* pool) {
  SpinLockHolder holder(&pool->lock);
  return pool->full_first != 0;
}

ActivityBuffer* NextFullBuffer(ActivityBuffers* pool) {
  SpinLockHolder holder(&pool->lock);
  uint32_t number = Pop(pool, &pool->full_first);
  return number == 0 ? nullptr : &pool->buffers[number - 1];
}

void ReturnActivityBuffer(ActivityBuffers* pool, ActivityBuffer* buffer) {
  memset(buffer->data, 0, buffer->valid);
  GiveBack(pool, static_cast<uint32_t>(buffer - pool->buffers) + 1);
}

namespace {

// Indexed by CUpti_ActivityMemcpyKind: arrays are device memory.
CopyDirection DirectionOf(uint8_t copy_kind) {
  using enum CopyDirection;
  static constexpr CopyDirection kDirections[] = {
      kUnknown,        kHostToDevice,   kDeviceToHost,   kHostToDevice, kDeviceToHost, kDeviceToDevice,
      kDeviceToDevice, kDeviceToDevice, kDeviceToDevice, kHostToHost,   kPeer};
  return copy_kind < std::size(kDirections) ? kDirections[copy_kind] : kUnknown;
}

enum MemoryKind : uint8_t { kPageable = 1, kPinned = 2, kManaged = 5, kManagedStatic = 7 };

// The memory other than the device's own.
HostMemory HostMemoryOf(uint8_t source, uint8_t destination) {
  for (uint8_t kind : {source, destination}) {
    if (kind == kPageable) return HostMemory::kPageable;
    if (kind == kPinned) return HostMemory::kPinned;
    if (kind == kManaged || kind == kManagedStatic) return HostMemory::kManaged;
  }
  return HostMemory::kNone;
}

// Fields that all kinds have, under the same names.
template <typename Record>
void ReadPlace(const Record& record, GpuActivityRecord* activity) {
  activity->start_ns = record.start;
  activity->end_ns = record.end;
  activity->device = record.device;
  activity->stream = record.stream;
  activity->correlation = record.correlation;
}

template <typename Record>
void ReadGraph(const Record& record, uint32_t version, GpuActivityRecord* activity) {
  if (version < cupti::kVersionGraphIds) return;
  activity->graph_node = record.graph_node;
  activity->graph = record.graph;
}

void ReadKernel(const cupti::KernelRecord& record, uint32_t version, GpuActivityRecord* activity) {
  activity->kind = GpuActivityKind::kKernel;
  ReadPlace(record, activity);
  ReadGraph(record, version, activity);
  memcpy(activity->grid, record.grid, sizeof activity->grid);
  memcpy(activity->block, record.block, sizeof activity->block);
  activity->static_shared_bytes = record.static_shared_bytes;
  activity->dynamic_shared_bytes = record.dynamic_shared_bytes;
  activity->registers_per_thread = record.registers_per_thread;
}

template <typename Record>
void ReadCopy(const Record& record, uint32_t version, GpuActivityRecord* activity) {
  activity->kind = GpuActivityKind::kCopy;
  ReadPlace(record, activity);
  ReadGraph(record, version, activity);
  activity->bytes = record.bytes;
  activity->direction = DirectionOf(record.copy_kind);
  activity->host_memory = HostMemoryOf(record.source_memory, record.destination_memory);
}

void ReadSet(const cupti::MemsetRecord& record, uint32_t version, GpuActivityRecord* activity) {
  activity->kind = GpuActivityKind::kSet;
  ReadPlace(record, activity);
  ReadGraph(record, version, activity);
  activity->bytes = record.bytes;
  activity->direction = CopyDirection::kSet;
  activity->host_memory = HostMemoryOf(static_cast<uint8_t>(record.memory), 0);
}

}  // namespace

ActivityUse ReadActivity(const void* record, uint32_t version, int64_t clock_offset_ns, GpuActivityRecord* activity,
                         const char** kernel_name) {
  *activity = {};
  activity->header = {sizeof *activity / 8, RecordType::kGpuActivity, 0, 0, 0, 0};
  activity->source = GpuTimeSource::kCupti;
  *kernel_name = nullptr;
  uint32_t kind = *static_cast<const uint32_t*>(record);
  switch (kind) {
    case cupti::kKernel:
    case cupti::kConcurrentKernel: {
      auto kernel = static_cast<const cupti::KernelRecord*>(record);
      *kernel_name = kernel->name;
      ReadKernel(*kernel, version, activity);
      break;
    }
    case cupti::kMemcpy:
      ReadCopy(*static_cast<const cupti::MemcpyRecord*>(record), version, activity);
      break;
    case cupti::kMemcpyPeer:
      ReadCopy(*static_cast<const cupti::MemcpyPeerRecord*>(record), version, activity);
      activity->direction = CopyDirection::kPeer;
      break;
    case cupti::kMemset:
      ReadSet(*static_cast<const cupti::MemsetRecord*>(record), version, activity);
      break;
    case cupti::kGraphTrace: {
      auto launch = static_cast<const cupti::GraphTraceRecord*>(record);
      activity->kind = GpuActivityKind::kGraph;
      activity->graph = launch->graph;
      ReadPlace(*launch, activity);
      break;
    }
    case cupti::kDevice:
      return ActivityUse::kDevice;
    case cupti::kExternalCorrelation:
      return ActivityUse::kLink;
    case cupti::kDriver:
    case cupti::kRuntime:
      return ActivityUse::kNotNeeded;
    default:
      return ActivityUse::kUnknown;
  }
  // Only one of the times: the buffer was forced out of CUPTI before the work was complete.
  if (activity->start_ns == 0 || activity->end_ns == 0) return ActivityUse::kWithoutTimes;
  activity->start_ns += static_cast<uint64_t>(clock_offset_ns);
  activity->end_ns += static_cast<uint64_t>(clock_offset_ns);
  return ActivityUse::kActivity;
}

void ReadDevice(const cupti::DeviceRecord& record, uint32_t version, GpuDeviceRecord* device) {
  device->ordinal = record.id;
  device->memory_bytes_per_second = record.memory_bandwidth_kb_per_s * 1000;
  device->memory_bytes = record.memory_bytes;
  memcpy(device->uuid, record.uuid, sizeof device->uuid);
  device->multiprocessors = record.multiprocessors;
  device->clock_khz = record.clock_khz;
  device->compute_capability = record.compute_major * 10 + record.compute_minor;
  if (version >= cupti::kVersionGraphIds && record.is_partitioned != 0) device->is_partition = 1;
}

}  // namespace dlhook::inline gpu
