// Layouts of CUPTI's structures (cupti_activity.h, cupti_callbacks.h of 13.0; ../abi compares them). Structures only
// grow at their end: older generations use their first bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cupti {

// CUpti_ActivityKind
enum Kind : uint32_t {
  kMemcpy = 1,
  kMemset = 2,
  kKernel = 3,
  kDriver = 4,
  kRuntime = 5,
  kDevice = 8,
  kContext = 9,
  kConcurrentKernel = 10,
  kOverhead = 17,
  kMemcpy2 = 22,
  kSynchronization = 38,
  kExternalCorrelation = 39,
  kGraphTrace = 51,
  kKinds = 55,
  kUnknownKind = 77  // of a future CUPTI (DLHOOK_FAKE_CUPTI_UNKNOWN)
};

#pragma pack(push, 1)

struct KernelRecord {  // CUpti_ActivityKernel10
  uint32_t kind;
  uint8_t cache_config, shared_config;
  uint16_t registers;
  uint32_t cache_requested, cache_executed;
  uint64_t start, end, completed;
  uint32_t device, context, stream;
  int32_t grid[3], block[3];
  int32_t static_shared, dynamic_shared;
  uint32_t local_per_thread, local_total, correlation;
  int64_t grid_id;
  const char* name;
  void* reserved;
  uint64_t queued, submitted;
  uint8_t launch_type, carveout_requested, carveout, padding;
  uint32_t shared_executed;
  uint64_t graph_node;  // from CUDA 11 on
  uint32_t shared_limit, graph;
  void* access_policy;
  uint32_t channel, channel_type;
  uint32_t cluster[3], cluster_policy;
  uint64_t local_total_2;
  uint32_t most_cluster, most_active_clusters;  // 13.0
};

struct MemcpyRecord {  // CUpti_ActivityMemcpy6
  uint32_t kind;
  uint8_t copy_kind, from_kind, to_kind, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation, runtime_correlation, padding;
  void* reserved;
  uint64_t graph_node;
  uint32_t graph, channel, channel_type;
  uint8_t device_launched, padding2[3];
  uint64_t copies;
};

struct PeerRecord {  // CUpti_ActivityMemcpyPtoP4
  uint32_t kind;
  uint8_t copy_kind, from_kind, to_kind, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream;
  uint32_t from_device, from_context, to_device, to_context;
  uint32_t correlation;
  void* reserved;
  uint64_t graph_node;
  uint32_t graph, channel, channel_type;
  uint32_t padding;
};

struct MemsetRecord {  // CUpti_ActivityMemset4
  uint32_t kind, value;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
  uint16_t flags, memory_kind;
  uint32_t padding;
  void* reserved;
  uint64_t graph_node;
  uint32_t graph, channel, channel_type;
  uint8_t device_launched, padding2[3];
};

struct ApiRecord {  // CUpti_ActivityAPI
  uint32_t kind, cbid;
  uint64_t start, end;
  uint32_t process, thread, correlation, status;
};

struct ExternalRecord {  // CUpti_ActivityExternalCorrelation
  uint32_t kind, external_kind;
  uint64_t external;
  uint32_t correlation, reserved;
};

struct SynchronizationRecord {  // CUpti_ActivitySynchronization2
  uint32_t kind, type;
  uint64_t start, end;
  uint32_t correlation, context, stream, event;
  uint64_t synchronization;
  uint32_t status, padding;
};

struct OverheadRecord {  // CUpti_ActivityOverhead3
  uint32_t kind, overhead_kind, object_kind;
  uint32_t process, thread, object_padding;  // CUpti_ActivityObjectKindId
  uint64_t start, end;
  uint32_t correlation, reserved;
  void* data;
};

struct GraphRecord {  // CUpti_ActivityGraphTrace2
  uint32_t kind, correlation;
  uint64_t start, end;
  uint32_t device, graph, context, stream;
  void* reserved;
  uint32_t end_device, end_context;
};

struct DeviceRecord {  // CUpti_ActivityDevice5
  uint32_t kind, flags;
  uint64_t memory_kilobytes_per_second, memory_bytes;
  uint32_t constant_bytes, l2_bytes, warp_threads, clock_khz, copy_engines, multiprocessors;
  uint32_t most_ipc, most_warps, most_blocks, shared_per_multiprocessor, registers_per_multiprocessor;
  uint32_t registers_per_block, shared_per_block, threads_per_block;
  uint32_t most_block[3], most_grid[3];
  uint32_t capability_major, capability_minor, id, ecc;
  uint8_t uuid[16];
  const char* name;
  uint8_t visible, is_partition, reserved[6];
  uint32_t gpu_instance, compute_instance;
  uint8_t partition_uuid[16];
  uint32_t is_numa_node, numa_node;
};

struct ContextRecord {  // CUpti_ActivityContext3
  uint32_t kind, context, device;
  uint16_t api, null_stream;
  uint32_t parent;
  uint8_t is_green, padding;
  uint16_t multiprocessors;
  uint32_t cig_mode, padding2;
};

#pragma pack(pop)

struct CallbackData {  // CUpti_CallbackData
  int site;
  const char* function;
  const void* parameters;
  void* status;
  const char* symbol;
  void* context;
  uint32_t context_id;
  uint64_t* data;
  uint32_t correlation;
};

struct ResourceData {  // CUpti_ResourceData
  void *context, *stream, *descriptor;
};

struct GraphData {  // CUpti_GraphData
  void *graph, *original_graph, *node, *original_node;
  int node_type;
  void *dependency, *executable;
};

struct SynchronizeData {  // CUpti_SynchronizeData
  void *context, *stream;
};

struct SubscriberParameters {  // CUpti_SubscriberParams
  size_t size;
  const char* name;
  char* old_name;
  size_t old_name_bytes;
};

// Bytes of a record in the CUPTI of a CUDA version.
constexpr size_t SizeOf(uint32_t kind, int cuda_version = FAKE_CUDA_VERSION) {
  const int column = cuda_version >= 13000 ? 0 : cuda_version >= 12000 ? 1 : 2;
  constexpr size_t kernel[] = {216, 208, 144}, copy[] = {96, 96, 64}, peer[] = {96, 96, 72};
  constexpr size_t set[] = {88, 88, 64}, wait[] = {56, 56, 40}, overhead[] = {56, 56, 40};
  constexpr size_t graph[] = {56, 56, 48}, device[] = {184, 184, 144}, context[] = {32, 24, 16};
  switch (kind) {
    case kKernel:
    case kConcurrentKernel:
      return kernel[column];
    case kMemcpy:
      return copy[column];
    case kMemcpy2:
      return peer[column];
    case kMemset:
      return set[column];
    case kSynchronization:
      return wait[column];
    case kOverhead:
      return overhead[column];
    case kGraphTrace:
      return graph[column];
    case kDevice:
      return device[column];
    case kContext:
      return context[column];
    case kDriver:
    case kRuntime:
      return sizeof(ApiRecord);
    case kExternalCorrelation:
      return sizeof(ExternalRecord);
    default:
      return 48;  // kUnknownKind
  }
}
constexpr size_t kLongestRecord = 216;

}  // namespace cupti
