// Stub -> GOT slot -> relocation -> symbol.
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/names/fold_names.h"
#include "analyzer/symbols/symbol_table.h"

namespace dlhook::analyzer::inline symbols {
namespace {

// From the section header; not every linker sets it.
uint64_t StubBytes(const GElf_Shdr& section) { return section.sh_entsize == 8 ? 8 : 16; }

// The section of stubs that contains the address: .plt, .plt.sec, .plt.got.
Elf_Scn* StubsAt(Elf* elf, uint64_t address, GElf_Shdr* header) {
  size_t names = 0;
  if (elf_getshdrstrndx(elf, &names) != 0) return nullptr;
  for (Elf_Scn* section = elf_nextscn(elf, nullptr); section != nullptr; section = elf_nextscn(elf, section)) {
    if (gelf_getshdr(section, header) == nullptr || header->sh_type != SHT_PROGBITS) continue;
    if (address < header->sh_addr || address - header->sh_addr >= header->sh_size) continue;
    const char* const name = elf_strptr(elf, names, header->sh_name);
    if (name != nullptr && absl::StartsWith(name, ".plt")) return section;
  }
  return nullptr;
}

// The slot through which the stub jumps; 0: none (the first stub, which calls the loader).
uint64_t WordOfStub(const unsigned char* code, uint64_t bytes, uint64_t address) {
  for (uint64_t i = 0; i + 6 <= bytes; ++i) {
    if (code[i] != 0xff || code[i + 1] != 0x25) continue;  // jmp *displacement(%rip)
    int32_t displacement = 0;
    memcpy(&displacement, code + i + 2, sizeof displacement);
    return address + i + 6 + static_cast<uint64_t>(int64_t{displacement});
  }
  return 0;
}

std::string NameOfRelocation(Elf* elf, const GElf_Shdr& relocations, uint64_t symbol_index) {
  Elf_Scn* const symbols = elf_getscn(elf, relocations.sh_link);
  GElf_Shdr header;
  GElf_Sym symbol;
  if (symbols == nullptr || gelf_getshdr(symbols, &header) == nullptr) return "";
  Elf_Data* const data = elf_getdata(symbols, nullptr);
  if (data == nullptr || gelf_getsym(data, static_cast<int>(symbol_index), &symbol) == nullptr) return "";
  const char* const name = elf_strptr(elf, header.sh_link, symbol.st_name);
  return name == nullptr || *name == '\0' ? "" : name;
}

std::string NameOfWord(Elf* elf, uint64_t word) {
  for (Elf_Scn* section = elf_nextscn(elf, nullptr); section != nullptr; section = elf_nextscn(elf, section)) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_type != SHT_RELA || header.sh_entsize == 0) continue;
    Elf_Data* const data = elf_getdata(section, nullptr);
    if (data == nullptr) continue;
    const uint64_t count = header.sh_size / header.sh_entsize;
    GElf_Rela relocation;
    for (uint64_t i = 0; i < count && gelf_getrela(data, static_cast<int>(i), &relocation) != nullptr; ++i) {
      if (relocation.r_offset == word) return NameOfRelocation(elf, header, GELF_R_SYM(relocation.r_info));
    }
  }
  return "";
}

}  // namespace

PltStub PltStubAt(Elf* elf, uint64_t address) {
  GElf_Shdr header;
  Elf_Scn* const section = StubsAt(elf, address, &header);
  if (section == nullptr) return {};
  Elf_Data* const data = elf_rawdata(section, nullptr);
  const uint64_t bytes = StubBytes(header);
  const uint64_t offset = (address - header.sh_addr) / bytes * bytes;
  if (data == nullptr || data->d_buf == nullptr || offset + bytes > data->d_size) return {};
  const uint64_t start = header.sh_addr + offset;
  const uint64_t word = WordOfStub(static_cast<const unsigned char*>(data->d_buf) + offset, bytes, start);
  const std::string name = word == 0 ? "" : NameOfWord(elf, word);
  if (name.empty()) return {};
  return {absl::StrCat(DemangleSymbol(name), "@plt"), start};
}

}  // namespace dlhook::analyzer::symbols
