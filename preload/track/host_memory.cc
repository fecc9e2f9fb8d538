#include "preload/track/host_memory.h"

#include "preload/link/library_api.h"
#include "preload/runtime/thread_state.h"

namespace dlhook::inline track {
namespace {

struct PointerApi {
  int (*runtime_attributes)(void* attributes, const void* address);
  int (*driver_attribute)(void* data, int attribute, uint64_t address);
  int (*runtime_version)(int* version);
  bool can_ask;
  void Load(const void* real) {
    runtime_attributes =
        reinterpret_cast<int (*)(void*, const void*)>(LibraryFunction(real, "cudaPointerGetAttributes"));
    driver_attribute = reinterpret_cast<int (*)(void*, int, uint64_t)>(LibraryFunction(real, "cuPointerGetAttribute"));
    runtime_version = reinterpret_cast<int (*)(int*)>(LibraryFunction(real, "cudaRuntimeGetVersion"));
    // Before CUDA 11 a query about pageable memory is an error that the program would see in cudaGetLastError.
    int version = 0;
    can_ask = driver_attribute != nullptr || (runtime_attributes != nullptr && runtime_version != nullptr &&
                                              runtime_version(&version) == 0 && version >= 11000);
  }
};

std::atomic<uint32_t> g_generation{1};

// cudaPointerAttributes begins with the type in every version; its size is 24 bytes up to CUDA 12, 88 in CUDA 13.
struct RuntimeAttributes {
  int32_t type;  // cudaMemoryType: unregistered 0, host 1, device 2, managed 3
  char rest[252];
};
constexpr int kMemoryType = 2;  // CU_POINTER_ATTRIBUTE_MEMORY_TYPE: host 1, device 2, array 3, unified 4
constexpr int kIsManaged = 8;   // CU_POINTER_ATTRIBUTE_IS_MANAGED
constexpr int kErrorInvalidValue = 1;

MemorySpace AskRuntime(const PointerApi& api, const void* address) {
  RuntimeAttributes attributes = {};
  if (api.runtime_attributes(&attributes, address) != 0) return MemorySpace::kUnknown;
  constexpr MemorySpace kSpaces[] = {MemorySpace::kPageable, MemorySpace::kPinned, MemorySpace::kDevice,
                                     MemorySpace::kManaged};
  return attributes.type >= 0 && attributes.type <= 3 ? kSpaces[attributes.type] : MemorySpace::kUnknown;
}

MemorySpace AskDriver(const PointerApi& api, const void* address) {
  uint64_t number = reinterpret_cast<uint64_t>(address);
  uint32_t managed = 0;
  if (api.driver_attribute(&managed, kIsManaged, number) == 0 && managed != 0) return MemorySpace::kManaged;
  uint32_t type = 0;
  int status = api.driver_attribute(&type, kMemoryType, number);
  if (status == kErrorInvalidValue) return MemorySpace::kPageable;  // an address unknown to CUDA
  if (status != 0) return MemorySpace::kUnknown;
  return type == 1 ? MemorySpace::kPinned : type == 2 ? MemorySpace::kDevice : MemorySpace::kUnknown;
}

MemorySpace AskDriver(const void* address, const void* real) {
  const PointerApi* api = ApiOf<PointerApi>(real);
  if (api == nullptr || !api->can_ask) return MemorySpace::kUnknown;
  return api->runtime_attributes != nullptr ? AskRuntime(*api, address) : AskDriver(*api, address);
}

// A thread's answers: sets of four, so that a few buffers in use do not evict each other.
constexpr uint32_t kWays = 4;

// Replaces the oldest answer of the set.
__attribute__((noinline)) MemorySpace AskAndKeep(MemoryAnswer* set, uint32_t generation, const void* address,
                                                 const void* real) {
  for (uint32_t i = kWays - 1; i > 0; --i) set[i] = set[i - 1];
  set[0] = {reinterpret_cast<uint64_t>(address), generation, static_cast<uint32_t>(AskDriver(address, real))};
  return static_cast<MemorySpace>(set[0].space);
}

}  // namespace

MemorySpace SpaceOf(const void* address, const void* real) {
  ThreadState* thread = dlhook_thread;
  if (thread == nullptr) return AskDriver(address, real);
  uint64_t number = reinterpret_cast<uint64_t>(address);
  uint32_t generation = g_generation.load(std::memory_order_relaxed);
  static_assert(sizeof thread->memory_answers / sizeof *thread->memory_answers == 16 * kWays);
  MemoryAnswer* set = thread->memory_answers + ((number * 0x9e3779b97f4a7c15u) >> 60) * kWays;
  for (uint32_t i = 0; i < kWays; ++i) {
    if (set[i].address == number && set[i].generation == generation) return static_cast<MemorySpace>(set[i].space);
  }
  return AskAndKeep(set, generation, address, real);
}

HostMemory HostMemoryOf(MemorySpace space) {
  switch (space) {
    case MemorySpace::kPageable:
      return HostMemory::kPageable;
    case MemorySpace::kPinned:
      return HostMemory::kPinned;
    case MemorySpace::kManaged:
      return HostMemory::kManaged;
    default:
      return HostMemory::kUnknown;
  }
}

void TrackMemoryChange(const MemoryChangeArgs& args) {
  if (args.status == 0) g_generation.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace dlhook::inline track
