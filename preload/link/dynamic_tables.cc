// Reads an object's dynamic section.
#include "preload/link/dynamic_tables.h"

namespace dlhook::inline link {

DynamicTables::DynamicTables(const link_map* object) {
  if (object == nullptr || object->l_ld == nullptr) return;
  auto number = [object](ElfW(Sxword) tag) -> uint64_t {
    const ElfW(Dyn)* entry = object->l_ld;
    while (entry->d_tag != DT_NULL && entry->d_tag != tag) ++entry;
    return entry->d_tag == tag ? entry->d_un.d_val : 0;
  };
  auto take = [&]<typename T>(ElfW(Sxword) tag, T** pointer) {
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

}  // namespace dlhook::inline link
