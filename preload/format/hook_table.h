// The interface of the generated code (scripts/gen_hooks.py from preload/api/*.api). Generated: hook_names.cc (only
// names: linked by the drain, and so by the analyzer), hooks.cc (tables of wrappers) and hooks_N.cc (the exported
// wrappers), both linked into libdlhook.so only.
#pragma once

#include <cstdint>

namespace dlhook::inline format {

using HookId = uint16_t;

// DLHOOK_CAPTURE selects families. Bit i of a mask is kFamilyNames[i].
extern const char* const kFamilyNames[];
extern const int kFamilyCount;
// Families that are captured by default.
extern const uint32_t kDefaultFamilies;

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

// The function that cuGetProcAddress returns: among those with the requested name and kind of default stream, the one
// with the greatest `since` not above the requested version. If a name has none for the per-thread kind, that of the
// other kind.
struct DriverVariant {
  const char* name;           // as requested: without _v2, _ptsz, _ptds
  uint32_t since;             // CUDA version, as in 12080
  uint8_t per_thread_stream;  // 1: the caller's default stream is one per thread (_ptsz, _ptds)
  HookId hook;
};
// Sorted by name (strcmp order), per_thread_stream, since. In hooks.cc.
extern const DriverVariant kDriverVariants[];
extern const int kDriverVariantCount;
// The version up to which the variants are known: a newer driver may return a function with another argument list.
extern const uint32_t kNewestDriverVersion;

// Id of `name`, or -1. Binary search; no allocation.
int FindHook(const char* name);

}  // namespace dlhook::inline format
