#include "preload/link/symbol_version.h"

#include <string.h>

#include "preload/link/dynamic_tables.h"

namespace dlhook::inline link {
namespace {

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
