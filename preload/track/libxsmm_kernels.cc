#include "preload/track/libxsmm_kernels.h"

#include <atomic>

#include "preload/runtime/registry.h"
#include "preload/runtime/thread_state.h"

namespace dlhook::inline track {
namespace {

struct Kernel {
  std::atomic<uint64_t> address;  // 0: free
  std::atomic<uint64_t> ticks;    // when it was handed out first
};
// Of kernels beyond its capacity all count as known.
constexpr uint32_t kKernels = 16384;
Kernel g_kernels[kKernels];

// The kernel's place, or a free one, or null: there is no room.
Kernel* PlaceOf(uint64_t address) {
  uint64_t start = (address * 0x9e3779b97f4a7c15u) >> 50;
  for (uint64_t i = 0; i < 64; ++i) {
    Kernel& place = g_kernels[(start + i) % kKernels];
    uint64_t found = place.address.load(std::memory_order_acquire);
    if (found == address || found == 0) return &place;
  }
  return nullptr;
}

}  // namespace

bool IsKnownLibxsmmKernel(uint64_t kernel, uint64_t ticks) {
  if (kernel == 0) return false;
  const Kernel* place = PlaceOf(kernel);
  if (place == nullptr) return true;
  // Functions for a type call the one for all types, which was first.
  return place->address.load(std::memory_order_acquire) != 0 && place->ticks.load(std::memory_order_relaxed) < ticks;
}

void TrackLibxsmmKernel(const LibxsmmKernelArgs& args) {
  const ThreadState* thread = dlhook_thread;
  if (args.result == 0 || thread == nullptr) return;
  Kernel* place = PlaceOf(args.result);
  if (place != nullptr && place->address.load(std::memory_order_relaxed) == 0) {
    // Two threads that want one place: the other's kernel counts as new once more.
    place->ticks.store(ReadTicks(thread->clock), std::memory_order_relaxed);
    place->address.store(args.result, std::memory_order_release);
  }
  // Inside another call it is LIBXSMM that calls the kernel, for what that call computes.
  static std::atomic<bool> is_said{false};
  if (thread->depth != 0 || is_said.load(std::memory_order_relaxed) || is_said.exchange(true)) return;
  ReportCapability("libxsmm-kernels", "", CapabilityState::kAbsent,
                   "the program calls kernels through pointers, which no hook sees");
}

}  // namespace dlhook::inline track
