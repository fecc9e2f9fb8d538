// What PyTorch's allocators give out and take back: the interposed c10::alloc_cpu and c10::free_cpu, through which the memory of all
// tensors of the host goes, and c10::reportMemoryUsageToProfiler, to which the caching allocators of GPUs report.
// Thread: any application thread. An allocation costs a clock read and a record of 32 bytes.

#include "preload/base/entry.h"
#include "preload/format/clock.h"
#include "preload/link/resolver.h"
#include "preload/runtime/config.h"
#include "preload/runtime/parts.h"
#include "preload/runtime/process_state.h"
#include "preload/tap/tap.h"

namespace dlhook::inline tap {
namespace {

// c10::Device: passed as one integer.
struct TorchDevice {
  int8_t type;  // 0: the host
  int8_t index;
};

// Null: not to be recorded. A process's first operator begins its trace: `import torch`, which allocates, leaves none.
ThreadState* MemoryThread() {
  const Config& config = GetConfig();
  if (!config.memory || config.scopes != ScopesMode::kOn || g_is_memory_over.load(std::memory_order_relaxed))
    return nullptr;
  ThreadState* thread = dlhook_thread;
  if (thread == nullptr || thread->active == 0) {
    ProcessState* process = FindProcess();
    if (process == nullptr || process->phase.load(std::memory_order_acquire) != kRecording) return nullptr;
  }
  return ScopeThread(FamilyBit<kRecordFunctionTap>());
}

// `bytes` 0: freed.
void RecordMemory(const void* address, uint64_t bytes, uint32_t device, uint64_t allocated, uint64_t reserved) {
  ThreadState* thread = address == nullptr ? nullptr : MemoryThread();
  if (thread == nullptr) return;
  uint32_t words = (device == 0 ? offsetof(MemoryRecord, allocated) : sizeof(MemoryRecord)) / 8;
  FrameMark mark;
  RecordHeader* header = ReserveScope(thread, words, &mark);
  if (header == nullptr) return;
  auto record = reinterpret_cast<MemoryRecord*>(header);
  record->header = {static_cast<uint16_t>(words), RecordType::kMemory, 0, static_cast<uint16_t>(device), 0, 0};
  record->ticks = ReadTicks(thread->clock);
  record->address = reinterpret_cast<uintptr_t>(address);
  record->bytes = bytes;
  if (device != 0) {
    record->allocated = allocated;
    record->reserved = reserved;
  }
  CommitRecord(thread, header);
}

// The first caller's: PyTorch has one allocator.
template <typename Function>
Function RealOf(std::atomic<Function>* known, const char* name, void* own, void* caller) {
  Function real = known->load(std::memory_order_relaxed);
  if (__builtin_expect(real != nullptr, 1)) return real;
  ErrnoKeeper keeper;
  real = reinterpret_cast<Function>(FindReal(name, nullptr, own, caller));
  known->store(real, std::memory_order_relaxed);
  return real;
}

using Allocate = void* (*)(size_t);
using Free = void (*)(void*);
using ReportUsage = void (*)(void*, int64_t, size_t, size_t, TorchDevice);
std::atomic<Allocate> g_allocate;
std::atomic<Free> g_free;
std::atomic<ReportUsage> g_report_usage;

}  // namespace
}  // namespace dlhook::inline tap

extern "C" {

DLHOOK_EXPORT void* _ZN3c109alloc_cpuEm(size_t bytes) {
  using namespace dlhook;
  void* memory = RealOf(&g_allocate, DLHOOK_CALLED(_ZN3c109alloc_cpuEm))(bytes);
  RecordMemory(memory, bytes, 0, 0, 0);
  return memory;
}

// Recorded first: once freed, another thread may be given the address.
DLHOOK_EXPORT void _ZN3c108free_cpuEPv(void* memory) {
  using namespace dlhook;
  RecordMemory(memory, 0, 0, 0, 0);
  RealOf(&g_free, DLHOOK_CALLED(_ZN3c108free_cpuEPv))(memory);
}

DLHOOK_EXPORT void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void* memory, int64_t bytes, size_t allocated,
                                                                         size_t reserved, dlhook::TorchDevice device) {
  using namespace dlhook;
  if (device.type != 0)
    RecordMemory(memory, bytes > 0 ? static_cast<uint64_t>(bytes) : 0, static_cast<uint32_t>(device.index) + 1,
                 allocated, reserved);
  RealOf(&g_report_usage, DLHOOK_CALLED(_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE))(
      memory, bytes, allocated, reserved, device);
}

}  // extern "C"
