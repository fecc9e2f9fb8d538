// Reads an object's dynamic section.
#include "preload/link/dynamic_tables.h"

namespace dlhook::inline link {

DynamicTables::DynamicTables(const link_map* object) {
  if (object == nullptr) return;
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
      case DT_RELA:
        data.first = reinterpret_cast<const ElfW(Rela)*>(address);
        break;
      case DT_RELASZ:
        data.bytes = entry->d_un.d_val;
        break;
      case DT_JMPREL:
        functions.first = reinterpret_cast<const ElfW(Rela)*>(address);
        break;
      case DT_PLTRELSZ:
        functions.bytes = entry->d_un.d_val;
        break;
      default:
        break;
    }
  }
}

}  // namespace dlhook::inline link
