// Names of PLT stubs.
#ifndef DLHOOK_ANALYZER_SYMBOLS_PLT_NAMES_H_
#define DLHOOK_ANALYZER_SYMBOLS_PLT_NAMES_H_

#include <gelf.h>

#include <cstdint>
#include <string>

namespace dlhook::analyzer::inline symbols {

struct PltStub {
  std::string name;  // "sgemm_@plt"; empty: no stub at the address
  uint64_t start = 0;
};

// `address` as in the file. x86-64: a stub is a jump through a slot of the GOT, which a relocation sets.
PltStub PltStubAt(Elf* elf, uint64_t address);

}  // namespace dlhook::analyzer::symbols

#endif  // DLHOOK_ANALYZER_SYMBOLS_PLT_NAMES_H_
