// How many descriptors stay open to sample counters: at most a quarter of what the process may have, of all samplers in it
// together (`dlhook run` has one for each process that it records). Whoever gets none opens its file for each read.
// Thread: any. One system call.
#ifndef DLHOOK_PRELOAD_DRAIN_DESCRIPTOR_BUDGET_H_
#define DLHOOK_PRELOAD_DRAIN_DESCRIPTOR_BUDGET_H_

#include <cstdint>

namespace dlhook::inline drain {

// All or, false, none.
bool TakeDescriptors(uint32_t count);
void GiveBackDescriptors(uint32_t count);

}  // namespace dlhook::inline drain

#endif  // DLHOOK_PRELOAD_DRAIN_DESCRIPTOR_BUDGET_H_
