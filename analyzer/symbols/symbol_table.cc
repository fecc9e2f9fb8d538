#include "analyzer/symbols/symbol_table.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "absl/algorithm/container.h"

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

}  // namespace dlhook::analyzer::symbols
