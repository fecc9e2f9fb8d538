// Weak references to hooked functions that nobody defines but the shim: without dlhook they would be null. mpi4py asks by
// them which functions the MPI library has.
// Thread: any application thread; slow path only.
#pragma once

struct link_map;

namespace dlhook::inline link {

// Makes those of `object` null again. Before its first call of a hook nothing of the shim runs for it, so an object that
// asks before that still finds them.
void ClearAbsentReferences(const link_map* object);

}  // namespace dlhook::inline link
