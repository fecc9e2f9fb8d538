#include "preload/track/libxsmm_kernels.h"

#include <stdio.h>

#include "preload/link/library_api.h"
#include "preload/runtime/jit_names.h"
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

// libxsmm_kernel_info, libxsmm_mmkernel_info
struct CodeInfo {
  int32_t kind;
  uint32_t operations;
  uint64_t bytes;
};
struct ProductInfo {
  int32_t input, output, prefetch;
  uint32_t lda, ldb, ldc;
  uint32_t m, n, k;
  int32_t flags;
};

struct NameApi : FunctionTable {
  using FunctionTable::FunctionTable;
  int (*code)(uint64_t kernel, CodeInfo* info) = Find("libxsmm_get_kernel_info");
  int (*product)(uint64_t kernel, ProductInfo* info) = Find("libxsmm_get_mmkernel_info");
};

// "libxsmm_kernel_f32_16x12x10", for samples: LIBXSMM's own perf map is not in Debian's build.
void NameCode(uint64_t kernel, const void* real) {
  constexpr const char* kTypes[] = {"f64", "f32", "bf16", "s64", "s32", "s16", "s8"};
  constexpr uint64_t kMostBytes = 1 << 20;
  const NameApi* api = ApiOf<NameApi>(real);
  CodeInfo code = {};
  ProductInfo product = {};
  char name[96] = "libxsmm_kernel";
  bool is_code = api != nullptr && api->code != nullptr && api->code(kernel, &code) == 0;
  if (!is_code || code.bytes == 0 || code.bytes > kMostBytes) return;
  bool is_product =
      api->product != nullptr && api->product(kernel, &product) == 0 && product.input >= 0 && product.input < 7;
  if (is_product)
    snprintf(name, sizeof name, "libxsmm_kernel_%s_%ux%ux%u", kTypes[product.input], product.m, product.n, product.k);
  AddJitName(kernel, code.bytes, name);
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
    if (thread->session->sample_interval_ns != 0) NameCode(args.result, args.real);
  }
  // Inside another call it is LIBXSMM that calls the kernel, for what that call computes.
  static std::atomic<bool> is_said{false};
  if (thread->depth != 0 || is_said.load(std::memory_order_relaxed) || is_said.exchange(true)) return;
  ReportCapability("libxsmm-kernels", "", CapabilityState::kAbsent,
                   "the program calls kernels through pointers, which no hook sees");
}

}  // namespace dlhook::inline track
