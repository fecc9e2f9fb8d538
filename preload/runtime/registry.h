// What the process knows about itself besides calls: loaded objects that matter and capabilities. Kept here because it is
// often learnt before there is a session (dlsym, getenv) and must be said again in a forked child's own trace.
// Thread: any; takes a spin lock. Slow paths only.
#ifndef DLHOOK_PRELOAD_RUNTIME_REGISTRY_H_
#define DLHOOK_PRELOAD_RUNTIME_REGISTRY_H_

#include <cstdint>

#include "preload/proto_fields.h"
#include "preload/runtime/thread_state.h"

struct link_map;

namespace dlhook::inline runtime {

using MappingRole = fields::Mapping::Role;

using CapabilityState = fields::Capability::State;

// `caller` calls a function `name` that `library` holds. Either may be null (JIT code).
void ReportBinding(const link_map* caller, const link_map* library, const char* name);

// Frames of native stacks lie in `object`, mapped at [start, end). Takes no lock of the loader's.
void ReportCode(const link_map* object, uint64_t start, uint64_t end);

// The last state of a (name, object) holds. Strings are copied.
void ReportCapability(const char* name, const char* object, CapabilityState state, const char* reason);

// A library's own word on its calls can't be had.
bool IsALibraryRefused();

// dlsym had to give out a real pointer.
void CountPlainPointer();

// Writes what this process's trace does not have yet into the thread's ring.
void FlushRegistry(ThreadState* thread);

}  // namespace dlhook::inline runtime

#endif  // DLHOOK_PRELOAD_RUNTIME_REGISTRY_H_
