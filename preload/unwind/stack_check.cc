#include "preload/unwind/stack_check.h"

#include <dlfcn.h>
#include <stdio.h>

#include <atomic>

#include "preload/format/clock.h"
#include "preload/format/stack_nodes.h"
#include "preload/link/resolver.h"
#include "preload/runtime/registry.h"
#include "preload/unwind/stack_walk.h"

namespace dlhook {
namespace {

std::atomic<uint64_t> g_checked{0};
std::atomic<uint64_t> g_as_whole{0};
std::atomic<uint64_t> g_as_libunwind{0};
std::atomic<uint64_t> g_ticks[kStackWays];
std::atomic<uint64_t> g_timed[kStackWays];

unsigned long MeanNs(StackWay way, uint64_t ticks_per_second) {
  auto index = static_cast<uint32_t>(way);
  uint64_t count = g_timed[index].load();
  return count == 0 ? 0 : g_ticks[index].load() * 1000 / count * 1000000 / ticks_per_second;
}

struct Libunwind {
  int (*backtrace)(void** addresses, int size);
  void (*flush)(void* address_space, uint64_t low, uint64_t high);
  void** local_address_space;
};

const Libunwind& GetLibunwind() {
  static const Libunwind libunwind = [] {
    Libunwind found = {};
    void* library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return found;
    found.backtrace = reinterpret_cast<int (*)(void**, int)>(RealDlsym(library, "unw_backtrace"));
    found.flush = reinterpret_cast<void (*)(void*, uint64_t, uint64_t)>(RealDlsym(library, "_Ux86_64_flush_cache"));
    found.local_address_space = static_cast<void**>(RealDlsym(library, "_ULx86_64_local_addr_space"));
    return found;
  }();
  return libunwind;
}

// What it remembers of unloaded objects.
void FlushAfterDlclose(const Libunwind& libunwind) {
  static std::atomic<uint32_t> flushed{1};
  uint32_t generation = CurrentBindingGeneration();
  if (flushed.exchange(generation) == generation) return;
  if (libunwind.flush != nullptr && libunwind.local_address_space != nullptr) {
    libunwind.flush(*libunwind.local_address_space, 0, 0);
  }
}

}  // namespace

uint32_t BacktraceOfLibunwind(void** addresses) {
  const Libunwind& libunwind = GetLibunwind();
  if (libunwind.backtrace == nullptr) return 0;
  FlushAfterDlclose(libunwind);
  int count = libunwind.backtrace(addresses, kMaxCheckedAddresses);
  return count < 0 ? 0 : static_cast<uint32_t>(count);
}

bool EqualsNode(const SessionHeader& session, uint32_t node, void* const* addresses, uint32_t count,
                IsOwnAddress is_own, void* context) {
  bool is_too_deep = false;
  for (uint32_t i = 0; i < count; ++i) {
    auto address = reinterpret_cast<uint64_t>(addresses[i]);
    if (is_own(context, address)) continue;
    const StackNode* frame = FindStackNode(&session, session.mapping_bytes, node);
    if (frame == nullptr) return is_too_deep;
    if (frame->address != address) return false;
    is_too_deep = frame->cut == StackCut::kTooDeep;
    node = frame->parent;
  }
  return node == 0;
}

StackWay FirstWay() { return static_cast<StackWay>(g_checked.load() % kStackWays); }

void CountCheckedStack(bool as_whole, bool as_libunwind, StackWay first, uint64_t ticks) {
  uint64_t checked = g_checked.fetch_add(1) + 1;
  if (as_whole) g_as_whole.fetch_add(1);
  if (as_libunwind) g_as_libunwind.fetch_add(1);
  ThreadState* thread = dlhook_thread;
  if (thread == nullptr) return;
  constexpr uint64_t kLongest =
      20000;  // a second's part: longer ones waited for a processor, or met all for the first time
  if (ticks <= TicksPerSecond(*thread->session) / kLongest) {
    g_timed[static_cast<uint32_t>(first)].fetch_add(1);
    g_ticks[static_cast<uint32_t>(first)].fetch_add(ticks);
  }
  // Also told by a process that ends by _exit.
  bool is_power_of_two = (checked & (checked - 1)) == 0;
  if (is_power_of_two) ReportStackCheck(thread);
}

void ReportStackCheck(ThreadState* thread) {
  uint64_t checked = g_checked.load();
  bool all = g_as_whole.load() == checked && g_as_libunwind.load() == checked;
  bool has_libunwind = GetLibunwind().backtrace != nullptr;
  uint64_t rate = TicksPerSecond(*thread->session);
  char reason[160];
  snprintf(reason, sizeof reason, "%lu of %lu as walked whole, %lu as libunwind%s finds them; %lu, %lu and %lu ns each",
           g_as_whole.load(), checked, g_as_libunwind.load(), has_libunwind ? "" : " (not here)",
           MeanNs(StackWay::kJoined, rate), MeanNs(StackWay::kWhole, rate), MeanNs(StackWay::kLibunwind, rate));
  ReportCapability("native-stacks-check", "", all ? CapabilityState::kOn : CapabilityState::kLost, reason);
  FlushRegistry(thread);
}

}  // namespace dlhook
