// How to get from a frame to its caller's: rules read from .eh_frame, the call frame information that compilers
// generate for exceptions. A rule is an FDE's program reduced to one address: 12 bytes that are applied within
// nanoseconds. Pure functions over bytes; lengths are trusted only up to the given end.
// Thread: any.
#pragma once

#include <cstdint>
#include <cstring>

#include "preload/format/stack_nodes.h"

namespace dlhook::inline unwind {

// The encodings of .eh_frame: LEB128, pointers relative to various bases. Never read past `end`: then `failed` is set, and
// they are zeros.

// DW_EH_PE_*: low four bits the format, the next three what it is relative to.
// clang-format off
enum PointerEncoding : uint8_t {
  kAbsolute = 0x00, kUleb128 = 0x01, kUdata2 = 0x02, kUdata4 = 0x03, kUdata8 = 0x04,
  kSleb128 = 0x09, kSdata2 = 0x0a, kSdata4 = 0x0b, kSdata8 = 0x0c,
  kRelativeToPlace = 0x10, kRelativeToData = 0x30, kIndirect = 0x80, kOmitted = 0xff,
};
// clang-format on

struct UnwindBytes {
  const uint8_t* at;
  const uint8_t* end;
  bool failed = false;

  bool AtEnd() const { return failed || at >= end; }

  template <typename T>
  T Fixed() {
    T value = 0;
    if (failed || static_cast<uint64_t>(end - at) < sizeof(T)) {
      failed = true;
      return 0;
    }
    memcpy(&value, at, sizeof value);
    at += sizeof value;
    return value;
  }

  uint64_t Uleb() {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      uint8_t byte = Fixed<uint8_t>();
      if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) return value;
    }
  }

  int64_t Sleb() {
    uint64_t value = 0;
    for (unsigned shift = 0;;) {
      uint8_t byte = Fixed<uint8_t>();
      if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
      shift += 7;
      if ((byte & 0x80) != 0) continue;
      if (shift < 64 && (byte & 0x40) != 0) value |= ~uint64_t{0} << shift;
      return static_cast<int64_t>(value);
    }
  }

  void Skip(uint64_t bytes) {
    if (failed || bytes > static_cast<uint64_t>(end - at)) {
      failed = true;
    } else {
      at += bytes;
    }
  }

  uint64_t Pointer(uint8_t encoding, uint64_t data_base) {
    uint64_t place = reinterpret_cast<uint64_t>(at);
    uint64_t value = Format(encoding & 0x0f);
    switch (encoding & 0x70) {
      case kAbsolute:
        break;
      case kRelativeToPlace:
        value += place;
        break;
      case kRelativeToData:
        value += data_base;
        break;
      default:
        failed = true;
    }
    if ((encoding & kIndirect) != 0) failed = true;  // for personalities only
    return failed ? 0 : value;
  }

 private:
  uint64_t Format(uint8_t format) {
    switch (format) {
      case kAbsolute:
      case kUdata8:
      case kSdata8:
        return Fixed<uint64_t>();
      case kUleb128:
        return Uleb();
      case kSleb128:
        return static_cast<uint64_t>(Sleb());
      case kUdata2:
        return Fixed<uint16_t>();
      case kUdata4:
        return Fixed<uint32_t>();
      case kSdata2:
        return static_cast<uint64_t>(int64_t{Fixed<int16_t>()});
      case kSdata4:
        return static_cast<uint64_t>(int64_t{Fixed<int32_t>()});
      default:
        failed = true;
        return 0;
    }
  }
};

// DWARF expressions in call frame information, computed as far as possible without a frame: a sum of a register and a
// number, or the word at such a place. Enough for the procedure linkage table, signals' frames and functions that align
// their stack.

// DWARF's numbers of registers (System V ABI, AMD64, figure 3.36). 16 is the return address.
constexpr uint64_t kBpRegister = 6, kSpRegister = 7, kIpRegister = 16;

// What a number is added to. The canonical frame address is the stack pointer before the call.
enum class FrameBase : uint8_t {
  kNone,
  kSp,
  kBp,
  kCfa,
  kAtSp,  // the word at rsp + the number: a signal's frame
  kAtBp,  // the word at rbp + the number: functions that align their stack beyond 16 bytes
};

struct SymbolicValue {
  FrameBase base = FrameBase::kNone;
  int64_t offset = 0;
};

inline bool IsSum(const SymbolicValue& value) {  // of a register, or the CFA, and a number
  return value.base == FrameBase::kSp || value.base == FrameBase::kBp || value.base == FrameBase::kCfa;
}

// False if the expression needs more than that. `ip`: its value of the instruction pointer. `starts_with_cfa`: the CFA
// is initially on its stack (all except the CFA's own expression).
bool EvaluateExpression(UnwindBytes bytes, uint64_t ip, bool starts_with_cfa, SymbolicValue* result);

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
  FrameBase cfa_from;  // not kCfa
  FrameBase bp_from;   // the caller's rbp: kNone: untouched; kSp, kBp, kCfa: in the word at that + bp_offset
  ReturnFrom return_from;
  bool is_signal_frame;  // the caller was interrupted: its address is the next instruction's, not a return address
};

// A rule, and what else is known of its address.
struct FoundRule : UnwindRule {
  bool is_guess = false;  // no information: a frame pointer is assumed
  bool is_code = true;    // false: nothing can have been called from there
};

// The walk ends here.
constexpr UnwindRule NoRule(StackCut cut) {
  return {static_cast<int32_t>(cut), 0, 0, FrameBase::kSp, FrameBase::kNone, ReturnFrom::kNowhere, false};
}

// A frame in which rbp points to the saved rbp.
constexpr UnwindRule kFramePointerRule = {16, -16, -8, FrameBase::kBp, FrameBase::kCfa, ReturnFrom::kAtCfa, false};

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
