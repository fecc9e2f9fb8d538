// Finds functions of libc.so.6 for libc_functions.S while the loader relocates the shim: nothing here may call a
// function of the C library, or use an indirect relocation.
// Thread: the one that loads the shim.
#include "preload/base/libc_functions.h"

#include "preload/base/dynamic_tables.h"

namespace dlhook::inline base {
namespace {

bool Equal(const char* one, const char* other) {
  for (; *one == *other; ++one, ++other) {
    if (*one == '\0') return true;
  }
  return false;
}

}  // namespace

const link_map* FindLibc() {
  for (const link_map* map = _r_debug.r_map; map != nullptr; map = map->l_next) {
    const char* base = map->l_name;
    for (const char* at = base; *at != '\0'; ++at) {
      if (*at == '/') base = at + 1;
    }
    if (Equal(base, "libc.so.6")) return map;
  }
  return nullptr;
}

const ElfW(Sym) * FindLibcSymbol(const char* name) {
  const DynamicTables libc(FindLibc());
  const uint32_t* hash = libc.gnu_hash;
  if (libc.symbols == nullptr || libc.strings == nullptr || libc.versions == nullptr || hash == nullptr) return nullptr;
  uint32_t value = 5381;
  for (const char* at = name; *at != '\0'; ++at) value = value * 33 + static_cast<uint8_t>(*at);
  uint32_t bucket_count = hash[0], first = hash[1], bloom_words = hash[2];
  const uint32_t* buckets = hash + 4 + bloom_words * 2;
  const uint32_t* chain = buckets + bucket_count;
  constexpr ElfW(Half) kHidden = 0x8000;  // for programs linked to an older release
  for (uint32_t i = buckets[value % bucket_count]; i >= first; ++i) {
    uint32_t entry = chain[i - first];
    const ElfW(Sym)& symbol = libc.symbols[i];
    bool is_it = (entry | 1) == (value | 1) && (libc.versions[i] & kHidden) == 0;
    if (is_it && Equal(libc.strings + symbol.st_name, name)) return &symbol;
    if ((entry & 1) != 0) break;
  }
  return nullptr;
}

}  // namespace dlhook::inline base

extern "C" __attribute__((visibility("hidden"))) const void* dlhook_find_libc_function(const char* name) {
  const ElfW(Sym)* symbol = dlhook::FindLibcSymbol(name);
  if (symbol == nullptr) __builtin_trap();  // not a C library for which the shim was linked
  uint64_t address = dlhook::FindLibc()->l_addr + symbol->st_value;
  if (ELF64_ST_TYPE(symbol->st_info) != STT_GNU_IFUNC) return reinterpret_cast<const void*>(address);
  return reinterpret_cast<const void* (*)()>(address)();
}
