// What the runtime needs of the rooms above it, which define these functions. A unit test
// defines those that it leaves out (tests/preload/test_process.cc).
// Thread: any application thread, for itself only.
#pragma once

#include "preload/format/hook_table.h"
#include "preload/runtime/scope.h"
#include "preload/runtime/thread_state.h"

namespace dlhook::inline link {

// Incremented by dlclose: cached bindings may then point to unmapped or reused addresses.
extern std::atomic<uint32_t> g_binding_generation;

inline uint32_t CurrentBindingGeneration() { return g_binding_generation.load(std::memory_order_relaxed); }

inline uint32_t BindingCacheIndex(uint64_t key) {
  return static_cast<uint32_t>((key >> 2) ^ (key >> 9) ^ (key >> 48)) & (kBindingCacheEntries - 1);
}

// Never returns null: if there is no real function, does what the loader would do (symbol lookup error, exit 127).
// Saves errno. `thread` may be null (nothing is cached then).
void* ResolveReal(ThreadState* thread, HookId hook, void* caller);

}  // namespace dlhook::inline link

namespace dlhook::inline process {

// Additions to some calls' records: a native stack, readings of counters around them, times of the GPU work they
// submit. Outlined: a call without any costs one test.
//
// Families whose calls have details by configuration, for ThreadState.detail_families; without those only needed for
// GPU times.
uint32_t DetailFamilies();
uint32_t HostDetailFamilies();

// Before the call's start is read.
void BeginCallDetail(ThreadState* thread, uint32_t family_bit, uint64_t sequence);

// After the call's end is read; it took `duration_ticks`. Returns the StackNode of its caller, 0: none is kept.
uint32_t EndCallDetail(ThreadState* thread, uint32_t family_bit, uint64_t duration_ticks);

}  // namespace dlhook::inline process

namespace dlhook::inline python {

// The Python stack of the calling thread: files, functions, lines, and the modules (torch.nn.Module, keras.Layer) whose
// calls its frames are. A known stack costs a walk over its frames: no lock, no allocation, no system call, no
// reference count, no GIL. Only a new one is described (format/definitions.h), under a lock. python/README.md explains
// why that is safe.
//
// Its definition (kPythonStack); 0: no Python, or none of its frames on this thread.
uint32_t CapturePythonStack(ThreadState* thread);

// The same in a signal's handler, of what it interrupted at `address`: an interpreter's code shows a Python that began after
// the thread was attached. Modules that no call has numbered are left out.
uint32_t CaptureInterruptedPythonStack(ThreadState* thread, uint64_t address);

// 1: recorded calls have stacks (DLHOOK_PYTHON=on, and there is a Python).
extern std::atomic<uint32_t> g_python_for_calls;

// Whether they have them now (DLHOOK_BUDGET leaves them out between its windows).
void RecordPythonOfCalls(bool is_wanted);

// Looks for Python again if none was found; for slow paths (a thread attaches, a new caller is bound).
void RefreshPython();

// Writes a PythonStackRecord if the stack differs from that of the last recorded call. False: the ring had no room, and
// the call would be attributed to a wrong place.
bool RecordPythonStack(ThreadState* thread);

// The first step of a recorded call that is not nested in another.
inline bool NotePythonOfCall(ThreadState* thread) {
  if (__builtin_expect(g_python_for_calls.load(std::memory_order_relaxed) == 0, 1)) return true;
  return !MayHavePythonFrames(thread) || RecordPythonStack(thread);
}

}  // namespace dlhook::inline python

namespace dlhook::inline counters {

// When a thread begins to record and when it ends. Opening makes several system calls.
void OpenThreadCounters(ThreadState* thread);
void CloseThreadCounters(ThreadState* thread);

// When a scope of the thread begins or ends that is not inside a framework's operator: takes a reading, unless the last
// one is too recent. A system call, or rdpmc.
void ReadCountersAtScope(ThreadState* thread, ScopeKind kind);

}  // namespace dlhook::inline counters

namespace dlhook::inline sample {

// When a thread begins to record and when it ends: the timer for samples of its CPU time (DLHOOK_SAMPLE).
void OpenThreadSamples(ThreadState* thread);
void CloseThreadSamples(ThreadState* thread);

}  // namespace dlhook::inline sample

namespace dlhook::inline tap {

// PyTorch's memory is not recorded any more: the first of DLHOOK_BUDGET's windows has ended.
extern std::atomic<bool> g_is_memory_over;

}  // namespace dlhook::inline tap

namespace dlhook::inline gpu {

// A GPU has worked for this process, and its times are recorded, now or in windows.
bool HasGpuTimes();

// Whether they are recorded now (DLHOOK_BUDGET leaves them out between its windows). Calls CUPTI.
void RecordGpuTimes(bool is_wanted);

}  // namespace dlhook::inline gpu
