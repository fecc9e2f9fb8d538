// An object's dynamic section: its symbols, their versions, and its relocations. Calls nothing of the C library.
#pragma once

#include <elf.h>
#include <link.h>

#include <cstdint>

namespace dlhook::inline base {

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

  // In each caller, and so are its functions: the one in libc_functions.cc has options of its own.
  __attribute__((always_inline)) explicit DynamicTables(const link_map* object) {
    if (object == nullptr || object->l_ld == nullptr) return;
    auto number = [object](ElfW(Sxword) tag) __attribute__((always_inline))->uint64_t {
      const ElfW(Dyn)* entry = object->l_ld;
      while (entry->d_tag != DT_NULL && entry->d_tag != tag) ++entry;
      return entry->d_tag == tag ? entry->d_un.d_val : 0;
    };
    auto take = [&]<typename T>(ElfW(Sxword) tag, T * *pointer) __attribute__((always_inline)) {
      uint64_t value = number(tag);
      if (value != 0 && value < object->l_addr) value += object->l_addr;
      *pointer = reinterpret_cast<T*>(value);
    };
    take(DT_SYMTAB, &symbols);
    take(DT_STRTAB, &strings);
    take(DT_VERSYM, &versions);
    take(DT_VERNEED, &needed);
    take(DT_GNU_HASH, &gnu_hash);
    take(DT_HASH, &hash);
    take(DT_RELA, &data.first);
    take(DT_JMPREL, &functions.first);
    needed_count = number(DT_VERNEEDNUM);
    data.bytes = number(DT_RELASZ);
    functions.bytes = number(DT_PLTRELSZ);
  }

  // Undefined symbols precede all those in a GNU hash table; a SysV hash table counts all symbols.
  uint32_t SymbolsToSearch() const {
    if (gnu_hash != nullptr) return gnu_hash[1];
    return hash != nullptr ? hash[1] : 0;
  }
};

}  // namespace dlhook::inline base
