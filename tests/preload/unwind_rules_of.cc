// Prints dlhook's reading of a library's unwind tables, for test_unwind_rules.py.
//
// unwind_rules_of LIBRARY    Addresses in the library (hexadecimal) come on stdin; prints one line for each: CFA, rbp,
// return address.
#include <dlfcn.h>
#include <link.h>

#include <cinttypes>
#include <cstdio>

#include "preload/unwind/unwind_rules.h"

namespace {

using namespace dlhook;

struct Loaded {
  uint64_t base;
  const uint8_t* table;
};

int FindTable(dl_phdr_info* info, size_t, void* argument) {
  auto loaded = static_cast<Loaded*>(argument);
  if (info->dlpi_addr != loaded->base) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_GNU_EH_FRAME) continue;
    loaded->table = reinterpret_cast<const uint8_t*>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
  }
  return 1;
}

void Print(const UnwindRule& rule) {
  if (rule.return_from == ReturnFrom::kNowhere) {
    std::puts("none");
    return;
  }
  if (rule.return_from == ReturnFrom::kOutermost) {
    std::puts("outermost");
    return;
  }
  const char* const bases[] = {"", "rsp", "rbp", "", "at rsp", "at rbp"};
  std::printf("%s%+d,", bases[static_cast<int>(rule.cfa_from)], rule.cfa_offset);
  const char* const saved[] = {"u", "at rsp", "at rbp", "c"};
  std::printf("%s", saved[static_cast<int>(rule.bp_from)]);
  if (rule.bp_from != FrameBase::kNone) std::printf("%+d", rule.bp_offset);
  std::printf(",%s%+d%s\n", rule.return_from == ReturnFrom::kAtCfa ? "c" : "at rsp", rule.return_offset,
              rule.is_signal_frame ? ",signal" : "");
}

}  // namespace

int main(int argc, char** argv) {
  void* handle = dlopen(argc > 1 ? argv[1] : "", RTLD_LAZY | RTLD_LOCAL);
  link_map* map = nullptr;
  if (handle == nullptr || dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) return 1;
  Loaded loaded = {map->l_addr, nullptr};
  if (dl_iterate_phdr(&FindTable, &loaded) == 0 || loaded.table == nullptr) return 1;
  uint64_t address;
  while (std::scanf("%" SCNx64, &address) == 1) {
    uint64_t pc = loaded.base + address;
    const uint8_t* fde = FindFde(loaded.table, pc);
    Print(fde == nullptr ? NoRule(StackCut::kNoUnwindInfo) : ReadRule(fde, pc, pc));
  }
  return 0;
}
