// What the process knows about itself besides calls: relevant loaded objects and capabilities. Stored here because it
// is often known before there is a session (dlsym, getenv) and must be repeated in a forked child's own trace.
// Thread: any; takes a spin lock. Slow paths only.
#pragma once

#include "preload/runtime/thread_state.h"

struct link_map;

namespace dlhook::inline runtime {

using MappingRole = fields::Mapping::Role;

using CapabilityState = fields::Capability::State;

// `caller` calls a function `name` that is in `library`. Either may be null (JIT code).
void ReportBinding(const link_map* caller, const link_map* library, const char* name);

// Frames of native stacks are in `object`, mapped at [start, end). Does not take the loader's lock.
void ReportCode(const link_map* object, uint64_t start, uint64_t end);

// The last state of a (name, object) counts. Strings are copied.
void ReportCapability(const char* name, const char* object, CapabilityState state, const char* reason);

// A library's own description of its calls can't be had.
bool IsALibraryRefused();

// dlsym had to return a real pointer.
void CountPlainPointer();

// Writes what this process's trace does not contain yet into the thread's ring.
void FlushRegistry(ThreadState* thread);

}  // namespace dlhook::inline runtime
