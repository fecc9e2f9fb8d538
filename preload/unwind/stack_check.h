// DLHOOK_STACKS_CHECK: how stacks compare with others' ways to find them. libunwind is opened here, never linked: its
// exports would take the host's C++ exceptions over.
// Thread: any application thread. Slow, allocates, takes the loader's lock: for tests and doubts.
#ifndef DLHOOK_PRELOAD_UNWIND_STACK_CHECK_H_
#define DLHOOK_PRELOAD_UNWIND_STACK_CHECK_H_

#include <cstdint>

#include "preload/runtime/thread_state.h"

namespace dlhook {

// The calling thread's stack by libunwind's unw_backtrace: addresses, their number. 0: there is no libunwind.
constexpr uint32_t kMaxCheckedAddresses = 544;  // more than are kept: the shim's own come first
uint32_t BacktraceOfLibunwind(void** addresses);

// Is that the stack of `node`? `is_own`: of an address, is it in the shim?
using IsOwnAddress = bool (*)(void* context, uint64_t address);
bool EqualsNode(const SessionHeader& session, uint32_t node, void* const* addresses, uint32_t count,
                IsOwnAddress is_own, void* context);

// Ways to find a stack. Their times in place are compared: each is the first, which has to bring the stack's memory
// into the cache, by turns.
enum class StackWay : uint8_t { kJoined, kWhole, kLibunwind };
constexpr uint32_t kStackWays = 3;

StackWay FirstWay();

// `as_whole`: the same was found without joining the last stack. `ticks`: of the first way.
void CountCheckedStack(bool as_whole, bool as_libunwind, StackWay first, uint64_t ticks);

// As a capability, "native-stacks-check".
void ReportStackCheck(ThreadState* thread);

}  // namespace dlhook

#endif  // DLHOOK_PRELOAD_UNWIND_STACK_CHECK_H_
