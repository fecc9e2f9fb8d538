// CUPTI's interface as far as dlhook uses it: numbers, and the beginnings of its records, which have been the same
// since CUDA 9 (records only grow at their end). NVIDIA's headers are not needed to build;
// tests/preload/activity_test.cc compares with them if installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dlhook::inline abi {
namespace cupti {

constexpr int kSuccess = 0;
constexpr int kInvalidParameter = 1;
constexpr int kInsufficientPrivileges = 35;
constexpr int kMultipleSubscribers = 39;
constexpr int kVirtualizedInsufficientPrivileges = 40;

// cuptiGetVersion. Since 13.0 it is MMmmpp; before, a separate number (cupti_version.h): 24 is 12.6, 26 is 12.8.
constexpr uint32_t kVersionGraphIds = 18;         // 11.8: ids of graphs and their nodes in all records
constexpr uint32_t kVersionFinalizeTwice = 24;    // 12.6: CUPTI can be started again after cuptiFinalize
constexpr uint32_t kVersionRefusedRequests = 27;  // 12.9: a request for a buffer may be refused
// From 13.0 on: major, minor, update. Before these, by NVIDIA's release notes, disabling CONCURRENT_KERNEL could block for good,
// and correlation ids of graph launches were wrong from the second session on.
constexpr uint32_t kVersionSafeDisable = 130001;
constexpr uint32_t kVersionGraphSessions = 130101;

enum Kind : uint32_t {
  kMemcpy = 1,
  kMemset = 2,
  kKernel = 3,
  kDriver = 4,
  kRuntime = 5,
  kDevice = 8,
  kConcurrentKernel = 10,
  kMemcpyPeer = 22,
  kExternalCorrelation = 39,
  kGraphTrace = 51,
};

enum Attribute : uint32_t { kZeroedBuffers = 5, kPerThreadBuffers = 9 };
constexpr uint32_t kFlushForced = 1;
constexpr uint32_t kCustom2 = 5;  // CUpti_ExternalCorrelationKind

enum Domain : uint32_t { kDomainDriver = 1, kDomainRuntime = 2, kDomainResource = 3 };
enum ResourceCallback : uint32_t { kModuleUnloadStarting = 7, kGraphNodeCreated = 13, kGraphNodeCloned = 20 };
constexpr uint32_t kApiEnter = 0;

struct SubscriberParams {
  size_t struct_size;
  const char* name;
  char* old_name;
  size_t old_name_bytes;
};
constexpr size_t kSubscriberNameBytes = 64;

struct CallbackData {
  uint32_t site;
  const char* function_name;
  const void* parameters;
  void* result;
  const char* symbol_name;
  void* context;
  uint32_t context_id;
  uint64_t* correlation_data;
  uint32_t correlation;
};

struct GraphData {
  void* graph;
  void* original_graph;
  void* node;
  void* original_node;
  uint32_t node_type;
  void* dependency;
  void* executable;
};

struct ResourceData {
  void* context;
  void* handle;
  const GraphData* descriptor;
};

struct KernelRecord {
  uint32_t kind;
  uint8_t cache_config;
  uint8_t shared_memory_config;
  uint16_t registers_per_thread;
  uint32_t partitioned_requested;
  uint32_t partitioned_executed;
  uint64_t start;
  uint64_t end;
  uint64_t completed;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t static_shared_bytes;
  uint32_t dynamic_shared_bytes;
  uint32_t local_bytes_per_thread;
  uint32_t local_bytes;
  uint32_t correlation;
  int64_t grid_id;
  const char* name;
  void* reserved;
  uint64_t queued;
  uint64_t submitted;
  uint8_t launch_type;
  uint8_t carveout_requested;
  uint8_t carveout;
  uint8_t padding;
  uint32_t shared_bytes_executed;
  // From kVersionGraphIds on.
  uint64_t graph_node;
  uint32_t shared_limit_config;
  uint32_t graph;
};
static_assert(offsetof(KernelRecord, correlation) == 92 && offsetof(KernelRecord, graph) == 156);

struct MemcpyRecord {
  uint32_t kind;
  uint8_t copy_kind;
  uint8_t source_memory;
  uint8_t destination_memory;
  uint8_t flags;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t correlation;
  uint32_t runtime_correlation;
  uint32_t padding;
  void* reserved;
  // From kVersionGraphIds on.
  uint64_t graph_node;
  uint32_t graph;
};
static_assert(offsetof(MemcpyRecord, correlation) == 44 && offsetof(MemcpyRecord, graph) == 72);

struct MemcpyPeerRecord {
  uint32_t kind;
  uint8_t copy_kind;
  uint8_t source_memory;
  uint8_t destination_memory;
  uint8_t flags;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t source_device;
  uint32_t source_context;
  uint32_t destination_device;
  uint32_t destination_context;
  uint32_t correlation;
  void* reserved;
  // From kVersionGraphIds on.
  uint64_t graph_node;
  uint32_t graph;
};
static_assert(offsetof(MemcpyPeerRecord, correlation) == 60 && offsetof(MemcpyPeerRecord, graph) == 80);

struct MemsetRecord {
  uint32_t kind;
  uint32_t value;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t correlation;
  uint16_t flags;
  uint16_t memory;
  uint32_t padding;
  void* reserved;
  // From kVersionGraphIds on.
  uint64_t graph_node;
  uint32_t graph;
};
static_assert(offsetof(MemsetRecord, correlation) == 44 && offsetof(MemsetRecord, graph) == 72);

struct GraphTraceRecord {
  uint32_t kind;
  uint32_t correlation;
  uint64_t start;
  uint64_t end;
  uint32_t device;
  uint32_t graph;
  uint32_t context;
  uint32_t stream;
};
static_assert(offsetof(GraphTraceRecord, stream) == 36);

struct DeviceRecord {
  uint32_t kind;
  uint32_t flags;
  uint64_t memory_bandwidth_kb_per_s;
  uint64_t memory_bytes;
  uint32_t constant_bytes;
  uint32_t l2_bytes;
  uint32_t threads_per_warp;
  uint32_t clock_khz;
  uint32_t copy_engines;
  uint32_t multiprocessors;
  uint32_t limits[14];
  uint32_t compute_major;
  uint32_t compute_minor;
  uint32_t id;
  uint32_t ecc;
  uint8_t uuid[16];
  const char* name;
  // From kVersionGraphIds on.
  uint8_t is_visible;
  uint8_t is_partitioned;
};
static_assert(offsetof(DeviceRecord, id) == 112 && offsetof(DeviceRecord, name) == 136);

struct ExternalCorrelationRecord {
  uint32_t kind;
  uint32_t external_kind;
  uint64_t external_id;
  uint32_t correlation;
};
static_assert(offsetof(ExternalCorrelationRecord, correlation) == 16);

}  // namespace cupti
}  // namespace dlhook::inline abi
