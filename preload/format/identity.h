// Who this process is and which run it belongs to. Reads /proc once, when the session begins; stores program and script
// name, never other words of the command line or the environment.
// Thread: the one that starts the session.
#ifndef DLHOOK_PRELOAD_FORMAT_IDENTITY_H_
#define DLHOOK_PRELOAD_FORMAT_IDENTITY_H_

#include <cstddef>
#include <cstdint>

#include "preload/format/session.h"

namespace dlhook::inline format {

// Base name of an interpreter's script. To be asked when the process begins, with its argv: programs write other things over it later
// (setproctitle).
void ScriptAtStart(const char* const* words, char (*script)[64]);

// Fills pid, parent, start time, boot id, host, program, script (if the program is an interpreter) and rank variables.
void DescribeProcess(const char* script, SessionHeader* session);

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

// Of argv, which ends with a null pointer. Pure.
void FindScript(const char* program, const char* const* words, char (*script)[64]);
// The executable's base name: that by which it was started (a link's, say), which is not argv[0]: callers put anything there.
void FindProgram(const char* started_as, char (*program)[64]);

// What the file says, `size - 1` bytes at most and a zero after them; their number.
size_t ReadFileAt(int folder, const char* path, char* text, size_t size);

}  // namespace dlhook::inline format

#endif  // DLHOOK_PRELOAD_FORMAT_IDENTITY_H_
