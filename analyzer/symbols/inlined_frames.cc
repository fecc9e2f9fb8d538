// DWARF: address -> unit -> function -> functions inlined there.
#include "analyzer/symbols/inlined_frames.h"

#include <dwarf.h>

#include "analyzer/names/fold_names.h"

namespace dlhook::analyzer::inline symbols {
namespace {

// Nested namespaces and classes; deeper ones in a broken file are ignored.
constexpr int kMaxDepth = 64;
constexpr size_t kMaxInlined = 256;

std::string NameOf(Dwarf_Die* die) {
  Dwarf_Attribute attribute;
  const char* name = nullptr;
  for (const unsigned int kind : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
    if (name == nullptr) name = dwarf_formstring(dwarf_attr_integrate(die, kind, &attribute));
  }
  if (name != nullptr) return DemangleSymbol(name);
  name = dwarf_diename(die);
  return name != nullptr ? name : "";
}

std::string AbsolutePath(const char* path, Dwarf_Die* unit) {
  if (path == nullptr) return "";
  if (path[0] == '/') return path;
  Dwarf_Attribute attribute;
  const char* const folder = dwarf_formstring(dwarf_attr(unit, DW_AT_comp_dir, &attribute));
  return folder == nullptr ? path : absl::StrCat(folder, "/", path);
}

// The call site of an inlined function.
void SetCallSite(Dwarf_Die* inlined, Dwarf_Die* unit, SymbolFrame* frame) {
  Dwarf_Attribute attribute;
  Dwarf_Word number = 0;
  Dwarf_Files* files = nullptr;
  size_t count = 0;
  if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &attribute), &number) == 0 &&
      dwarf_getsrcfiles(unit, &files, &count) == 0 && number < count) {
    frame->set_file(AbsolutePath(dwarf_filesrc(files, number, nullptr, nullptr), unit));
  }
  if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &attribute), &number) == 0)
    frame->set_line(static_cast<uint32_t>(number));
}

void SetLine(Dwarf_Die* unit, Dwarf_Addr address, SymbolFrame* frame) {
  Dwarf_Line* const line = dwarf_getsrc_die(unit, address);
  if (line == nullptr) return;
  frame->set_file(AbsolutePath(dwarf_linesrc(line, nullptr, nullptr), unit));
  int number = 0;
  if (dwarf_lineno(line, &number) == 0 && number > 0) frame->set_line(static_cast<uint32_t>(number));
}

bool HoldsCode(int tag) {
  return tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block || tag == DW_TAG_try_block ||
         tag == DW_TAG_catch_block || tag == DW_TAG_with_stmt;
}

// The child whose code contains the address.
bool FindInside(Dwarf_Die* parent, Dwarf_Addr address, Dwarf_Die* found) {
  Dwarf_Die child;
  for (int more = dwarf_child(parent, &child); more == 0; more = dwarf_siblingof(&child, &child)) {
    if (!HoldsCode(dwarf_tag(&child)) || dwarf_haspc(&child, address) != 1) continue;
    *found = child;
    return true;
  }
  return false;
}

// The functions inlined at the address, outermost first.
std::vector<Dwarf_Die> InlinedAt(const Dwarf_Die& function, Dwarf_Addr address) {
  std::vector<Dwarf_Die> inlined;
  Dwarf_Die block = function;
  Dwarf_Die inside;
  for (size_t steps = 0; steps < kMaxInlined * 4 && FindInside(&block, address, &inside); ++steps) {
    if (dwarf_tag(&inside) == DW_TAG_inlined_subroutine && inlined.size() < kMaxInlined) inlined.push_back(inside);
    block = inside;
  }
  return inlined;
}

}  // namespace

InlinedFrames::InlinedFrames(Dwfl_Module* module) : dwarf_(dwfl_module_getdwarf(module, &bias_)) {}

// The last range that begins before the address and contains it: the inner one of nested functions.
const InlinedFrames::Range* InlinedFrames::FindRange(const std::vector<Range>& ranges, uint64_t address) {
  constexpr int kMaxOverlapping = 64;
  auto place = std::ranges::upper_bound(ranges, address, {}, &Range::low);
  for (int i = 0; i < kMaxOverlapping && place != ranges.begin(); ++i) {
    --place;
    if (address < place->high) return &*place;
  }
  return nullptr;
}

void InlinedFrames::AppendRanges(Dwarf_Die* die, std::vector<Range>* ranges) {
  Dwarf_Addr base = 0;
  Dwarf_Addr low = 0;
  Dwarf_Addr high = 0;
  ptrdiff_t at = 0;
  while ((at = dwarf_ranges(die, at, &base, &low, &high)) > 0) {
    if (low < high) ranges->push_back({low, high, *die});
  }
}

void InlinedFrames::IndexUnits() {
  units_indexed_ = true;
  Dwarf_CU* unit = nullptr;
  Dwarf_Die die;
  while (dwarf_get_units(dwarf_, unit, &unit, nullptr, nullptr, &die, nullptr) == 0) AppendRanges(&die, &unit_ranges_);
  std::ranges::sort(unit_ranges_, {}, &Range::low);
}

bool InlinedFrames::FindUnitDie(uint64_t address, Dwarf_Die* die) {
  if (dwarf_addrdie(dwarf_, address, die) != nullptr) return true;
  if (!units_indexed_) IndexUnits();
  const Range* const range = FindRange(unit_ranges_, address);
  if (range == nullptr) return false;
  *die = range->die;
  return true;
}

InlinedFrames::Unit* InlinedFrames::UnitAt(uint64_t address) {
  Dwarf_Die die;
  if (!FindUnitDie(address, &die)) return nullptr;
  std::unique_ptr<Unit>& known = units_[dwarf_dieoffset(&die)];
  if (known != nullptr) return known.get();
  known = std::make_unique<Unit>(Unit{.die = die, .contents = die, .functions = {}});
  Dwarf_Die split;
  uint8_t type = 0;
  if (dwarf_cu_info(die.cu, nullptr, &type, nullptr, &split, nullptr, nullptr, nullptr) == 0 &&
      type == DW_UT_skeleton && split.addr != nullptr) {
    known->contents = split;
  }
  CollectFunctions(&known->contents, 0, known.get());
  std::ranges::sort(known->functions, {}, &Range::low);
  return known.get();
}

void InlinedFrames::CollectFunctions(Dwarf_Die* parent, int depth, Unit* unit) {
  if (depth > kMaxDepth) return;
  Dwarf_Die child;
  for (int more = dwarf_child(parent, &child); more == 0; more = dwarf_siblingof(&child, &child)) {
    switch (dwarf_tag(&child)) {
      case DW_TAG_subprogram:
        AppendRanges(&child, &unit->functions);
        [[fallthrough]];
      case DW_TAG_namespace:
      case DW_TAG_module:
      case DW_TAG_class_type:
      case DW_TAG_structure_type:
      case DW_TAG_union_type:
        CollectFunctions(&child, depth + 1, unit);
        break;
      default:
        break;
    }
  }
}

SymbolFrames InlinedFrames::At(uint64_t address) {
  SymbolFrames frames;
  if (dwarf_ == nullptr) return frames;
  const Dwarf_Addr in_dwarf = address - bias_;
  Unit* const unit = UnitAt(in_dwarf);
  if (unit == nullptr) return frames;
  SymbolFrame* frame = frames.add_frame();
  SetLine(&unit->die, in_dwarf, frame);
  const Range* const function = FindRange(unit->functions, in_dwarf);
  if (function == nullptr) return frames;
  Dwarf_Die function_die = function->die;
  std::vector<Dwarf_Die> inlined = InlinedAt(function_die, in_dwarf);
  for (auto at = inlined.rbegin(); at != inlined.rend(); ++at) {
    frame->set_function(NameOf(&*at));
    frame->set_is_inlined(true);
    frame = frames.add_frame();
    SetCallSite(&*at, &unit->contents, frame);
  }
  frame->set_function(NameOf(&function_die));
  return frames;
}

}  // namespace dlhook::analyzer::symbols
