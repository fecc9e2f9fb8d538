// What a linker wrote into an ELF object to tell it from all others.
#pragma once

#include <elf.h>
#include <string.h>

#include <cstddef>
#include <cstdint>

namespace dlhook::inline format {

struct BuildId {
  const uint8_t* bytes = nullptr;
  uint32_t size = 0;  // 0: there is none
};

// In the notes of a PT_NOTE segment, which are not trusted.
inline BuildId BuildIdIn(const void* notes, size_t size) {
  auto bytes = static_cast<const uint8_t*>(notes);
  Elf64_Nhdr note;
  for (size_t at = 0; at + sizeof note <= size;) {
    memcpy(&note, bytes + at, sizeof note);
    size_t name = at + sizeof note;
    size_t value = name + ((note.n_namesz + size_t{3}) & ~size_t{3});
    if (value > size || note.n_descsz > size - value) break;
    bool is_gnu = note.n_namesz == 4 && memcmp(bytes + name, ELF_NOTE_GNU, 4) == 0;
    if (is_gnu && note.n_type == NT_GNU_BUILD_ID) return {bytes + value, note.n_descsz};
    at = value + ((note.n_descsz + size_t{3}) & ~size_t{3});
  }
  return {};
}

}  // namespace dlhook::inline format
