// Opened when it is first needed, never linked: its exports would take over the host's C++ exceptions.

#include "preload/base/function_table.h"
#include "preload/link/resolver.h"
#include "preload/unwind/native_stack.h"
#include "preload/unwind/stack_walk.h"

namespace dlhook::inline unwind {
namespace {

constexpr uint32_t kMostAddresses = kMaxNativeFrames + 32;  // the shim's own come first

struct Libunwind : FunctionTable {
  using FunctionTable::FunctionTable;
  int (*backtrace)(void** addresses, int size) = Find("unw_backtrace");
  void (*flush)(void* address_space, uint64_t low, uint64_t high) = Find("_Ux86_64_flush_cache");
  void** local_address_space = Find("_ULx86_64_local_addr_space");
};

const Libunwind& GetLibunwind() {
  static constinit Libunwind known;
  static std::atomic<bool> is_known{false};
  if (is_known.load(std::memory_order_acquire)) return known;
  void* library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) known = Libunwind({&RealDlsym, library});
  is_known.store(true, std::memory_order_release);
  return known;
}

// Its cache of unloaded objects.
void FlushAfterDlclose(const Libunwind& libunwind) {
  static std::atomic<uint32_t> flushed{1};
  uint32_t generation = CurrentBindingGeneration();
  if (flushed.exchange(generation) == generation) return;
  if (libunwind.flush != nullptr && libunwind.local_address_space != nullptr) {
    libunwind.flush(*libunwind.local_address_space, 0, 0);
  }
}

}  // namespace

bool HasLibunwind() { return GetLibunwind().backtrace != nullptr; }

uint32_t CaptureByLibunwind(NativeStackThread* memory, const FrameState& start) {
  if (start.is_interrupted || !HasLibunwind()) return CaptureJoined(memory, start);
  FlushAfterDlclose(GetLibunwind());
  void* found[kMostAddresses];
  int count = GetLibunwind().backtrace(found, kMostAddresses);
  const auto address = [&](int i) { return reinterpret_cast<uint64_t>(found[i]); };
  int first = 0;
  while (first < count && address(first) != start.address) ++first;
  constexpr int kMost = kMaxNativeFrames;
  StackCut cut = count - first > kMost ? StackCut::kTooDeep : StackCut::kWhole;
  if (cut == StackCut::kTooDeep) count = first + kMost;
  RuleCache* rules = RulesOf(memory);
  uint32_t node = 0;
  for (int i = count; i-- > first;) {
    bool is_interrupted = i > first && rules->Find(address(i - 1), false, true)->is_signal_frame;
    if (rules->Find(address(i), is_interrupted, true)->is_own) continue;
    node = NodeOf(memory, {address(i), 0, 0, is_interrupted}, node, cut);
    cut = StackCut::kWhole;
  }
  return node;
}

}  // namespace dlhook::inline unwind
