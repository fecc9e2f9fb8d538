// The rule for an address of this process: its object and that object's tables; for code outside of objects the FDE
// registered for it (JIT compilers), else a guess from its instructions.
// Thread: any application thread; for an address that is new to the thread. Does not take the loader's lock for code of
// loaded objects (before glibc 2.35 it does); for other code it takes that of dl_iterate_phdr, libgcc's, and once after
// each dlclose dlopen's.
#pragma once

#include "preload/unwind/unwind_rules.h"

struct link_map;

namespace dlhook::inline unwind {

// A loaded object, including the vdso.
struct CodeObject {
  const link_map* map;
  uint64_t start;
  uint64_t end;
  const uint8_t* table;  // .eh_frame_hdr; null: none
};
bool FindCodeObject(uint64_t address, CodeObject* object, bool may_lock = true);

// Whether the instruction before `address` is a call. A system call.
bool FollowsCall(uint64_t address);

// `address`: of the frame, a return address or (is_interrupted) the instruction interrupted by a signal. `object`: the
// one that contains it, with a null map if there is none. `may_lock`: libgcc may be asked for code registered by a JIT
// compiler.
FoundRule FindRule(uint64_t address, bool is_interrupted, bool may_lock, CodeObject* object);

// In native_stack.cc: the objects that contain frames of native stacks: each is recorded in the trace once, and detected when it is
// unloaded. Takes a spin lock.
void NoteCodeObject(const CodeObject& object);

// After dlclose, by each thread that captures stacks: if such an object is gone, the nodes of its addresses are
// retired.
void RetireGoneObjects(uint32_t generation);

}  // namespace dlhook::inline unwind
