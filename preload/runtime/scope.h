// Scopes of the calling thread: named brackets around calls, reported by the taps of frameworks
// (tap/record_function.cc, trace_me.cc, nvtx.cc).
// Thread: any application thread; each thread's scopes are its own. Never allocates, locks or makes a system call once
// the thread is attached, except for a new Python stack (python/python_stack.cc).
#pragma once

#include "preload/runtime/thread_state.h"

namespace dlhook::inline runtime {

// The calling thread if scopes of this family are recorded now, else null. Attaches it if necessary.
ThreadState* ScopeThread(uint32_t family_bit);

// Opens a scope. `name` is copied. `owner` identifies the CloseScope that ends it; `link`: see proto/call.proto, -1 for
// none. Scopes beyond kMaxOpenScopes or the room for names are counted and not recorded.
void OpenScope(ThreadState* thread, ScopeKind kind, const char* name, size_t name_bytes, int64_t link,
               const void* owner);

// Ends the innermost open scope of this owner, and unended ones inside it, except for user ranges, which may end in any
// order. False, and no change, for an unknown owner: its scope began before recording did, or on another thread. A
// scope that began while recording is also written if recording has stopped since.
bool CloseScope(ThreadState* thread, const void* owner);

// A scope that has ended and whose beginning was not reported: it began `duration_ticks` before its end. `end_ticks` 0: now.
void RecordEndedScope(ThreadState* thread, ScopeKind kind, const char* name, size_t name_bytes, uint64_t duration_ticks,
                      uint64_t end_ticks = 0, int64_t link = -1);

// False inside an operator of a framework: between the calls there, no Python runs.
bool MayHavePythonFrames(const ThreadState* thread);

// The Python stack of the innermost open scope that has one; 0: none.
uint32_t OpenPythonStack(const ThreadState* thread);

}  // namespace dlhook::inline runtime
