// What the generated code (scripts/gen_hooks.py from preload/api/*.api) offers to the rest.
// Generated: hook_names.cc (names only: linked by the drain, so by the analyzer too), hooks.cc (tables that know the
// wrappers) and hooks_N.cc (the exported wrappers): linked into libdlhook.so only.
#ifndef DLHOOK_PRELOAD_FORMAT_HOOK_TABLE_H_
#define DLHOOK_PRELOAD_FORMAT_HOOK_TABLE_H_

#include <cstdint>

namespace dlhook::inline format {

using HookId = uint16_t;

// Families are what DLHOOK_CAPTURE selects. Bit i of a mask is kFamilyNames[i].
extern const char* const kFamilyNames[];
extern const int kFamilyCount;
// Those that are captured where DLHOOK_CAPTURE does not say otherwise.
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

// Which function cuGetProcAddress answers: of those with the asked-for name and kind of default stream the one with the
// greatest `since` that is not above the asked-for version. Where a name has none for the per-thread kind, the other
// kind's.
struct DriverVariant {
  const char* name;           // as asked for: without _v2, _ptsz, _ptds
  uint32_t since;             // CUDA version, as in 12080
  uint8_t per_thread_stream;  // 1: the caller's default stream is one per thread (_ptsz, _ptds)
  HookId hook;
};
// Sorted by name (strcmp order), per_thread_stream, since. In hooks.cc.
extern const DriverVariant kDriverVariants[];
extern const int kDriverVariantCount;
// The version up to which the variants are known: a later one may answer a name with another argument list.
extern const uint32_t kNewestDriverVersion;

// Id of `name`, or -1. Binary search; no allocation.
int FindHook(const char* name);

}  // namespace dlhook::inline format

#endif  // DLHOOK_PRELOAD_FORMAT_HOOK_TABLE_H_
