// Identifies this process and its run. Reads /proc once, when the session begins; stores program and script name, never
// the rest of the command line or the environment.
// Thread: the one that starts the session.
#pragma once

#include "preload/format/session.h"

namespace dlhook::inline format {

// Base name of an interpreter's script. Call at the start of the process, with its argv: programs overwrite it later
// (setproctitle).
void ScriptAtStart(const char* const* words, char (*script)[64]);

// Sets pid, parent, start time, boot id, host, program, script (if the program is an interpreter) and rank variables.
void DescribeProcess(const char* script, SessionHeader* session);

// A key that is equal for all processes of one launch and differs between launches, usable as a file name:
// "slurm-1234.0", "torchrun-…", "4700-8812345" (process group and its leader's start time). See preload/README.md.
void MakeRunKey(char* key, size_t size);

// Appends `more`, with '_' in place of what should not be in a file's name.
void AppendSafe(char* text, size_t size, const char* more);

// Field 22 of /proc/PID/stat: start time in jiffies since boot. 0: no such process.
uint64_t StartTimeOf(uint32_t pid);

// Inode of the calling process's pid namespace; 0: unknown.
uint64_t PidNamespace();

// The name of a launcher with process id `pid` in DLHOOK_COLLECTOR: "PLACE/BUILD". PLACE differs for another user, pid
// namespace, /dev/shm or machine, BUILD for one that reads other rings: their processes then drain themselves.
void NameCollector(uint32_t pid, char* name, size_t size);

// From argv, which ends with a null pointer. Pure.
void FindScript(const char* program, const char* const* words, char (*script)[64]);
// The executable's base name as it was started (a link's, for example). Not argv[0], which callers may set to anything.
void FindProgram(const char* started_as, char (*program)[64]);
// The base names of LD_PRELOAD's objects without dlhook's own: "libjemalloc.so.2:libfoo.so".
void FindPreloaded(const char* list, char (*names)[64]);

// The contents of the file, at most `size - 1` bytes and a terminating zero; returns their number.
size_t ReadFileAt(int folder, const char* path, char* text, size_t size);

}  // namespace dlhook::inline format
