// Finds other shims by the name of their file.
#include "preload/link/other_shims.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>

#include <cstdint>

#include "preload/base/libc_functions.h"
#include "preload/link/dynamic_tables.h"

namespace dlhook::inline link {
namespace {

constexpr uintptr_t kPage = 4096;

// Not ObjectOf(), which looks something up.
const link_map* OwnMap() {
  Dl_info info;
  link_map* map = nullptr;
  void* address = reinterpret_cast<void*>(&HideLaterShims);
  return dlhook_libc_dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 ? nullptr : map;
}

bool IsShim(const link_map* object) {
  if (object == OwnMap()) return true;  // whatever its file is called
  const char* slash = strrchr(object->l_name, '/');
  return strcmp(slash == nullptr ? object->l_name : slash + 1, "libdlhook.so") == 0;
}

const link_map* FirstShim() {
  const link_map* own = OwnMap();
  const link_map* first = own;
  for (const link_map* map = own; map != nullptr; map = map->l_prev) {
    if (IsShim(map)) first = map;
  }
  return first;
}

// A GNU hash table: four words, as many words of 64 bits as the third says (one that is empty finds no symbol), buckets. It is in a
// segment that is only read.
void Hide(const link_map* object) {
  const uint32_t* table = DynamicTables(object).gnu_hash;
  if (table == nullptr) return;
  auto begin = reinterpret_cast<uintptr_t>(table + 4);
  auto end = begin + uintptr_t{table[2]} * sizeof(uint64_t);
  auto page = reinterpret_cast<void*>(begin & ~(kPage - 1));
  size_t bytes = end - reinterpret_cast<uintptr_t>(page);
  if (mprotect(page, bytes, PROT_READ | PROT_WRITE) != 0) return;
  for (uintptr_t word = begin; word < end; word += sizeof(uint64_t))
    __atomic_store_n(reinterpret_cast<uint64_t*>(word), 0, __ATOMIC_RELAXED);
  mprotect(page, bytes, PROT_READ);
}

}  // namespace

void HideLaterShims() {
  const link_map* first = FirstShim();
  for (const link_map* map = first == nullptr ? nullptr : first->l_next; map != nullptr; map = map->l_next) {
    if (IsShim(map)) Hide(map);
  }
}

bool IsLaterShim() { return FirstShim() != OwnMap(); }

const char* OwnPath() {
  const link_map* own = OwnMap();
  return own == nullptr ? "" : own->l_name;
}

}  // namespace dlhook::inline link
