// The objects that are loaded, by the loader's list. Thread: any; under the loader's lock.
#pragma once

#include <link.h>

#include <cstdint>

namespace dlhook::inline base {

// Whether `visit`, called with each object's dl_phdr_info until then, returns true.
template <typename Visit>
bool AnyLoadedObject(Visit visit) {
  auto call = [](dl_phdr_info* info, size_t, void* visit) { return (*static_cast<Visit*>(visit))(*info) ? 1 : 0; };
  return dl_iterate_phdr(call, &visit) != 0;
}

// The pages of an object, from its first segment to its last.
struct ObjectSpan {
  uint64_t start = UINT64_MAX;
  uint64_t end = 0;

  explicit ObjectSpan(const dl_phdr_info& info) {
    for (int i = 0; i < info.dlpi_phnum; ++i) {
      const uint64_t address = info.dlpi_addr + info.dlpi_phdr[i].p_vaddr;
      if (info.dlpi_phdr[i].p_type != PT_LOAD) continue;
      if (address < start) start = address & ~uint64_t{4095};
      if (address + info.dlpi_phdr[i].p_memsz > end) end = address + info.dlpi_phdr[i].p_memsz;
    }
  }
};

}  // namespace dlhook::inline base
