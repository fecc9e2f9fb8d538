// The functions in which a sleeping thread of another process stands, read from outside: the process is not stopped.
#pragma once

#include "analyzer/model/prelude.h"

namespace dlhook::analyzer::inline symbols {

// What the system tells of a thread that is inside a system call: its number, arguments, stack pointer and instruction. Equal as
// long as the thread stands there. Empty: it runs, is gone, or the system does not tell us.
std::string SystemCallOf(uint32_t pid, uint32_t tid);

// Innermost first, shortened as in other stacks, the interpreter's own as one "[Python]"; "…" from where it can't be followed further
// (OutsideFrames). `system_call`: SystemCallOf's. Takes up to a second where libraries are large.
std::vector<std::string> LiveStack(uint32_t pid, const std::string& system_call);

}  // namespace dlhook::analyzer::symbols
