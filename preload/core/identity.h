// Who this process is and which run it belongs to. Reads /proc once, when the session begins; stores program and script
// name, never other words of the command line or the environment.
// Thread: the one that starts the session.
#ifndef DLHOOK_PRELOAD_CORE_IDENTITY_H_
#define DLHOOK_PRELOAD_CORE_IDENTITY_H_

#include <cstddef>
#include <cstdint>

#include "preload/core/session.h"

namespace dlhook {

// Fills pid, parent, start time, boot id, host, program, script and rank variables.
void DescribeProcess(SessionHeader* session);

// A word that is the same for all processes of one launch and differs between launches, in the shape of a file name:
// "slurm-1234.0", "torchrun-…", "4700-8812345" (process group and its leader's start time). See preload/README.md.
void MakeRunKey(char* key, size_t size);

// Field 22 of /proc/PID/stat: start time in jiffies since boot. 0: no such process.
uint64_t StartTimeOf(uint32_t pid);

// Inode of the calling process's pid namespace; 0: unknown.
uint64_t PidNamespace();

// What a launcher of process id `pid` is called in DLHOOK_COLLECTOR: another user, another pid namespace, another /dev/shm or
// another machine calls it otherwise, and its processes drain themselves.
void NameCollector(uint32_t pid, char* name, size_t size);

// Of argv as in /proc/self/cmdline (NUL-separated words; words[size] is NUL, too). Pure: unit-tested.
void FindProgramAndScript(const char* words, size_t size, char (*program)[64], char (*script)[64]);

}  // namespace dlhook

#endif  // DLHOOK_PRELOAD_CORE_IDENTITY_H_
