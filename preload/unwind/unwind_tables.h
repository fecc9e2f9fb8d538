// The rule for an address of this process: which object holds it, its tables; for code of no object what was registered
// for it (JIT compilers), else what its instructions tell.
// Thread: any application thread; for an address that is new to the thread. Takes no lock of the loader's for code of
// loaded objects (before glibc 2.35: it does); for other code that of dl_iterate_phdr, libgcc's, and once after each
// dlclose dlopen's.
#ifndef DLHOOK_PRELOAD_UNWIND_UNWIND_TABLES_H_
#define DLHOOK_PRELOAD_UNWIND_UNWIND_TABLES_H_

#include <cstdint>

#include "preload/unwind/unwind_rules.h"

struct link_map;

namespace dlhook::inline unwind {

// A loaded object, the vdso among them.
struct CodeObject {
  const link_map* map;
  uint64_t start;
  uint64_t end;
  const uint8_t* table;  // .eh_frame_hdr; null: it has none
};
bool FindCodeObject(uint64_t address, CodeObject* object);

struct FoundRule {
  UnwindRule rule;
  bool is_guess;  // nothing says so: the frame is taken to have a frame pointer
  bool is_code;   // false: nothing can have been called from there
};

// Is the instruction before `address` a call? A system call.
bool FollowsCall(uint64_t address);

// `address`: of the frame, a return address or (is_interrupted) the instruction that a signal came before. `object` is
// filled its map is not null then. `may_lock`: libgcc may be asked for code that a JIT compiler registered.
FoundRule FindRule(uint64_t address, bool is_interrupted, bool may_lock, CodeObject* object);

}  // namespace dlhook::inline unwind

#endif  // DLHOOK_PRELOAD_UNWIND_UNWIND_TABLES_H_
