// The version of a symbol that an object was linked against, from its own ELF tables.
// Thread: any application thread; slow path only.
#pragma once

struct link_map;

namespace dlhook::inline link {

// "libcudart.so.12" if `object` refers to `name` in that version; null if it refers to none, or not to `name` at all.
const char* RequiredVersion(const link_map* object, const char* name);

}  // namespace dlhook::inline link
