// Finds them in the object's own tables. Their slots may be read-only by now (RELRO), so they are written through
// /proc/self/mem; where that is not possible, nothing changes.
#include "preload/link/weak_references.h"

#include <fcntl.h>
#include <unistd.h>

#include <initializer_list>

#include "preload/format/hook_table.h"
#include "preload/link/dynamic_tables.h"
#include "preload/link/resolver.h"

namespace dlhook::inline link {
namespace {

bool IsWeakReference(const ElfW(Sym) & symbol) {
  return symbol.st_shndx == SHN_UNDEF && ELF64_ST_BIND(symbol.st_info) == STB_WEAK;
}

bool HasWeakReferencesToHooks(const DynamicTables& tables) {
  uint32_t count = tables.SymbolsToSearch();
  for (uint32_t i = 1; i < count; ++i) {
    const ElfW(Sym)& symbol = tables.symbols[i];
    if (IsWeakReference(symbol) && FindHook(tables.strings + symbol.st_name) >= 0) return true;
  }
  return false;
}

// Whether the slot leads to a hook that would find nothing to call. An underlinked plugin's references lead to functions
// that are not in its own scope: FindReal knows.
bool IsAbsent(const link_map* object, const DynamicTables& tables, const ElfW(Rela) & relocation) {
  uint64_t type = ELF64_R_TYPE(relocation.r_info);
  if (type != R_X86_64_GLOB_DAT && type != R_X86_64_JUMP_SLOT && type != R_X86_64_64) return false;
  const ElfW(Sym)& symbol = tables.symbols[ELF64_R_SYM(relocation.r_info)];
  if (!IsWeakReference(symbol)) return false;
  const char* name = tables.strings + symbol.st_name;
  int hook = FindHook(name);
  if (hook < 0 || *reinterpret_cast<void**>(object->l_addr + relocation.r_offset) != kHookLinks[hook].wrapper)
    return false;
  return FindReal(name, kHookLinks[hook].sonames, kHookLinks[hook].wrapper, object->l_ld) == nullptr;
}

}  // namespace

void ClearAbsentReferences(const link_map* object) {
  DynamicTables tables(object);
  if (tables.symbols == nullptr || tables.strings == nullptr || !HasWeakReferencesToHooks(tables)) return;
  int memory = -1;
  for (const Relocations& table : {tables.data, tables.functions}) {
    for (const ElfW(Rela) & relocation : table) {
      if (!IsAbsent(object, tables, relocation)) continue;
      if (memory < 0) memory = open("/proc/self/mem", O_WRONLY | O_CLOEXEC);
      void* nothing = nullptr;
      auto slot = static_cast<off_t>(object->l_addr + relocation.r_offset);
      if (memory < 0 || pwrite(memory, &nothing, sizeof nothing, slot) < 0) break;
    }
  }
  if (memory >= 0) close(memory);
}

}  // namespace dlhook::inline link
