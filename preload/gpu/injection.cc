#include "preload/gpu/injection.h"

#include <link.h>

#include <initializer_list>

#include "preload/gpu/cupti_callbacks.h"
#include "preload/gpu/gpu_time.h"
#include "preload/link/resolver.h"
#include "preload/runtime/call_scope.h"
#include "preload/runtime/config.h"
#include "preload/runtime/process_state.h"
#include "preload/runtime/registry.h"
#include "preload/runtime/scope.h"

extern "C" __attribute__((visibility("default"))) int InitializeInjection();

namespace dlhook::inline gpu {
namespace {

std::atomic<bool> g_injected{false};

// ---- CUPTI's functions and our hooks

// By domain (runtime, driver) and CUPTI's number: 0: no hook, else its id + 1. Written before the callbacks are
// enabled.
constexpr uint32_t kMostFunctions = 2048;
uint16_t g_hooks[2][kMostFunctions];

uint16_t* EntryOf(uint32_t domain, uint32_t id) {
  bool is_known = (domain == cupti::kDomainRuntime || domain == cupti::kDomainDriver) && id < kMostFunctions;
  return is_known ? &g_hooks[domain == cupti::kDomainDriver ? 1 : 0][id] : nullptr;
}

// CUPTI appends to the runtime's names the version that introduced them, after a "_v": cudaMemcpy_v3020. The driver's
// names are the exported ones.
int HookOfFunction(const char* name) {
  int hook = FindHook(name);
  const char* version = hook >= 0 ? nullptr : strrchr(name, '_');
  char plain[128];
  if (version == nullptr || version[1] != 'v' || static_cast<size_t>(version - name) >= sizeof plain) return hook;
  memcpy(plain, name, static_cast<size_t>(version - name));
  plain[version - name] = '\0';
  return FindHook(plain);
}

uint32_t FamilyBitOfHook(HookId hook) { return 1u << kHookNames[hook].family; }

// ---- Calls

// The open call of a thread, by slot; used by the slot's thread only.
struct InjectedCall {
  uint32_t thread_id;
  uint32_t correlation;
  bool is_open;
  HookId hook;
  uint64_t start_ticks;
  uint64_t sequence;
};
InjectedCall g_calls[kMaxSlots];

InjectedCall* CallOf(const ThreadState* thread) {
  InjectedCall* call = &g_calls[thread - GetProcess()->threads];
  if (call->thread_id != thread->thread_id) *call = {thread->thread_id, 0, false, 0, 0, 0};
  return call;
}

void Begin(HookId hook, const cupti::CallbackData& data) {
  ThreadState* thread = ScopeThread(FamilyBitOfHook(hook));
  if (thread == nullptr) return;
  InjectedCall* call = CallOf(thread);
  // A call without an exit is abandoned; a nested call (a hook's own, or the driver's inside the runtime's) belongs to
  // this one.
  if (call->is_open && call->correlation != data.correlation) thread->depth = 0;
  if (thread->depth != 0) return;
  if (!NotePythonOfCall(thread)) return thread->ring.CountDropped();
  *call = {thread->thread_id, data.correlation, true, hook, 0, TakeSequence(thread)};
  // CUPTI's own frame: unlike the callback's, it is above everything that the function calls.
  thread->open[0] = {reinterpret_cast<uintptr_t>(&data), call->sequence};
  thread->depth = 1;
  call->start_ticks = ReadTicks(thread->clock);
}

void End(HookId hook, const cupti::CallbackData& data) {
  ThreadState* thread = dlhook_thread;
  if (thread == nullptr || thread->active == 0) return;
  InjectedCall* call = CallOf(thread);
  if (!call->is_open || call->hook != hook || call->correlation != data.correlation) return;
  call->is_open = false;
  CallFrame frame = {thread, call->start_ticks, call->sequence, 0, 0, hook, {}};
  CopyArgs copy;
  bool is_copy = ParseInjectedCopy(kHookNames[hook].name, data.parameters, &copy);
  CallRecord* record =
      is_copy ? EndCall(&frame, RecordType::kCopyCall, kWords<CopyShape>, 3) : EndCall(&frame, RecordType::kCall, 0, 0);
  if (record == nullptr) return;
  if (data.result != nullptr) record->status = *static_cast<const int32_t*>(data.result);
  if (is_copy) {
    // The location of its memory can't be queried: the address is that of a library without such functions.
    copy.real = reinterpret_cast<const void*>(&clock_gettime);
    DecodeCopy(copy, record);
  }
  CommitCall(&frame, record);
}

// ---- Injection

// Preloaded or linked objects precede the C library; objects loaded later follow it.
bool IsPreloaded() {
  const link_map* libc = ObjectOf(reinterpret_cast<const void*>(&clock_gettime));
  for (const link_map* map = ObjectOf(reinterpret_cast<const void*>(&IsPreloaded)); map != nullptr; map = map->l_next) {
    if (map == libc) return true;
  }
  return false;
}

// Whether another copy of dlhook with bound hooks is loaded.
bool AnotherIsPreloaded() {
  const link_map* own = ObjectOf(reinterpret_cast<const void*>(&IsPreloaded));
  const link_map* map = own;
  while (map != nullptr && map->l_prev != nullptr) map = map->l_prev;
  for (; map != nullptr && map != own; map = map->l_next) {
    if (strncmp(ObjectName(map), "libdlhook.so", 12) == 0) return true;
  }
  return false;
}

}  // namespace

bool IsInjected() { return g_injected.load(std::memory_order_relaxed); }

void EnableInjectedCallbacks(const CuptiApi& api, void* subscriber) {
  if (api.get_callback_name == nullptr) return;
  for (uint32_t domain : {cupti::kDomainRuntime, cupti::kDomainDriver}) {
    for (uint32_t id = 1; id < kMostFunctions; ++id) {
      const char* name = nullptr;
      if (api.get_callback_name(domain, id, &name) != cupti::kSuccess || name == nullptr) continue;
      int hook = HookOfFunction(name);
      if (hook < 0 || (GetConfig().families & FamilyBitOfHook(static_cast<HookId>(hook))) == 0) continue;
      *EntryOf(domain, id) = static_cast<uint16_t>(hook + 1);
      api.enable_callback(1, subscriber, domain, id);
    }
  }
}

void OnInjectedCallback(uint32_t domain, uint32_t id, const cupti::CallbackData& data) {
  const uint16_t* entry = EntryOf(domain, id);
  if (entry == nullptr || *entry == 0) return;
  auto hook = static_cast<HookId>(*entry - 1);
  if (data.site == cupti::kApiEnter) {
    Begin(hook, data);
  } else {
    End(hook, data);
  }
}

}  // namespace dlhook::inline gpu

// Called by the driver inside cuInit. Any value but 0: accepted.
int InitializeInjection() {
  using namespace dlhook;
  if (IsPreloaded() || AnotherIsPreloaded() || GpuFamilies() == 0) return 1;
  if (g_injected.exchange(true)) return 1;
  ReportCapability("injection", "", CapabilityState::kOn,
                   "loaded by the CUDA driver: calls come from CUPTI, as far as gpu-time is on");
  StartGpuTime();
  // After the driver's own handlers, so it runs before them.
  FinishGpuTimeAtExit();
  return 1;
}
