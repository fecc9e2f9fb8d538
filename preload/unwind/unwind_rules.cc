#include "preload/unwind/unwind_rules.h"

namespace dlhook::inline unwind {
namespace {

constexpr int kRememberedRows = 8;

struct RegisterRule {
  enum Kind : uint8_t { kUnset, kUndefined, kSame, kAtCfa, kIsCfa, kExpression, kUnsupported };
  Kind kind = kUnset;
  int64_t offset = 0;
  UnwindBytes expression = {nullptr, nullptr};
};

// The tables' content for one address.
struct Row {
  uint64_t cfa_register = 0;
  int64_t cfa_offset = 0;
  bool cfa_is_expression = false;
  UnwindBytes cfa_expression = {nullptr, nullptr};
  RegisterRule bp, sp, ip;

  RegisterRule* Of(uint64_t number) {
    return number == kBpRegister ? &bp : number == kSpRegister ? &sp : number == kIpRegister ? &ip : nullptr;
  }
};

// The part that FDEs share.
struct Cie {
  uint64_t code_alignment = 0;
  int64_t data_alignment = 0;
  uint8_t encoding = kAbsolute;
  bool has_data = false;  // FDEs have augmentation data
  bool is_signal_frame = false;
  UnwindBytes program = {nullptr, nullptr};
};

// From the length field of an entry to its end.
UnwindBytes BytesOf(const uint8_t* entry) {
  UnwindBytes bytes = {entry, entry + 12};
  uint64_t length = bytes.Fixed<uint32_t>();
  if (length == 0xffffffff) length = bytes.Fixed<uint64_t>();
  bytes.end = bytes.at + length;
  return bytes;
}

bool ReadAugmentation(const char* letters, UnwindBytes* bytes, Cie* cie) {
  if (*letters == '\0') return true;
  if (*letters != 'z') return false;
  cie->has_data = true;
  uint64_t length = bytes->Uleb();
  const uint8_t* rest = bytes->at + length;
  while (*++letters != '\0') {
    if (*letters == 'R') {
      cie->encoding = bytes->Fixed<uint8_t>();
    } else if (*letters == 'S') {
      cie->is_signal_frame = true;
    } else if (*letters == 'L') {
      bytes->Skip(1);
    } else if (*letters == 'P') {
      uint8_t encoding = bytes->Fixed<uint8_t>();
      bytes->Pointer(encoding & 0x0f, 0);
    } else {
      return false;
    }
  }
  bytes->at = rest;
  return !bytes->failed && rest <= bytes->end;
}

bool ReadCie(const uint8_t* entry, Cie* cie) {
  UnwindBytes bytes = BytesOf(entry);
  if (bytes.Fixed<uint32_t>() != 0) return false;
  uint8_t version = bytes.Fixed<uint8_t>();
  if (version != 1 && version != 3) return false;
  auto letters = reinterpret_cast<const char*>(bytes.at);
  while (bytes.Fixed<uint8_t>() != 0) {
  }
  cie->code_alignment = bytes.Uleb();
  cie->data_alignment = bytes.Sleb();
  uint64_t return_register = version == 1 ? bytes.Fixed<uint8_t>() : bytes.Uleb();
  if (bytes.failed || return_register != kIpRegister || !ReadAugmentation(letters, &bytes, cie)) return false;
  cie->program = bytes;
  return true;
}

struct Fde {
  Cie cie;
  uint64_t start = 0;
  uint64_t length = 0;
  UnwindBytes program = {nullptr, nullptr};
};

bool ReadFde(const uint8_t* entry, Fde* fde) {
  UnwindBytes bytes = BytesOf(entry);
  const uint8_t* place = bytes.at;
  uint32_t distance = bytes.Fixed<uint32_t>();
  if (bytes.failed || distance == 0 || !ReadCie(place - distance, &fde->cie)) return false;
  fde->start = bytes.Pointer(fde->cie.encoding, 0);
  fde->length = bytes.Pointer(fde->cie.encoding & 0x0f, 0);
  if (fde->cie.has_data) bytes.Skip(bytes.Uleb());
  fde->program = bytes;
  return !bytes.failed;
}

// Runs the instructions of CIE and FDE up to an address.
class CfaProgram {
 public:
  CfaProgram(const Cie& cie, uint64_t start, uint64_t pc) : cie_(cie), at_(start), pc_(pc) {}

  bool Run(UnwindBytes program) {
    while (!program.AtEnd() && at_ <= pc_) {
      if (!Step(program.Fixed<uint8_t>(), &program) || program.failed) return false;
    }
    return !program.failed;
  }
  void EndOfCie() { initial_ = row_; }
  const Row& row() const { return row_; }

 private:
  // clang-format off
  enum Instruction : uint8_t {
    kNop = 0x00, kSetLoc = 0x01, kAdvance1 = 0x02, kAdvance2 = 0x03, kAdvance4 = 0x04, kOffsetExtended = 0x05,
    kRestoreExtended = 0x06, kUndefined = 0x07, kSameValue = 0x08, kRegister = 0x09, kRememberState = 0x0a,
    kRestoreState = 0x0b, kDefCfa = 0x0c, kDefCfaRegister = 0x0d, kDefCfaOffset = 0x0e, kDefCfaExpression = 0x0f,
    kExpression = 0x10, kOffsetExtendedSf = 0x11, kDefCfaSf = 0x12, kDefCfaOffsetSf = 0x13, kValOffset = 0x14,
    kValOffsetSf = 0x15, kValExpression = 0x16, kGnuArgsSize = 0x2e, kGnuNegativeOffset = 0x2f,
  };
  // clang-format on

  void Set(uint64_t number, RegisterRule rule) {
    RegisterRule* place = row_.Of(number);
    if (place != nullptr) *place = rule;
  }
  void SetOffset(uint64_t number, int64_t factored) {
    Set(number, {RegisterRule::kAtCfa, factored * cie_.data_alignment, {nullptr, nullptr}});
  }
  void SetIsCfa(uint64_t number, int64_t factored) {
    Set(number, {factored == 0 ? RegisterRule::kIsCfa : RegisterRule::kUnsupported, 0, {nullptr, nullptr}});
  }
  void SetKind(uint64_t number, RegisterRule::Kind kind) { Set(number, {kind, 0, {nullptr, nullptr}}); }
  void Restore(uint64_t number) {
    RegisterRule* place = row_.Of(number);
    if (place != nullptr) *place = *initial_.Of(number);
  }
  void DefineCfa(uint64_t number, int64_t offset) {
    row_.cfa_register = number;
    row_.cfa_offset = offset;
    row_.cfa_is_expression = false;
  }
  void Advance(uint64_t units) { at_ += units * cie_.code_alignment; }

  static UnwindBytes Block(UnwindBytes* program) {
    uint64_t length = program->Uleb();
    const uint8_t* start = program->at;
    program->Skip(length);
    return {start, program->at};
  }

  bool Step(uint8_t instruction, UnwindBytes* program) {
    uint8_t operand = instruction & 0x3f;
    switch (instruction & 0xc0) {
      case 0x40:
        Advance(operand);
        return true;
      case 0x80:
        SetOffset(operand, static_cast<int64_t>(program->Uleb()));
        return true;
      case 0xc0:
        Restore(operand);
        return true;
      default:
        return StepLocation(instruction, program) || StepCfa(instruction, program) ||
               StepRegister(instruction, program);
    }
  }

  bool StepLocation(uint8_t instruction, UnwindBytes* program) {
    // clang-format off
    switch (instruction) {
      case kNop: return true;
      case kSetLoc: at_ = program->Pointer(cie_.encoding, 0); return true;
      case kAdvance1: Advance(program->Fixed<uint8_t>()); return true;
      case kAdvance2: Advance(program->Fixed<uint16_t>()); return true;
      case kAdvance4: Advance(program->Fixed<uint32_t>()); return true;
      case kGnuArgsSize: program->Uleb(); return true;
      case kRememberState:
        if (remembered_ == kRememberedRows) return false;
        rows_[remembered_++] = row_;
        return true;
      case kRestoreState:
        if (remembered_ == 0) return false;
        row_ = rows_[--remembered_];
        return true;
      default: return false;
    }
    // clang-format on
  }

  bool StepCfa(uint8_t instruction, UnwindBytes* program) {
    bool has_register = instruction == kDefCfa || instruction == kDefCfaSf;
    uint64_t number = has_register ? program->Uleb() : row_.cfa_register;
    // clang-format off
    switch (instruction) {
      case kDefCfa: DefineCfa(number, static_cast<int64_t>(program->Uleb())); return true;
      case kDefCfaSf: DefineCfa(number, program->Sleb() * cie_.data_alignment); return true;
      case kDefCfaRegister: DefineCfa(program->Uleb(), row_.cfa_offset); return true;
      case kDefCfaOffset: row_.cfa_offset = static_cast<int64_t>(program->Uleb()); return true;
      case kDefCfaOffsetSf: row_.cfa_offset = program->Sleb() * cie_.data_alignment; return true;
      case kDefCfaExpression: row_.cfa_expression = Block(program); row_.cfa_is_expression = true; return true;
      default: return false;
    }
    // clang-format on
  }

  bool StepRegister(uint8_t instruction, UnwindBytes* program) {
    if (instruction < kOffsetExtended || (instruction > kValExpression && instruction != kGnuNegativeOffset))
      return false;
    uint64_t number = program->Uleb();
    // clang-format off
    switch (instruction) {
      case kOffsetExtended: SetOffset(number, static_cast<int64_t>(program->Uleb())); return true;
      case kOffsetExtendedSf: SetOffset(number, program->Sleb()); return true;
      case kGnuNegativeOffset: SetOffset(number, -static_cast<int64_t>(program->Uleb())); return true;
      case kRestoreExtended: Restore(number); return true;
      case kUndefined: SetKind(number, RegisterRule::kUndefined); return true;
      case kSameValue: SetKind(number, RegisterRule::kSame); return true;
      case kRegister: program->Uleb(); SetKind(number, RegisterRule::kUnsupported); return true;
      case kValOffset: SetIsCfa(number, static_cast<int64_t>(program->Uleb())); return true;
      case kValOffsetSf: SetIsCfa(number, program->Sleb()); return true;
      case kExpression: Set(number, {RegisterRule::kExpression, 0, Block(program)}); return true;
      case kValExpression: Block(program); SetKind(number, RegisterRule::kUnsupported); return true;
      default: return false;
    }
    // clang-format on
  }

  const Cie& cie_;
  uint64_t at_;
  uint64_t pc_;
  Row row_, initial_;
  Row rows_[kRememberedRows];
  int remembered_ = 0;
};

bool FitsIn16(int64_t value) { return value == static_cast<int16_t>(value); }

bool CfaOf(const Row& row, uint64_t ip, UnwindRule* rule) {
  SymbolicValue cfa;
  if (row.cfa_is_expression) {
    if (!EvaluateExpression(row.cfa_expression, ip, false, &cfa)) return false;
  } else if (row.cfa_register == kSpRegister || row.cfa_register == kBpRegister) {
    cfa = {row.cfa_register == kSpRegister ? FrameBase::kSp : FrameBase::kBp, row.cfa_offset};
  }
  if (cfa.base == FrameBase::kNone || cfa.base == FrameBase::kCfa) return false;
  rule->cfa_from = cfa.base;
  rule->cfa_offset = static_cast<int32_t>(cfa.offset);
  return rule->cfa_offset == cfa.offset;
}

// The place where a register was saved; false: not known.
bool PlaceOf(const RegisterRule& saved, uint64_t ip, SymbolicValue* place) {
  if (saved.kind == RegisterRule::kAtCfa) {
    *place = {FrameBase::kCfa, saved.offset};
  } else if (saved.kind != RegisterRule::kExpression || !EvaluateExpression(saved.expression, ip, true, place)) {
    return false;
  }
  return FitsIn16(place->offset);
}

bool BpOf(const RegisterRule& saved, uint64_t ip, UnwindRule* rule) {
  rule->bp_from = FrameBase::kNone;
  if (saved.kind <= RegisterRule::kSame) return true;
  SymbolicValue place;
  if (!PlaceOf(saved, ip, &place) || !IsSum(place)) return false;
  rule->bp_from = place.base;
  rule->bp_offset = static_cast<int16_t>(place.offset);
  return true;
}

bool ReturnOf(const RegisterRule& saved, uint64_t ip, UnwindRule* rule) {
  if (saved.kind == RegisterRule::kUndefined) {
    rule->return_from = ReturnFrom::kOutermost;
    return true;
  }
  SymbolicValue place;
  if (!PlaceOf(saved, ip, &place)) return false;
  rule->return_offset = static_cast<int16_t>(place.offset);
  rule->return_from = place.base == FrameBase::kSp ? ReturnFrom::kAtSp : ReturnFrom::kAtCfa;
  return place.base == FrameBase::kSp || place.base == FrameBase::kCfa;
}

// Whether the caller's rsp is the CFA, in any encoding.
bool IsCfa(const RegisterRule& saved, uint64_t ip, const UnwindRule& rule) {
  if (saved.kind == RegisterRule::kUnset || saved.kind == RegisterRule::kIsCfa) return true;
  SymbolicValue place;
  return saved.kind == RegisterRule::kExpression && PlaceOf(saved, ip, &place) && place.base == FrameBase::kSp &&
         rule.cfa_from == FrameBase::kAtSp && place.offset == rule.cfa_offset;
}

UnwindRule RuleOfRow(const Row& row, bool is_signal_frame, uint64_t ip) {
  UnwindRule rule = {};
  if (!ReturnOf(row.ip, ip, &rule)) return NoRule(StackCut::kNoUnwindInfo);
  rule.is_signal_frame = is_signal_frame;
  if (rule.return_from == ReturnFrom::kOutermost) return rule;
  bool is_known = CfaOf(row, ip, &rule) && BpOf(row.bp, ip, &rule) && IsCfa(row.sp, ip, rule);
  return is_known ? rule : NoRule(StackCut::kNoUnwindInfo);
}

}  // namespace

const uint8_t* FindFde(const uint8_t* header, uint64_t pc) {
  constexpr uint8_t kTableEncoding = kRelativeToData | kSdata4;
  constexpr uint64_t kMaxHeaderBytes = 4 + 2 * 10;
  struct Entry {
    int32_t start;
    int32_t fde;
  };
  if (header[0] != 1 || header[3] != kTableEncoding || header[2] == kOmitted) return nullptr;
  auto base = reinterpret_cast<uint64_t>(header);
  UnwindBytes bytes = {header + 4, header + kMaxHeaderBytes};
  bytes.Pointer(header[1], base);
  uint64_t count = bytes.Pointer(header[2], base);
  if (bytes.failed || count == 0) return nullptr;
  auto table = reinterpret_cast<const Entry*>(bytes.at);
  auto target = static_cast<int64_t>(pc - base);
  if (target < table[0].start) return nullptr;
  uint64_t low = 0;  // the last one known to start at or before the target
  for (uint64_t rest = count; rest > 1;) {
    uint64_t half = rest / 2;
    low += table[low + half].start <= target ? half : 0;
    rest -= half;
  }
  return header + table[low].fde;
}

bool CoversAddress(const uint8_t* fde, uint64_t pc) {
  Fde entry;
  return ReadFde(fde, &entry) && pc >= entry.start && pc - entry.start < entry.length;
}

UnwindRule ReadRule(const uint8_t* fde, uint64_t pc, uint64_t ip) {
  const UnwindRule none = NoRule(StackCut::kNoUnwindInfo);
  Fde entry;
  if (!ReadFde(fde, &entry) || pc < entry.start || pc - entry.start >= entry.length) return none;
  CfaProgram program(entry.cie, entry.start, pc);
  if (!program.Run(entry.cie.program)) return none;
  program.EndOfCie();
  return program.Run(entry.program) ? RuleOfRow(program.row(), entry.cie.is_signal_frame, ip) : none;
}

bool RuleOfEpilogue(const uint8_t* code, size_t size, UnwindRule* rule) {
  int32_t depth = 0;
  size_t at = 0;
  if (at + 4 <= size && code[at] == 0x48 && code[at + 1] == 0x83 && code[at + 2] == 0xc4) {  // add $n, %rsp
    depth = static_cast<int8_t>(code[at + 3]);
    at += 4;
  }
  *rule = {depth + 8, 0, -8, FrameBase::kSp, FrameBase::kNone, ReturnFrom::kAtCfa, false};
  if (at < size && code[at] == 0x5d) {  // pop %rbp
    *rule = {depth + 16, -16, -8, FrameBase::kSp, FrameBase::kCfa, ReturnFrom::kAtCfa, false};
    ++at;
  }
  bool returns = at < size && (code[at] == 0xc3 || (at + 1 < size && code[at] == 0xf3 && code[at + 1] == 0xc3));
  return returns && depth >= 0 && depth % 8 == 0;
}

bool EndsWithCall(const uint8_t* code, size_t size) {
  if (size >= 5 && code[size - 5] == 0xe8) return true;  // call rel32
  // call *…: ff /2, with a ModR/M byte and what that asks for.
  for (size_t length = 2; length <= 7 && length <= size; ++length) {
    const uint8_t* at = code + size - length;
    if (at[0] != 0xff || (at[1] & 0x38) != 0x10) continue;
    uint8_t mode = at[1] >> 6;
    uint8_t base = at[1] & 7;
    size_t bytes = 2;
    if (mode != 3 && base == 4) ++bytes;  // SIB
    if (mode == 1) bytes += 1;
    if (mode == 2 || (mode == 0 && base == 5)) bytes += 4;
    if (mode == 0 && base == 4 && (at[2] & 7) == 5) bytes += 4;
    if (bytes == length) return true;
  }
  return false;
}

}  // namespace dlhook::inline unwind
