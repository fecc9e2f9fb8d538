// What a thread is in now, for readers of a process that hangs: it writes a record only when a call or scope has ended.
// Thread: written by the one that owns the slot; read by a drain of a copy of the mapping, which trusts nothing in it.
#pragma once

#include "preload/format/hook_table.h"
#include "preload/format/record.h"
#include "preload/format/session.h"

namespace dlhook::inline format {

// A call's hook, and the lower 48 bits of when it began: a day and more.
inline uint64_t OpenCallWord(HookId hook, uint64_t start_ticks) { return start_ticks << 16 | (hook + 1u); }
inline HookId HookOfOpenCall(uint64_t word) { return static_cast<HookId>((word & 0xffff) - 1); }
inline uint64_t StartOfOpenCall(uint64_t word, uint64_t now) {
  return now - ((now - (word >> 16)) & (UINT64_MAX >> 16));
}

constexpr uint32_t kMaxOpenScopes = 64;
constexpr uint32_t kScopeNamesBytes = 8192;

struct OpenScopeEntry {
  const void* owner;
  uint64_t start_ticks;
  uint64_t first_sequence;
  int64_t link;
  uint32_t python_stack;
  uint16_t name_offset;
  uint16_t name_bytes;
  ScopeKind kind;
  uint8_t cut;
  uint8_t may_run_python;  // user code may run directly inside
};

// Of one slot, from the outermost to the innermost; their number is in the slot.
struct OpenScopes {
  OpenScopeEntry entries[kMaxOpenScopes];
  char names[kScopeNamesBytes];
};
static_assert(sizeof(OpenScopes) <= kOpenScopesBytes);

inline uint64_t OpenScopesOffset(uint32_t slot) { return kOpenScopesStart + slot * kOpenScopesBytes; }

}  // namespace dlhook::inline format
