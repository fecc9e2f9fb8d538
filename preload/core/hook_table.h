// What the generated code (scripts/gen_hooks.py from preload/api/*.api) offers to the rest.
// Two generated files: hook_names.cc (names only: linked by the drain, so by the analyzer too) and hooks.cc (the
// exported wrappers: linked into libdlhook.so only).
#ifndef DLHOOK_PRELOAD_CORE_HOOK_TABLE_H_
#define DLHOOK_PRELOAD_CORE_HOOK_TABLE_H_

#include <cstdint>

namespace dlhook {

using HookId = uint16_t;

// Families are what DLHOOK_CAPTURE selects. Bit i of a mask is kFamilyNames[i].
extern const char* const kFamilyNames[];
extern const int kFamilyCount;

struct HookName {
  const char* name;  // exported symbol
  uint8_t family;    // index into kFamilyNames
};
// Sorted by name (strcmp order); a HookId is an index.
extern const HookName kHookNames[];
extern const int kHookCount;
// FNV-1a over all names and families in order: equal in two builds means equal ids.
extern const uint64_t kHookTableHash;

struct HookLink {
  void* wrapper;               // address of the exported function
  const char* const* sonames;  // where to look last, null-terminated
};
extern const HookLink kHookLinks[];  // hooks.cc, by HookId

// Id of `name`, or -1. Binary search; no allocation.
int FindHook(const char* name);

}  // namespace dlhook

#endif  // DLHOOK_PRELOAD_CORE_HOOK_TABLE_H_
