// Kernels that LIBXSMM handed out: whether one was new, and that calls through their pointers are not seen.
// Thread: any application thread. No lock, except for the first kernel that the program itself asks for, and, where samples
// are taken, for new ones, whose names go into a file.
#pragma once

#include <cstdint>

namespace dlhook::inline track {

// Handed out before this time. Kernels are never freed.
bool IsKnownLibxsmmKernel(uint64_t kernel, uint64_t ticks);

struct LibxsmmKernelArgs {
  int32_t status = 0;
  const void* real = nullptr;
  uint64_t result = 0;  // the kernel's address; 0: there is none
};
void TrackLibxsmmKernel(const LibxsmmKernelArgs& args);

}  // namespace dlhook::inline track
