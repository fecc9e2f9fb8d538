// What a thread does, as the drain sees it from outside: counters of a CounterBatch of kind STATES, in nanoseconds since
// the thread began. Used by the drain, which writes them, and by the analyzer.
// Thread: any; constant.
#pragma once

#include <cstdint>

namespace dlhook::inline format {

// Where a thread was found that did not want to run: by its system call.
enum class BlockedIn : uint32_t { kLock, kPoll, kTransfer, kSleep, kChild, kFault, kOther };
constexpr uint32_t kBlockedIns = 7;

// Exact counters, and for each BlockedIn how long the looks stand for that found the thread there.
constexpr uint32_t kThreadStates = 2 + kBlockedIns;
constexpr const char* kThreadStateNames[kThreadStates] = {"running", "queued", "lock",  "poll", "transfer",
                                                          "sleep",   "child",  "fault", "other"};
constexpr char kThreadStateList[] = "running,queued,lock,poll,transfer,sleep,child,fault,other";

}  // namespace dlhook::inline format
