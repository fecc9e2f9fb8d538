// Compiled, never run, if the toolkit's headers are installed: the fake CUPTI's records, callback data and numbers
// match CUPTI's.
#include <cuda.h>
#include <cupti.h>
// The structures of older versions.
#include <cupti_activity_deprecated.h>

#define FAKE_CUDA_VERSION 13000
#include "../cupti/records.h"

#define FIELD(ours, field, theirs, name) \
  static_assert(offsetof(cupti::ours, field) == offsetof(theirs, name), #ours "." #field)

#if CUPTI_API_VERSION >= 130000
static_assert(cupti::SizeOf(cupti::kConcurrentKernel) == sizeof(CUpti_ActivityKernel10));
static_assert(cupti::SizeOf(cupti::kMemcpy) == sizeof(CUpti_ActivityMemcpy6));
static_assert(cupti::SizeOf(cupti::kMemcpy2) == sizeof(CUpti_ActivityMemcpyPtoP4));
static_assert(cupti::SizeOf(cupti::kMemset) == sizeof(CUpti_ActivityMemset4));
static_assert(cupti::SizeOf(cupti::kRuntime) == sizeof(CUpti_ActivityAPI));
static_assert(cupti::SizeOf(cupti::kExternalCorrelation) == sizeof(CUpti_ActivityExternalCorrelation));
static_assert(cupti::SizeOf(cupti::kSynchronization) == sizeof(CUpti_ActivitySynchronization2));
static_assert(cupti::SizeOf(cupti::kOverhead) == sizeof(CUpti_ActivityOverhead3));
static_assert(cupti::SizeOf(cupti::kGraphTrace) == sizeof(CUpti_ActivityGraphTrace2));
static_assert(cupti::SizeOf(cupti::kDevice) == sizeof(CUpti_ActivityDevice5));
static_assert(cupti::SizeOf(cupti::kContext) == sizeof(CUpti_ActivityContext3));

FIELD(KernelRecord, registers, CUpti_ActivityKernel10, registersPerThread);
FIELD(KernelRecord, start, CUpti_ActivityKernel10, start);
FIELD(KernelRecord, end, CUpti_ActivityKernel10, end);
FIELD(KernelRecord, device, CUpti_ActivityKernel10, deviceId);
FIELD(KernelRecord, stream, CUpti_ActivityKernel10, streamId);
FIELD(KernelRecord, grid, CUpti_ActivityKernel10, gridX);
FIELD(KernelRecord, block, CUpti_ActivityKernel10, blockX);
FIELD(KernelRecord, dynamic_shared, CUpti_ActivityKernel10, dynamicSharedMemory);
FIELD(KernelRecord, correlation, CUpti_ActivityKernel10, correlationId);
FIELD(KernelRecord, name, CUpti_ActivityKernel10, name);
FIELD(KernelRecord, queued, CUpti_ActivityKernel10, queued);
FIELD(KernelRecord, submitted, CUpti_ActivityKernel10, submitted);
FIELD(KernelRecord, graph_node, CUpti_ActivityKernel10, graphNodeId);
FIELD(KernelRecord, graph, CUpti_ActivityKernel10, graphId);
FIELD(KernelRecord, most_active_clusters, CUpti_ActivityKernel10, maxActiveClusters);
FIELD(MemcpyRecord, copy_kind, CUpti_ActivityMemcpy6, copyKind);
FIELD(MemcpyRecord, to_kind, CUpti_ActivityMemcpy6, dstKind);
FIELD(MemcpyRecord, bytes, CUpti_ActivityMemcpy6, bytes);
FIELD(MemcpyRecord, start, CUpti_ActivityMemcpy6, start);
FIELD(MemcpyRecord, stream, CUpti_ActivityMemcpy6, streamId);
FIELD(MemcpyRecord, correlation, CUpti_ActivityMemcpy6, correlationId);
FIELD(MemcpyRecord, graph_node, CUpti_ActivityMemcpy6, graphNodeId);
FIELD(MemcpyRecord, copies, CUpti_ActivityMemcpy6, copyCount);
FIELD(PeerRecord, from_device, CUpti_ActivityMemcpyPtoP4, srcDeviceId);
FIELD(PeerRecord, to_device, CUpti_ActivityMemcpyPtoP4, dstDeviceId);
FIELD(PeerRecord, correlation, CUpti_ActivityMemcpyPtoP4, correlationId);
FIELD(PeerRecord, graph_node, CUpti_ActivityMemcpyPtoP4, graphNodeId);
FIELD(MemsetRecord, value, CUpti_ActivityMemset4, value);
FIELD(MemsetRecord, start, CUpti_ActivityMemset4, start);
FIELD(MemsetRecord, correlation, CUpti_ActivityMemset4, correlationId);
FIELD(MemsetRecord, memory_kind, CUpti_ActivityMemset4, memoryKind);
FIELD(MemsetRecord, graph_node, CUpti_ActivityMemset4, graphNodeId);
FIELD(ApiRecord, cbid, CUpti_ActivityAPI, cbid);
FIELD(ApiRecord, thread, CUpti_ActivityAPI, threadId);
FIELD(ApiRecord, correlation, CUpti_ActivityAPI, correlationId);
FIELD(ApiRecord, status, CUpti_ActivityAPI, returnValue);
FIELD(ExternalRecord, external, CUpti_ActivityExternalCorrelation, externalId);
FIELD(ExternalRecord, correlation, CUpti_ActivityExternalCorrelation, correlationId);
FIELD(SynchronizationRecord, type, CUpti_ActivitySynchronization2, type);
FIELD(SynchronizationRecord, stream, CUpti_ActivitySynchronization2, streamId);
FIELD(SynchronizationRecord, event, CUpti_ActivitySynchronization2, cudaEventId);
FIELD(OverheadRecord, overhead_kind, CUpti_ActivityOverhead3, overheadKind);
FIELD(OverheadRecord, process, CUpti_ActivityOverhead3, objectId);
FIELD(OverheadRecord, start, CUpti_ActivityOverhead3, start);
FIELD(GraphRecord, correlation, CUpti_ActivityGraphTrace2, correlationId);
FIELD(GraphRecord, graph, CUpti_ActivityGraphTrace2, graphId);
FIELD(GraphRecord, stream, CUpti_ActivityGraphTrace2, streamId);
FIELD(DeviceRecord, memory_kilobytes_per_second, CUpti_ActivityDevice5, globalMemoryBandwidth);
FIELD(DeviceRecord, clock_khz, CUpti_ActivityDevice5, coreClockRate);
FIELD(DeviceRecord, multiprocessors, CUpti_ActivityDevice5, numMultiprocessors);
FIELD(DeviceRecord, capability_major, CUpti_ActivityDevice5, computeCapabilityMajor);
FIELD(DeviceRecord, id, CUpti_ActivityDevice5, id);
FIELD(DeviceRecord, uuid, CUpti_ActivityDevice5, uuid);
FIELD(DeviceRecord, name, CUpti_ActivityDevice5, name);
FIELD(DeviceRecord, is_partition, CUpti_ActivityDevice5, isMigEnabled);
FIELD(ContextRecord, device, CUpti_ActivityContext3, deviceId);
FIELD(ContextRecord, null_stream, CUpti_ActivityContext3, nullStreamId);

static_assert(sizeof(cupti::CallbackData) == sizeof(CUpti_CallbackData));
FIELD(CallbackData, parameters, CUpti_CallbackData, functionParams);
FIELD(CallbackData, symbol, CUpti_CallbackData, symbolName);
FIELD(CallbackData, context_id, CUpti_CallbackData, contextUid);
FIELD(CallbackData, data, CUpti_CallbackData, correlationData);
FIELD(CallbackData, correlation, CUpti_CallbackData, correlationId);
static_assert(sizeof(cupti::ResourceData) == sizeof(CUpti_ResourceData));
FIELD(ResourceData, descriptor, CUpti_ResourceData, resourceDescriptor);
static_assert(sizeof(cupti::GraphData) == sizeof(CUpti_GraphData));
FIELD(GraphData, original_node, CUpti_GraphData, originalNode);
FIELD(GraphData, node_type, CUpti_GraphData, nodeType);
FIELD(GraphData, executable, CUpti_GraphData, graphExec);
static_assert(sizeof(cupti::SubscriberParameters) == sizeof(CUpti_SubscriberParams));
FIELD(SubscriberParameters, old_name, CUpti_SubscriberParams, oldSubscriberName);
static_assert(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED == 13);
static_assert(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED == 20);
static_assert(CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED == 18);
static_assert(CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER == 9);

#define RUNTIME(function, version, number) \
  static_assert(CUPTI_RUNTIME_TRACE_CBID_##function##_v##version == (number), #function);
#define DRIVER(function, number) static_assert(CUPTI_DRIVER_TRACE_CBID_##function == (number), #function);
#include "../cupti/callback_ids.inc"

// Older libraries: 12.8, 10.2.
static_assert(cupti::SizeOf(cupti::kKernel, 12080) == sizeof(CUpti_ActivityKernel9));
static_assert(cupti::SizeOf(cupti::kMemcpy, 12080) == sizeof(CUpti_ActivityMemcpy6));
static_assert(cupti::SizeOf(cupti::kContext, 12080) == sizeof(CUpti_ActivityContext2));
static_assert(cupti::SizeOf(cupti::kKernel, 10020) == sizeof(CUpti_ActivityKernel4));
static_assert(cupti::SizeOf(cupti::kMemcpy, 10020) == sizeof(CUpti_ActivityMemcpy));
static_assert(cupti::SizeOf(cupti::kMemcpy2, 10020) == sizeof(CUpti_ActivityMemcpy2));
static_assert(cupti::SizeOf(cupti::kMemset, 10020) == sizeof(CUpti_ActivityMemset));
static_assert(cupti::SizeOf(cupti::kSynchronization, 10020) == sizeof(CUpti_ActivitySynchronization));
static_assert(cupti::SizeOf(cupti::kOverhead, 10020) == sizeof(CUpti_ActivityOverhead));
static_assert(cupti::SizeOf(cupti::kDevice, 10020) == sizeof(CUpti_ActivityDevice2));
static_assert(cupti::SizeOf(cupti::kContext, 10020) == sizeof(CUpti_ActivityContext));
#endif
