// Limits the descriptors kept open for sampling counters to a quarter of the process's limit, over all its samplers
// (`dlhook run` has one per recorded process). A sampler without descriptors opens its files for each read.
// Thread: any. One system call.
#pragma once

#include <cstdint>

namespace dlhook::inline drain {

// All or, false, none.
bool TakeDescriptors(uint32_t count);
void GiveBackDescriptors(uint32_t count);

}  // namespace dlhook::inline drain
