// What the loader made of one ELF object: read from the memory of the process that has it mapped, so that what is seen
// is what was bound, not what the file would suggest. Every address and size in an image is taken for a lie until
// memory answers: a hostile file yields an error or less, never more than the limits below.
#ifndef DLHOOK_ANALYZER_DOCTOR_ELF_IMAGE_H_
#define DLHOOK_ANALYZER_DOCTOR_ELF_IMAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "analyzer/doctor/memory_reader.h"

namespace dlhook::analyzer::inline doctor {

using NameSet = absl::flat_hash_set<std::string>;

// A word of the object that the loader fills with the address of a symbol: of the GOT, or of a table of function
// pointers.
struct BoundSlot {
  std::string name;
  uint64_t value = 0;       // what it holds now
  uint64_t definition = 0;  // where the object itself defines the name; 0: it does not
  bool is_weak = false;     // a reference that may stay null
};

struct ExportedSymbol {
  std::string name;
  bool is_protected = false;  // the object's own calls of it can't be interposed
};

struct AddressRange {
  uint64_t start = 0;
  uint64_t end = 0;
  bool Contains(uint64_t address) const { return address >= start && address < end; }
};

struct ElfImage {
  std::string soname;          // empty: none, as an executable has none
  std::string build_id;        // in hexadecimal digits; empty: none
  bool is_symbolic = false;    // linked -Bsymbolic
  bool is_executable = false;  // has PT_INTERP or is linked to a fixed address
  std::vector<AddressRange> segments;
  std::vector<BoundSlot> slots;         // of wanted names only
  std::vector<ExportedSymbol> exports;  // of wanted names only

  bool Contains(uint64_t address) const;
};

// The object whose first page is mapped at `base`. Slots and exports of names in `wanted` are collected.
// DataLoss: no ELF object of this architecture, or one that is not whole.
absl::StatusOr<ElfImage> ReadElfImage(const MemoryReader& memory, uint64_t base, const NameSet& wanted);

}  // namespace dlhook::analyzer::doctor

#endif  // DLHOOK_ANALYZER_DOCTOR_ELF_IMAGE_H_
