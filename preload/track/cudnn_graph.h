// Tracks the descriptors of cuDNN's graph API, so that the execution of a plan can report what it computes. Descriptors
// are copied when they are set: frontends destroy tensors, operations and graphs before the plan is executed, the
// library can't be queried for them afterwards, and it fills descriptors (engine configurations) that the caller
// created empty.
// Thread: any application thread. Building plans takes a lock and memory of the shim's own; variant packs and
// executions take neither.
#pragma once

#include "preload/format/record.h"
#include "preload/runtime/thread_state.h"

namespace dlhook::inline track {

// The members are the parameter names of preload/api/cudnn.api.
struct BackendCreateArgs {
  int32_t type = 0;
  void* const* descriptor = nullptr;
  int32_t status = 0;
  const void* real = nullptr;
};
void TrackBackendCreate(const BackendCreateArgs& args);

struct BackendSetArgs {
  const void* descriptor = nullptr;
  int32_t name = 0;
  int32_t attribute_type = 0;
  int64_t count = 0;
  const void* elements = nullptr;
  int32_t status = 0;
  const void* real = nullptr;
};
// Outlined: everything except variant packs.
void TrackBackendSetSlow(const BackendSetArgs& args);

struct BackendGetArgs {
  const void* descriptor = nullptr;
  int32_t name = 0;
  int32_t attribute_type = 0;
  int64_t requested = 0;
  const int64_t* returned = nullptr;  // may be null
  const void* elements = nullptr;
  int32_t status = 0;
  const void* real = nullptr;
};
void TrackBackendGet(const BackendGetArgs& args);

struct BackendFinalizeArgs {
  const void* descriptor = nullptr;
  int32_t status = 0;
  const void* real = nullptr;
};
void TrackBackendFinalizeSlow(const BackendFinalizeArgs& args);

struct BackendDestroyArgs {
  const void* descriptor = nullptr;
  int32_t status = 0;
  const void* real = nullptr;
};
void TrackBackendDestroySlow(const BackendDestroyArgs& args);

// The variant pack of this thread behind a descriptor, or null.
inline VariantPack* FindPack(const void* descriptor) {
  ThreadState* thread = dlhook_thread;
  if (thread == nullptr || descriptor == nullptr) return nullptr;
  VariantPack& pack = thread->packs[VariantPackIndex(descriptor)];
  return pack.descriptor == descriptor && pack.owner == thread->thread_id ? &pack : nullptr;
}

inline void TrackBackendSet(const BackendSetArgs& args) {
  constexpr int32_t kUniqueIds = 1000;     // CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS
  constexpr int32_t kDataPointers = 1001;  // CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS
  constexpr int32_t kLast = 1012;          // CUDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES
  if (args.name < kUniqueIds || args.name > kLast) return TrackBackendSetSlow(args);
  VariantPack* pack = FindPack(args.descriptor);
  if (pack == nullptr || args.status != 0 || args.count < 0 || args.name > kDataPointers) return;
  uint32_t count = args.count < VariantPack::kTensors ? static_cast<uint32_t>(args.count) : VariantPack::kTensors;
  if (args.name == kUniqueIds) {
    pack->uid_count = count;
    for (uint32_t i = 0; i < count; ++i) pack->uids[i] = static_cast<const int64_t*>(args.elements)[i];
  } else {
    pack->pointer_count = count;
    for (uint32_t i = 0; i < count; ++i) pack->pointers[i] = static_cast<const void* const*>(args.elements)[i];
  }
}

inline void TrackBackendFinalize(const BackendFinalizeArgs& args) {
  if (FindPack(args.descriptor) == nullptr) TrackBackendFinalizeSlow(args);
}

inline void TrackBackendDestroy(const BackendDestroyArgs& args) {
  VariantPack* pack = FindPack(args.descriptor);
  if (pack == nullptr) return TrackBackendDestroySlow(args);
  pack->descriptor = nullptr;
}

// cudnnBackendExecute and its variants: needs kPlanShapeWords and 3 addresses, those of the main node's tensors (x, w,
// y …).
struct PlanArgs {
  bool into_graph = false;  // cudnnBackendPopulateCudaGraph: recorded, not executed
  const void* handle = nullptr;
  const void* plan = nullptr;
  const void* variant_pack = nullptr;
  const void* real = nullptr;
};
void DecodePlan(const PlanArgs& args, CallRecord* record);

}  // namespace dlhook::inline track
