// Names of code that is compiled while the program runs, where samples are taken: the folder for them, beside the trace.
// Thread: any application thread, where code was just compiled. System calls, and a lock.
#pragma once

#include <cstdint>

namespace dlhook::inline runtime {

// NAME.jit beside this process's trace NAME.dlh, which exists then: other processes of the run, on other hosts, may have
// the same number. Null: nothing is sampled, there is no trace yet, or the folder can't be made.
char* JitFolder();

// A line of the perf map there, to which the launcher adds, too (analyzer/io/jit_names.h).
void AddJitName(uint64_t address, uint64_t bytes, const char* name);

}  // namespace dlhook::inline runtime
