// How to get from a frame to its caller's: rules read from .eh_frame, the call frame information that compilers
// generate for exceptions. A rule is an FDE's program reduced to one address: 16 bytes that are applied within
// nanoseconds. Pure functions over bytes; lengths are trusted only up to the given end.
// Thread: any.
#pragma once

#include "preload/format/stack_nodes.h"
#include "preload/unwind/unwind_bytes.h"

namespace dlhook::inline unwind {

// DWARF expressions in call frame information, computed as far as possible without a frame: a sum of a register and a
// number, or the word at such a place. Enough for the procedure linkage table, signals' frames and functions that align
// their stack.
// Thread: any; pure.

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

// The source of the canonical frame address (the stack pointer before the call).
enum class CfaFrom : uint8_t {
  kSp,    // rsp + cfa_offset
  kBp,    // rbp + cfa_offset
  kAtSp,  // the word at rsp + cfa_offset: a signal's frame
  kAtBp,  // the word at rbp + cfa_offset: functions that align their stack beyond 16 bytes
};

// Where the caller's rbp is.
enum class BpFrom : uint8_t { kSame, kAtCfa, kAtBp, kAtSp };  // untouched; in the word at that + bp_offset

enum class ReturnFrom : uint8_t {
  kAtCfa,      // the word at the CFA + return_offset
  kAtSp,       // the word at rsp + return_offset: a signal's frame
  kOutermost,  // the thread's first function
  kNowhere,    // no rule: StackCut in cfa_offset
};

struct UnwindRule {
  int32_t cfa_offset;
  int16_t bp_offset;
  int16_t return_offset;
  CfaFrom cfa_from;
  BpFrom bp_from;
  ReturnFrom return_from;
  bool is_signal_frame;  // the caller was interrupted: its address is the next instruction's, not a return address
};

// The walk ends here.
constexpr UnwindRule NoRule(StackCut cut) {
  return {static_cast<int32_t>(cut), 0, 0, CfaFrom::kSp, BpFrom::kSame, ReturnFrom::kNowhere, false};
}

// A frame in which rbp points to the saved rbp.
constexpr UnwindRule kFramePointerRule = {16, -16, -8, CfaFrom::kBp, BpFrom::kAtCfa, ReturnFrom::kAtCfa, false};

// The FDE for `pc`, looked up in the binary search table at `header` (.eh_frame_hdr, mapped at its own address); null
// if there is none, or no table.
const uint8_t* FindFde(const uint8_t* header, uint64_t pc);

// Is `pc` in the FDE's function?
bool CoversAddress(const uint8_t* fde, uint64_t pc);

// The rule at `pc` (an address within the frame's current instruction), from an FDE that is mapped at its own address;
// `ip` is the instruction pointer for expressions. A rule that needs more than rsp and rbp becomes NoRule.
UnwindRule ReadRule(const uint8_t* fde, uint64_t pc, uint64_t ip);

// For a frame of code without such information, from the instructions at its return address (`size` bytes): an epilogue
// ("add $n,%rsp", "pop %rbp", "ret") shows where the caller's return address is. Trampolines of Python's -X perf and
// small stubs end this way. False: no epilogue.
bool RuleOfEpilogue(const uint8_t* code, size_t size, UnwindRule* rule);

// Do the bytes before a return address end with a call? `size` bytes end there.
bool EndsWithCall(const uint8_t* code, size_t size);

}  // namespace dlhook::inline unwind
