// Tracks the descriptors of cuDNN's graph API, so that the execution of a plan can report what it computes. Descriptors
// are copied when they are set: frontends destroy tensors, operations and graphs before the plan is executed, the
// library can't be queried for them afterwards, and it fills descriptors (engine configurations) that the caller
// created empty.
// Thread: any application thread. Building plans takes a lock and memory of the shim's own; variant packs and
// executions take neither.
#pragma once

#include "preload/hook_arguments.h"
#include "preload/runtime/thread_state.h"

namespace dlhook::inline track {

void TrackBackendCreate(const BackendCreateArgs& args);
void TrackBackendGet(const BackendGetArgs& args);
// Outlined: everything except variant packs.
void TrackBackendSetSlow(const BackendSetArgs& args);
void TrackBackendFinalizeSlow(const BackendFinalizeArgs& args);
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

}  // namespace dlhook::inline track
