// Inlined functions and lines at an address, from DWARF.
#pragma once

#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>

#include "analyzer/symbols/resolve_object.h"

namespace dlhook::analyzer::inline symbols {

// Not thread-safe, because it caches the functions of compilation units (libdw's own search goes through a whole unit
// for each address). `module` must outlive it.
class InlinedFrames {
 public:
  explicit InlinedFrames(Dwfl_Module* module);

  // False: the module has no DWARF, neither itself nor in a separate file.
  bool has_dwarf() const { return dwarf_ != nullptr; }

  // Innermost first; the function with code of its own comes last. Empty: no DWARF for the address.
  SymbolFrames At(uint64_t address);

 private:
  struct Range {  // of a function or unit
    uint64_t low;
    uint64_t high;
    Dwarf_Die die;
  };
  struct Unit {
    Dwarf_Die die;                 // with lines and source files
    Dwarf_Die contents;            // with functions; separate in split DWARF
    std::vector<Range> functions;  // sorted by low
  };

  static const Range* FindRange(const std::vector<Range>& ranges, uint64_t address);
  static void AppendRanges(Dwarf_Die* die, std::vector<Range>* ranges);
  Unit* UnitAt(uint64_t address);
  bool FindUnitDie(uint64_t address, Dwarf_Die* die);
  void IndexUnits();
  void CollectFunctions(Dwarf_Die* parent, int depth, Unit* unit);

  Dwarf* dwarf_ = nullptr;
  Dwarf_Addr bias_ = 0;  // address in the module - address in DWARF
  bool units_indexed_ = false;
  std::vector<Range> unit_ranges_;  // if the compiler wrote no .debug_aranges; sorted by low
  absl::flat_hash_map<Dwarf_Off, std::unique_ptr<Unit>> units_;
};

}  // namespace dlhook::analyzer::symbols
