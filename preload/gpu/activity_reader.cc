#include "preload/gpu/activity_reader.h"

#include <initializer_list>

namespace dlhook::inline gpu {
namespace {

// Indexed by CUpti_ActivityMemcpyKind: arrays are device memory.
CopyDirection DirectionOf(uint8_t copy_kind) {
  static constexpr CopyDirection kDirections[] = {CopyDirection::kUnknown,
                                                  CopyDirection::kHostToDevice,
                                                  CopyDirection::kDeviceToHost,
                                                  CopyDirection::kHostToDevice,
                                                  CopyDirection::kDeviceToHost,
                                                  CopyDirection::kDeviceToDevice,
                                                  CopyDirection::kDeviceToDevice,
                                                  CopyDirection::kDeviceToDevice,
                                                  CopyDirection::kDeviceToDevice,
                                                  CopyDirection::kHostToHost,
                                                  CopyDirection::kPeer};
  return copy_kind < sizeof kDirections / sizeof kDirections[0] ? kDirections[copy_kind] : CopyDirection::kUnknown;
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
  activity->context = record.context;
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
  activity->queued_ns = record.queued;
  activity->submitted_ns = record.submitted;
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

void Shift(uint64_t* time_ns, int64_t offset_ns) {
  if (*time_ns != 0) *time_ns += static_cast<uint64_t>(offset_ns);
}

ActivityUse Finish(int64_t clock_offset_ns, GpuActivityRecord* activity) {
  // Only one of the times: the buffer was forced out of CUPTI before the work was complete.
  if (activity->start_ns == 0 || activity->end_ns == 0) return ActivityUse::kWithoutTimes;
  for (uint64_t* time : {&activity->start_ns, &activity->end_ns, &activity->queued_ns, &activity->submitted_ns}) {
    Shift(time, clock_offset_ns);
  }
  return ActivityUse::kActivity;
}

}  // namespace

ActivityUse ReadActivity(const void* record, uint32_t version, int64_t clock_offset_ns, GpuActivityRecord* activity,
                         const char** kernel_name) {
  *activity = {};
  activity->header = {sizeof *activity / 8, RecordType::kGpuActivity, 0, 0, 0, 0};
  activity->source = GpuTimeSource::kCupti;
  activity->peer_device = kNoDevice;
  *kernel_name = nullptr;
  uint32_t kind = *static_cast<const uint32_t*>(record);
  switch (kind) {
    case cupti::kKernel:
    case cupti::kConcurrentKernel: {
      auto kernel = static_cast<const cupti::KernelRecord*>(record);
      *kernel_name = kernel->name;
      ReadKernel(*kernel, version, activity);
      return Finish(clock_offset_ns, activity);
    }
    case cupti::kMemcpy:
      ReadCopy(*static_cast<const cupti::MemcpyRecord*>(record), version, activity);
      return Finish(clock_offset_ns, activity);
    case cupti::kMemcpyPeer: {
      auto copy = static_cast<const cupti::MemcpyPeerRecord*>(record);
      ReadCopy(*copy, version, activity);
      activity->direction = CopyDirection::kPeer;
      activity->peer_device = copy->destination_device;
      return Finish(clock_offset_ns, activity);
    }
    case cupti::kMemset:
      ReadSet(*static_cast<const cupti::MemsetRecord*>(record), version, activity);
      return Finish(clock_offset_ns, activity);
    case cupti::kOverhead: {
      auto overhead = static_cast<const cupti::OverheadRecord*>(record);
      activity->kind = GpuActivityKind::kOverhead;
      activity->start_ns = overhead->start;
      activity->end_ns = overhead->end;
      return Finish(clock_offset_ns, activity);
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
