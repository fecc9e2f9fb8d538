// Symbols one after another, each matched with the addresses that it may contain.
#include "analyzer/symbols/symbol_table.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/names/fold_names.h"

namespace dlhook::analyzer::inline symbols {
namespace {

struct Candidate {
  const char* name;
  uint64_t start;
  uint64_t size;
  unsigned char type;
  unsigned char binding;
};

bool IsCode(const GElf_Sym& symbol, GElf_Word section) {
  const unsigned char type = GELF_ST_TYPE(symbol.st_info);
  if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) return false;
  return section != SHN_UNDEF && section != SHN_ABS && section != static_cast<GElf_Word>(-1);
}

int RankOfBinding(unsigned char binding) {
  return binding == STB_GLOBAL || binding == STB_GNU_UNIQUE ? 0 : binding == STB_WEAK ? 1 : 2;
}

// Of several names of one address the best known: "malloc" of malloc, __malloc and __libc_malloc.
bool IsBetter(const Candidate& candidate, const Candidate& best) {
  if (best.name == nullptr) return true;
  if (candidate.start != best.start) return candidate.start > best.start;  // the inner one
  const auto rank = [](const Candidate& one) {
    return std::make_tuple(one.type == STT_NOTYPE, RankOfBinding(one.binding), strspn(one.name, "_"), strlen(one.name));
  };
  const auto left = rank(candidate);
  const auto right = rank(best);
  return left != right ? left < right : strcmp(candidate.name, best.name) < 0;
}

class Matcher {
 public:
  explicit Matcher(absl::Span<const uint64_t> addresses)
      : addresses_(addresses), sized_(addresses.size()), bare_(addresses.size()), nearest_(addresses.size()) {}

  // No symbol without a size extends beyond `address`.
  size_t Fence(uint64_t address) {
    const auto first = absl::c_lower_bound(addresses_, address);
    const size_t begin = static_cast<size_t>(first - addresses_.begin());
    if (begin < nearest_.size()) nearest_[begin] = std::max(nearest_[begin], address + 1);
    return begin;
  }

  void Offer(const Candidate& candidate) {
    const size_t begin = Fence(candidate.start);
    if (begin == addresses_.size()) return;
    if (candidate.size == 0) {
      if (IsBetter(candidate, bare_[begin])) bare_[begin] = candidate;
      return;
    }
    for (size_t i = begin; i < addresses_.size() && addresses_[i] - candidate.start < candidate.size; ++i) {
      if (IsBetter(candidate, sized_[i])) sized_[i] = candidate;
    }
  }

  std::vector<SymbolMatch> Finish() {
    std::vector<SymbolMatch> matches(addresses_.size());
    uint64_t nearest = 0;  // start of the last symbol that begins before the address, plus 1
    Candidate bare = {};
    for (size_t i = 0; i < addresses_.size(); ++i) {
      nearest = std::max(nearest, nearest_[i]);
      if (bare_[i].name != nullptr && IsBetter(bare_[i], bare)) bare = bare_[i];
      const bool is_in_bare = bare.name != nullptr && bare.start + 1 == nearest;
      const Candidate& best = sized_[i].name != nullptr || !is_in_bare ? sized_[i] : bare;
      matches[i] = {best.name, best.start};
    }
    return matches;
  }

 private:
  const absl::Span<const uint64_t> addresses_;
  std::vector<Candidate> sized_;
  std::vector<Candidate> bare_;  // symbols without size that begin between this address and the previous one
  std::vector<uint64_t> nearest_;
};

void FenceSections(Dwfl_Module* module, Matcher* matcher) {
  GElf_Addr bias = 0;
  Elf* const elf = dwfl_module_getelf(module, &bias);
  for (Elf_Scn* section = elf_nextscn(elf, nullptr); section != nullptr; section = elf_nextscn(elf, section)) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) != nullptr && (header.sh_flags & SHF_EXECINSTR) != 0)
      matcher->Fence(header.sh_addr + bias);
  }
}

// Markers left by assemblers ("$x", ".L12") are not names.
bool IsMarker(const char* name) { return name[0] == '\0' || name[0] == '$' || strncmp(name, ".L", 2) == 0; }

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

std::vector<SymbolMatch> MatchSymbols(Dwfl_Module* module, absl::Span<const uint64_t> addresses) {
  Matcher matcher(addresses);
  FenceSections(module, &matcher);
  const int symbols = dwfl_module_getsymtab(module);
  for (int i = 1; i < symbols; ++i) {
    GElf_Sym symbol;
    GElf_Addr address = 0;
    GElf_Word section = 0;
    const char* const name = dwfl_module_getsym_info(module, i, &symbol, &address, &section, nullptr, nullptr);
    if (name == nullptr || !IsCode(symbol, section) || IsMarker(name)) continue;
    matcher.Offer({name, address, symbol.st_size, static_cast<unsigned char>(GELF_ST_TYPE(symbol.st_info)),
                   static_cast<unsigned char>(GELF_ST_BIND(symbol.st_info))});
  }
  return matcher.Finish();
}

// Stub -> GOT slot -> relocation -> symbol.
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
