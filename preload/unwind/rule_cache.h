// A cache of the rules for the addresses in a thread's stacks. Two places for each: of three with the same ones the
// last two stay. (With one place, each of LeNet's stacks in PyTorch had to read a table again.)
// Thread: the one whose stacks they are; in memory that is initially zero.
#pragma once

#include "preload/unwind/unwind_tables.h"

namespace dlhook::inline unwind {

// An UnwindRule and other properties of its address, in 16 bytes.
struct CachedRule {
  uint64_t key;  // address within the instruction, << 16, and the bits below
  int32_t cfa_offset;
  int16_t bp_offset;
  int16_t return_offset;

  static constexpr uint64_t kSignalBit = 1 << 6;
  static constexpr uint64_t kGuessBit = 1 << 7;
  static constexpr uint64_t kNoCodeBit = 1 << 8;
  static constexpr uint64_t kOwnBit = 1 << 9;  // the shim's
  // For a return address: does a call come before it? Neither: not checked yet.
  static constexpr uint64_t kAfterCallBit = 1 << 10;
  static constexpr uint64_t kAfterNoCallBit = 1 << 11;
  static constexpr uint64_t kBits = 0xffff;

  // `bits`: of the above.
  static CachedRule Of(const UnwindRule& rule, uint64_t bits) {
    bits |= static_cast<uint64_t>(rule.cfa_from) | static_cast<uint64_t>(rule.bp_from) << 2 |
            static_cast<uint64_t>(rule.return_from) << 4 | (rule.is_signal_frame ? kSignalBit : 0);
    return {bits, rule.cfa_offset, rule.bp_offset, rule.return_offset};
  }

  CfaFrom cfa_from() const { return static_cast<CfaFrom>(key & 3); }
  BpFrom bp_from() const { return static_cast<BpFrom>(key >> 2 & 3); }
  ReturnFrom return_from() const { return static_cast<ReturnFrom>(key >> 4 & 3); }
  bool is_signal_frame() const { return (key & kSignalBit) != 0; }
  bool is_guess() const { return (key & kGuessBit) != 0; }
  bool is_code() const { return (key & kNoCodeBit) == 0; }
  bool is_own() const { return (key & kOwnBit) != 0; }
};
static_assert(sizeof(CachedRule) == 16);

constexpr uint64_t kCodeEnd = uint64_t{1} << 47;

class RuleCache {
 public:
  static constexpr uint32_t kSets = 2048;

  // `may_lock`: see FindRule. Valid until the next call.
  CachedRule* Find(uint64_t address, bool is_interrupted, bool may_lock) {
    uint64_t pc = is_interrupted ? address : address - 1;
    CachedRule* set = entries_[(pc * 0x9e3779b97f4a7c15u) >> 53];
    if (__builtin_expect(set[0].key >> 16 == pc, 1)) return &set[0];
    if (__builtin_expect(set[1].key >> 16 == pc, 1)) return &set[1];
    return Fill(set, address, is_interrupted, may_lock);
  }
  // Is the instruction before `address`, whose rule this is, a call? A system call the first time.
  static bool IsAfterCall(CachedRule* rule, uint64_t address) {
    constexpr uint64_t kYes = CachedRule::kAfterCallBit;
    constexpr uint64_t kNo = CachedRule::kAfterNoCallBit;
    if ((rule->key & (kYes | kNo)) == 0) rule->key |= FollowsCall(address) ? kYes : kNo;
    return (rule->key & kYes) != 0;
  }
  void Clear();

 private:
  CachedRule* Fill(CachedRule* set, uint64_t address, bool is_interrupted, bool may_lock);

  CachedRule entries_[kSets][2];
  CachedRule unkept_;
};

}  // namespace dlhook::inline unwind
