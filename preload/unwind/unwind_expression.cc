#include "preload/unwind/unwind_rules.h"

namespace dlhook::inline unwind {
namespace {

constexpr int kStackDepth = 16;
constexpr int kMaxOperations = 64;

// Those that the tables of compilers and hand-written assembly contain.
// clang-format off
enum Operation : uint8_t {
  kDeref = 0x06, kConst1u = 0x08, kConst1s = 0x09, kConst2u = 0x0a, kConst2s = 0x0b, kConst4u = 0x0c, kConst4s = 0x0d,
  kConstu = 0x10, kConsts = 0x11, kDrop = 0x13, kAnd = 0x1a, kMinus = 0x1c, kPlus = 0x22, kPlusUconst = 0x23, kShl = 0x24,
  kGe = 0x2a, kLit0 = 0x30, kBreg0 = 0x70,
};
// clang-format on
constexpr uint8_t kRegisters = 32;

bool IsNumber(const SymbolicValue& value) { return value.base == FrameBase::kNone; }

int64_t Compute(uint8_t operation, int64_t a, int64_t b) {
  auto bits = static_cast<uint64_t>(a);
  auto other = static_cast<uint64_t>(b);
  switch (operation) {
    case kAnd:
      return a & b;
    case kMinus:
      return static_cast<int64_t>(bits - other);
    case kPlus:
      return static_cast<int64_t>(bits + other);
    case kShl:
      return other < 64 ? static_cast<int64_t>(bits << other) : 0;
    default:
      return a >= b;
  }
}

class Evaluation {
 public:
  Evaluation(UnwindBytes bytes, uint64_t ip) : bytes_(bytes), ip_(ip) {}

  bool Run(SymbolicValue* result) {
    for (int i = 0; !bytes_.AtEnd(); ++i) {
      if (i == kMaxOperations || !Step(bytes_.Fixed<uint8_t>()) || bytes_.failed) return false;
    }
    if (depth_ == 0) return false;
    *result = stack_[depth_ - 1];
    return true;
  }

  bool Push(SymbolicValue value) {
    if (depth_ == kStackDepth) return false;
    stack_[depth_++] = value;
    return true;
  }

 private:
  bool PushNumber(int64_t number) { return Push({FrameBase::kNone, number}); }

  bool Step(uint8_t operation) {
    if (operation >= kLit0 && operation < kLit0 + 32) return PushNumber(operation - kLit0);
    if (operation >= kBreg0 && operation < kBreg0 + kRegisters) return PushRegister(operation - kBreg0, bytes_.Sleb());
    // clang-format off
    switch (operation) {
      case kConst1u: return PushNumber(bytes_.Fixed<uint8_t>());
      case kConst1s: return PushNumber(bytes_.Fixed<int8_t>());
      case kConst2u: return PushNumber(bytes_.Fixed<uint16_t>());
      case kConst2s: return PushNumber(bytes_.Fixed<int16_t>());
      case kConst4u: return PushNumber(bytes_.Fixed<uint32_t>());
      case kConst4s: return PushNumber(bytes_.Fixed<int32_t>());
      case kConstu: return PushNumber(static_cast<int64_t>(bytes_.Uleb()));
      case kConsts: return PushNumber(bytes_.Sleb());
      case kDrop: return depth_-- > 0;
      case kDeref: return Dereference();
      case kPlusUconst: return PushNumber(static_cast<int64_t>(bytes_.Uleb())) && Combine(kPlus);
      case kAnd: case kMinus: case kPlus: case kShl: case kGe: return Combine(operation);
      default: return false;
    }
    // clang-format on
  }

  bool PushRegister(int number, int64_t offset) {
    if (number == kSpRegister) return Push({FrameBase::kSp, offset});
    if (number == kBpRegister) return Push({FrameBase::kBp, offset});
    return number == kIpRegister && PushNumber(static_cast<int64_t>(ip_) + offset);
  }

  bool Dereference() {
    if (depth_ == 0) return false;
    SymbolicValue& top = stack_[depth_ - 1];
    if (top.base != FrameBase::kSp && top.base != FrameBase::kBp) return false;
    top.base = top.base == FrameBase::kSp ? FrameBase::kAtSp : FrameBase::kAtBp;
    return true;
  }

  bool Combine(uint8_t operation) {
    if (depth_ < 2) return false;
    SymbolicValue right = stack_[--depth_];
    SymbolicValue& left = stack_[depth_ - 1];
    if (IsNumber(left) && IsNumber(right)) {
      left.offset = Compute(operation, left.offset, right.offset);
      return true;
    }
    if (operation == kPlus && IsNumber(left) && IsSum(right)) {
      right.offset += left.offset;
      left = right;
      return true;
    }
    bool moves = (operation == kPlus || operation == kMinus) && IsSum(left) && IsNumber(right);
    if (moves) left.offset = Compute(operation, left.offset, right.offset);
    // A word read from memory is not modified: no known table adds to it, and a rule has no room for it.
    return moves || (operation == kPlus && IsNumber(right) && right.offset == 0);
  }

  UnwindBytes bytes_;
  uint64_t ip_;
  SymbolicValue stack_[kStackDepth];
  int depth_ = 0;
};

}  // namespace

bool EvaluateExpression(UnwindBytes bytes, uint64_t ip, bool starts_with_cfa, SymbolicValue* result) {
  Evaluation evaluation(bytes, ip);
  if (starts_with_cfa) evaluation.Push({FrameBase::kCfa, 0});
  return evaluation.Run(result);
}

}  // namespace dlhook::inline unwind
