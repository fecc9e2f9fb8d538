#include "preload/link/symbol_version.h"

#include <elf.h>
#include <link.h>
#include <string.h>

namespace dlhook::inline link {
namespace {

// Addresses in the dynamic section: glibc has relocated most of them in place, but not DT_VERNEED.
struct DynamicTables {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  const ElfW(Half) * versions = nullptr;
  const char* needed = nullptr;
  uint64_t needed_count = 0;
  const uint32_t* gnu_hash = nullptr;
  const uint32_t* hash = nullptr;

  explicit DynamicTables(const link_map* object) {
    for (const ElfW(Dyn)* entry = object->l_ld; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
      uint64_t value = entry->d_un.d_ptr;
      auto address = reinterpret_cast<const char*>(value < object->l_addr ? value + object->l_addr : value);
      switch (entry->d_tag) {
        case DT_SYMTAB:
          symbols = reinterpret_cast<const ElfW(Sym)*>(address);
          break;
        case DT_STRTAB:
          strings = address;
          break;
        case DT_VERSYM:
          versions = reinterpret_cast<const ElfW(Half)*>(address);
          break;
        case DT_VERNEED:
          needed = address;
          break;
        case DT_VERNEEDNUM:
          needed_count = entry->d_un.d_val;
          break;
        case DT_GNU_HASH:
          gnu_hash = reinterpret_cast<const uint32_t*>(address);
          break;
        case DT_HASH:
          hash = reinterpret_cast<const uint32_t*>(address);
          break;
        default:
          break;
      }
    }
  }

  // Undefined symbols precede all those in a GNU hash table; a SysV hash table counts all symbols.
  uint32_t SymbolsToSearch() const {
    if (gnu_hash != nullptr) return gnu_hash[1];
    return hash != nullptr ? hash[1] : 0;
  }
};

const char* VersionName(const DynamicTables& tables, ElfW(Half) index) {
  const char* at = tables.needed;
  for (uint64_t i = 0; i < tables.needed_count && at != nullptr; ++i) {
    auto file = reinterpret_cast<const ElfW(Verneed)*>(at);
    const char* auxiliary = at + file->vn_aux;
    for (ElfW(Half) j = 0; j < file->vn_cnt; ++j) {
      auto version = reinterpret_cast<const ElfW(Vernaux)*>(auxiliary);
      if (version->vna_other == index) return tables.strings + version->vna_name;
      auxiliary += version->vna_next;
    }
    at = file->vn_next == 0 ? nullptr : at + file->vn_next;
  }
  return nullptr;
}

}  // namespace

const char* RequiredVersion(const link_map* object, const char* name) {
  if (object == nullptr || object->l_ld == nullptr) return nullptr;
  DynamicTables tables(object);
  if (tables.symbols == nullptr || tables.strings == nullptr || tables.versions == nullptr ||
      tables.needed == nullptr) {
    return nullptr;
  }
  uint32_t count = tables.SymbolsToSearch();
  for (uint32_t i = 1; i < count; ++i) {
    const ElfW(Sym)& symbol = tables.symbols[i];
    if (symbol.st_shndx != SHN_UNDEF || strcmp(tables.strings + symbol.st_name, name) != 0) continue;
    return VersionName(tables, tables.versions[i] & 0x7fff);
  }
  return nullptr;
}

}  // namespace dlhook::inline link
