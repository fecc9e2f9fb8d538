// An object's dynamic section: its symbols, their versions, and its relocations.
#pragma once

#include <elf.h>
#include <link.h>

#include <cstdint>

namespace dlhook::inline link {

struct Relocations {
  const ElfW(Rela) * first = nullptr;
  uint64_t bytes = 0;

  const ElfW(Rela) * begin() const { return first; }
  const ElfW(Rela) * end() const { return first == nullptr ? first : first + bytes / sizeof *first; }
};

// Addresses: glibc has relocated most of them in place, but not DT_VERNEED.
struct DynamicTables {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  const ElfW(Half) * versions = nullptr;
  const char* needed = nullptr;
  uint64_t needed_count = 0;
  const uint32_t* gnu_hash = nullptr;
  const uint32_t* hash = nullptr;
  Relocations data;       // slots bound when the object is loaded
  Relocations functions;  // those of calls: bound then, or at the first call

  explicit DynamicTables(const link_map* object);

  // Undefined symbols precede all those in a GNU hash table; a SysV hash table counts all symbols.
  uint32_t SymbolsToSearch() const {
    if (gnu_hash != nullptr) return gnu_hash[1];
    return hash != nullptr ? hash[1] : 0;
  }
};

}  // namespace dlhook::inline link
