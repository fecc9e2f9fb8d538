// Kernels that LIBXSMM handed out: whether one was new, and that calls through their pointers are not seen.
// Thread: any application thread. No lock, except for the first kernel that the program itself asks for, and, where samples
// are taken, for new ones, whose names go into a file.
#pragma once

#include "preload/hook_arguments.h"

namespace dlhook::inline track {

// Handed out before this time. Kernels are never freed.
bool IsKnownLibxsmmKernel(uint64_t kernel, uint64_t ticks);

void TrackLibxsmmKernel(const LibxsmmKernelArgs& args);

}  // namespace dlhook::inline track
