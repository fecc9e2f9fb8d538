// Which kind of host memory a copy accesses: pageable, pinned or managed, according to the CUDA library.
// Thread: any application thread. The library is asked once per address and thread, until host memory is registered,
// allocated or freed through CUDA.
#pragma once

#include "preload/hook_arguments.h"

namespace dlhook::inline track {

// What an address belongs to.
enum class MemorySpace : uint8_t { kUnknown, kPageable, kPinned, kDevice, kManaged };

// `real`: a function of the runtime or the driver that was just called with this address.
MemorySpace SpaceOf(const void* address, const void* real);

HostMemory HostMemoryOf(MemorySpace space);

// After calls that change what addresses belong to.
void TrackMemoryChange(const MemoryChangeArgs& args);

}  // namespace dlhook::inline track
