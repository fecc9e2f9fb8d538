// The loaded CUPTI: which copy of the library, and its functions bypassing our own hooks.
// Thread: the one that opens it (under GpuState.control); afterwards the table is constant.
#pragma once

#include "preload/abi/cupti_abi.h"
#include "preload/base/function_table.h"

namespace dlhook::inline gpu {

struct CuptiApi : FunctionTable {
  using FunctionTable::FunctionTable;
  using Callback = void (*)(void* user, uint32_t domain, uint32_t id, const void* data);
  using RequestBuffer = void (*)(uint8_t** buffer, size_t* size, size_t* most_records);
  using CompleteBuffer = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid);

  int (*get_version)(uint32_t* version) = Need("cuptiGetVersion");
  int (*subscribe)(void** subscriber, Callback callback, void* user) = Need("cuptiSubscribe");
  int (*unsubscribe)(void* subscriber) = Need("cuptiUnsubscribe");
  int (*enable_callback)(uint32_t enable, void* subscriber, uint32_t domain, uint32_t id) = Need("cuptiEnableCallback");
  int (*register_callbacks)(RequestBuffer request, CompleteBuffer complete) = Need("cuptiActivityRegisterCallbacks");
  int (*enable)(uint32_t kind) = Need("cuptiActivityEnable");
  int (*disable)(uint32_t kind) = Need("cuptiActivityDisable");
  int (*flush_all)(uint32_t flags) = Need("cuptiActivityFlushAll");
  int (*get_next_record)(uint8_t* buffer, size_t valid, void** record) = Need("cuptiActivityGetNextRecord");
  int (*get_dropped)(void* context, uint32_t stream, size_t* dropped) = Need("cuptiActivityGetNumDroppedRecords");
  // Null if this version has none.
  int (*subscribe_v2)(void** subscriber, Callback callback, void* user,
                      cupti::SubscriberParams* parameters) = Find("cuptiSubscribe_v2");
  int (*enable_and_dump)(uint32_t kind) = Find("cuptiActivityEnableAndDump");
  int (*get_attribute)(uint32_t attribute, size_t* size, void* value) = Find("cuptiActivityGetAttribute");
  int (*set_attribute)(uint32_t attribute, size_t* size, void* value) = Find("cuptiActivitySetAttribute");
  int (*get_timestamp)(uint64_t* timestamp) = Find("cuptiGetTimestamp");
  int (*get_graph_node_id)(void* node, uint64_t* id) = Find("cuptiGetGraphNodeId");
  int (*get_result_string)(int result, const char** text) = Find("cuptiGetResultString");
  int (*push_external)(uint32_t kind, uint64_t id) = Find("cuptiActivityPushExternalCorrelationId");
  int (*pop_external)(uint32_t kind, uint64_t* last) = Find("cuptiActivityPopExternalCorrelationId");
  int (*register_timestamp_callback)(uint64_t (*timestamp)()) = Find("cuptiActivityRegisterTimestampCallback");
  int (*get_callback_name)(uint32_t domain, uint32_t id, const char** name) = Find("cuptiGetCallbackName");
  int (*enable_driver_api)(uint32_t id, uint8_t enable) = Find("cuptiActivityEnableDriverApi");
  int (*enable_runtime_api)(uint32_t id, uint8_t enable) = Find("cuptiActivityEnableRuntimeApi");

  uint32_t version = 0;
  char library[64] = "";  // base name of its file
};

// Finds the library that is already mapped (another copy would be another client), else the one that matches the CUDA
// runtime or driver in use, and its functions. Null if none works: `reason` says why.
const CuptiApi* LoadCupti(const char** reason);

// The library, once loaded; else null.
const CuptiApi* LoadedCupti();

// CUPTI's name for this result, with its number.
struct CuptiResultText {
  CuptiResultText(const CuptiApi& api, int result);
  char text[96];
};

}  // namespace dlhook::inline gpu
