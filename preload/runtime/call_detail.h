// Additions to some calls' records: a native stack, readings of counters around them, times of the GPU work they
// submit. Outlined: a call without any costs one test.
// Thread: any application thread, for its own calls.
#pragma once

#include "preload/runtime/thread_state.h"

namespace dlhook::inline process {

// Families whose calls have details by configuration. For ThreadState.detail_families.
uint32_t DetailFamilies();
// The same without those only needed for GPU times.
uint32_t HostDetailFamilies();

// Before the call's start is read.
void BeginCallDetail(ThreadState* thread, uint32_t family_bit, uint64_t sequence);

// After the call's end is read; it took `duration_ticks`. Returns the StackNode of its caller, 0: none is kept.
uint32_t EndCallDetail(ThreadState* thread, uint32_t family_bit, uint64_t duration_ticks);

}  // namespace dlhook::inline process
