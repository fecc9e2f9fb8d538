// DWARF expressions in call frame information, computed as far as possible without a frame: a sum of a register and a
// number, or the word at such a place. Enough for the procedure linkage table, signals' frames and functions that align
// their stack.
// Thread: any; pure.
#pragma once

#include <cstdint>

#include "preload/unwind/unwind_bytes.h"

namespace dlhook::inline unwind {

// DWARF's numbers of registers (System V ABI, AMD64, figure 3.36). 16 is the return address.
constexpr uint64_t kBpRegister = 6, kSpRegister = 7, kIpRegister = 16;

struct SymbolicValue {
  enum Base : uint8_t { kNumber, kSp, kBp, kCfa, kAtSp, kAtBp };
  Base base = kNumber;
  int64_t offset = 0;  // added to the base; of kAtSp and kAtBp to the register before the word is read
};

// False if the expression needs more than that. `ip`: its value of the instruction pointer. `starts_with_cfa`: the CFA
// is initially on its stack (all except the CFA's own expression).
bool EvaluateExpression(UnwindBytes bytes, uint64_t ip, bool starts_with_cfa, SymbolicValue* result);

}  // namespace dlhook::inline unwind
