// Copies of PyTorch in this process: which one a caller means, and its functions that the RecordFunction tap calls.
// Thread: any application thread. A new caller takes the loader's lock.
#pragma once

#include "preload/base/function_table.h"
#include "preload/link/resolver.h"
#include "preload/tap/record_function.h"

namespace dlhook::inline tap {

// at::getStepCallbacksUnlessEmpty: std::optional<StepCallbacks>, returned through memory.
using GetCallbacks = void* (*)(void* result, uint8_t scope);

struct TorchFunctions : FunctionTable {
  using FunctionTable::FunctionTable;
  TorchVersion version = {};
  const char* (*name)(const void* record_function) = Need("_ZNK2at14RecordFunction4nameEv");
  bool (*is_async)(const void* record_function) = Need("_ZNK2at14RecordFunction7isAsyncEv");
  void (*disable)(uint64_t handle) = Need("_ZN2at15disableCallbackEm");
  void (*reenable)(uint64_t handle) = Need("_ZN2at16reenableCallbackEm");
  uint64_t (*add)(TorchCallback callback) = Need("_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE");
  // torch.profiler is on in this thread; null: not told.
  bool (*is_profiled)() = Find("_ZN5torch8profiler4impl15profilerEnabledEv");
  // Of a tensor (at::Tensor*): PyTorch's C interface.
  int32_t (*element_count)(const void* tensor, int64_t* count) = Find("aoti_torch_get_numel");
  int32_t (*type)(const void* tensor, int32_t* type) = Find("aoti_torch_get_dtype");
  size_t (*element_bytes)(int32_t type) = Find("aoti_torch_dtype_element_size");
  size_t inputs_offset = 0;  // of at::RecordFunction::inputs_; 0: not found by the test

  // All of the tensors that a scope was begun with; -1: none, or not known.
  int64_t InputBytes(const void* record_function) const;
};

// Finds them in `library`, a handle of `object`, and tests them. Null, or the reason why this copy can't be observed.
// Thread: one at a time.
const char* FindTorchFunctions(const link_map* object, void* library, TorchFunctions* functions);

// at::RecordFunction::before is one function from PyTorch 2.9 on and three before, one of these with a std::string of
// either ABI: numbers of the stubs.
constexpr uint32_t kBefores = 5;

// A calling object, by its addresses, and the functions that it uses. `generation` is published last.
struct TorchCaller {
  std::atomic<uint32_t> generation;
  uintptr_t start;
  uintptr_t bytes;
  GetCallbacks get_callbacks;
  void* before[kBefores];
};
constexpr uint32_t kTorchCallers = 64;
extern TorchCaller g_torch_callers[kTorchCallers];

void LookUpTorchCaller(void* address, TorchCaller* found);

// The known object that contains the address, or null.
inline const TorchCaller* FindTorchCaller(void* address) {
  uint32_t generation = CurrentBindingGeneration();
  for (const TorchCaller& entry : g_torch_callers) {
    if (entry.generation.load(std::memory_order_acquire) != generation) return nullptr;
    if (reinterpret_cast<uintptr_t>(address) - entry.start < entry.bytes) return &entry;
  }
  return nullptr;
}

inline GetCallbacks RealGetCallbacks(void* address) {
  if (const TorchCaller* caller = FindTorchCaller(address)) return caller->get_callbacks;
  TorchCaller found = {};
  LookUpTorchCaller(address, &found);
  return found.get_callbacks;
}

}  // namespace dlhook::inline tap
