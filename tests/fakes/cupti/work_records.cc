// Records of a fake libcupti: the devices' work, and the devices.
#include <cstdio>
#include <cstdlib>

#include "cupti.h"

namespace cupti {
namespace {

uint8_t MemoryKind(const void* address, int* device) {
  static const uint8_t kinds[] = {1, 2, 3, 5};
  return kinds[static_cast<int>(fake::Classify(address, device))];
}

bool OnDevice(uint8_t kind) { return kind == 3 || kind == 5; }

template <class Record>
void FillPlace(Record* record, const fake::Activity& activity) {
  record->start = Stamp(activity.start_ns);
  record->end = Stamp(activity.end_ns);
  static const int every = atoi(fake::Setting("CUPTI_ZERO", "0"));
  static std::atomic<int> count{0};
  if (every > 0 && ++count % every == 0) record->start = record->end = 0;
  record->device = static_cast<uint32_t>(activity.device);
  record->context = ContextId(activity.device);
  record->stream = activity.stream;
  record->graph = activity.graph;
  record->correlation = activity.correlation;
}

void AddKernel(const fake::Activity& activity, uint32_t kind) {
  const fake::Node& work = activity.work;
  KernelRecord record{};
  record.kind = kind;
  FillPlace(&record, activity);
  record.registers = 40;
  record.completed = record.end;
  const fake::Dim3* const sizes[] = {&work.grid, &work.block};
  for (int i = 0; i < 2; ++i) {
    int32_t* place = i == 0 ? record.grid : record.block;
    const fake::Dim3& size = *sizes[i];
    const int32_t values[] = {static_cast<int32_t>(size.x), static_cast<int32_t>(size.y), static_cast<int32_t>(size.z)};
    memcpy(place, values, sizeof values);
  }
  record.dynamic_shared = static_cast<int32_t>(work.shared_bytes);
  record.grid_id = activity.correlation;
  record.name = work.name;
  record.graph_node = activity.node;
  if (TheSession().latency) record.queued = Stamp(activity.requested_ns);
  if (TheSession().latency) record.submitted = Stamp(activity.requested_ns + 500);
  Add(record, activity.completes_ns);
}

void AddPeerCopy(const fake::Activity& activity, int from, int to) {
  PeerRecord record{};
  record.kind = kMemcpy2;
  FillPlace(&record, activity);
  record.copy_kind = 10;
  record.from_kind = record.to_kind = 3;
  record.flags = 1;
  record.bytes = activity.work.bytes;
  record.from_device = static_cast<uint32_t>(from);
  record.from_context = ContextId(from);
  record.to_device = static_cast<uint32_t>(to);
  record.to_context = ContextId(to);
  record.graph_node = activity.node;
  Add(record, activity.completes_ns);
}

void AddCopy(const fake::Activity& activity) {
  int from = activity.device, to = activity.device;
  MemcpyRecord record{};
  record.kind = kMemcpy;
  record.from_kind = MemoryKind(activity.work.source, &from);
  record.to_kind = MemoryKind(activity.work.destination, &to);
  const bool from_device = OnDevice(record.from_kind), to_device = OnDevice(record.to_kind);
  if (from_device && to_device && from != to) {
    if (TheSession().IsEnabled(kMemcpy2)) AddPeerCopy(activity, from, to);
    return;
  }
  if (!TheSession().IsEnabled(kMemcpy)) return;
  FillPlace(&record, activity);
  record.copy_kind = from_device ? (to_device ? 8 : 2) : to_device ? 1 : 9;
  record.flags = 1;  // CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC
  record.bytes = activity.work.bytes;
  record.runtime_correlation = activity.correlation;
  record.graph_node = activity.node;
  record.copies = 1;
  Add(record, activity.completes_ns);
}

void AddSet(const fake::Activity& activity) {
  int device = 0;
  MemsetRecord record{};
  record.kind = kMemset;
  FillPlace(&record, activity);
  record.value = static_cast<uint32_t>(activity.work.value);
  record.bytes = activity.work.bytes;
  record.flags = 1;
  record.memory_kind = MemoryKind(activity.work.destination, &device);
  record.graph_node = activity.node;
  Add(record, activity.completes_ns);
}

void AddGraph(const fake::Activity& activity) {
  GraphRecord record{};
  record.kind = kGraphTrace;
  FillPlace(&record, activity);
  record.end_device = record.device;
  record.end_context = record.context;
  Add(record, activity.completes_ns);
}

}  // namespace

void Session::Ran(const fake::Activity& activity) {
  using fake::Activity;
  if (activity.kind == Activity::kGraph) {
    if (kinds_[kGraphTrace]) AddGraph(activity);
    return;
  }
  if (activity.graph != 0 && kinds_[kGraphTrace]) return;
  if (activity.kind == Activity::kKernel) {
    const bool concurrent = kinds_[kConcurrentKernel];
    if (concurrent || kinds_[kKernel]) AddKernel(activity, concurrent ? kConcurrentKernel : kKernel);
  }
  if (activity.kind == Activity::kCopy) AddCopy(activity);
  if (activity.kind == Activity::kSet && kinds_[kMemset]) AddSet(activity);
}

void Session::AddDevices() {
  static char names[fake::kMostDevices][32];
  for (int device = 0; device < fake::DeviceCount(); ++device) {
    DeviceRecord record{};
    size_t free = 0, total = 0;
    fake::DeviceMemory(device, &free, &total);
    record.kind = kDevice;
    record.memory_kilobytes_per_second = 2ull * 2619000 * 5120 / 8;
    record.memory_bytes = total;
    record.warp_threads = 32;
    record.clock_khz = 1980000;
    record.copy_engines = 3;
    record.multiprocessors = 132;
    record.threads_per_block = 1024;
    record.capability_major = 9;
    record.id = static_cast<uint32_t>(device);
    uint8_t uuid[16];
    fake::DeviceUuid(device, uuid);
    memcpy(record.uuid, uuid, sizeof uuid);
    snprintf(names[device], sizeof names[device], "dlhook fake GPU %d", device);
    record.name = names[device];
    record.visible = 1;
    Add(record);
  }
}

}  // namespace cupti
