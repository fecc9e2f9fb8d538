// The functions that contain addresses of an object, from its symbols alone.
#pragma once

#include <elfutils/libdwfl.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace dlhook::analyzer::inline symbols {

struct SymbolMatch {
  const char* name = nullptr;  // mangled, owned by the module; null: none
  uint64_t start = 0;
};

// One match per element of `addresses` (ascending), in one pass over all symbols of the module: .symtab of the file or
// of its debug file, else .dynsym and .gnu_debugdata. libdwfl's own look-up goes through all of them for each address:
// 20 ms in libtorch_cpu.so, whose 500 000 symbols this reads once. A symbol with a size contains no address beyond its
// end; one without (assembly) ends where the next symbol begins.
std::vector<SymbolMatch> MatchSymbols(Dwfl_Module* module, absl::Span<const uint64_t> addresses);

}  // namespace dlhook::analyzer::symbols
