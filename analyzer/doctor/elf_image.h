// How the loader bound one ELF object: read from the memory of the process, so that it shows what was bound, not what
// the file suggests. No address or size in an image is trusted until memory confirms it: a hostile file causes an error
// or missing entries, never more work than the limits allow.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "analyzer/io/memory_reader.h"

namespace dlhook::analyzer::inline doctor {

using NameSet = absl::flat_hash_set<std::string>;

// A word of the object that the loader sets to the address of a symbol: in the GOT, or in a table of function pointers.
struct BoundSlot {
  std::string name;
  uint64_t value = 0;       // its current value
  uint64_t definition = 0;  // where the object itself defines the name; 0: nowhere
  bool is_weak = false;     // a reference that may remain null
};

struct ExportedSymbol {
  std::string name;
  bool is_protected = false;  // the object's own calls to it can't be interposed
};

struct AddressRange {
  uint64_t start = 0;
  uint64_t end = 0;
  bool Contains(uint64_t address) const { return address >= start && address < end; }
};

struct ElfImage {
  std::string soname;               // empty: none, as in an executable
  std::string build_id;             // in hexadecimal digits; empty: none
  std::vector<std::string> needed;  // sonames of the libraries that it is linked to
  bool is_symbolic = false;         // linked -Bsymbolic
  bool is_executable = false;       // has PT_INTERP or is linked to a fixed address
  std::vector<AddressRange> segments;
  std::vector<BoundSlot> slots;         // of wanted names only
  std::vector<ExportedSymbol> exports;  // of wanted names only

  bool Contains(uint64_t address) const;
};

// The object whose first page is mapped at `base`. Collects slots and exports of names in `wanted`. DataLoss: not an
// ELF object of this architecture, or incomplete.
absl::StatusOr<ElfImage> ReadElfImage(const MemoryReader& memory, uint64_t base, const NameSet& wanted);

}  // namespace dlhook::analyzer::doctor
