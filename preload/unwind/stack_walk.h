// Walks from frame to frame outwards, by rules. The words read from the stack are kept with each frame: a later capture
// that finds the same words need not walk again.
// Whose stack it is, parameters say: Stack reads its words (CopiedStack), Rules finds an address's rule (RuleCache; of
// another process analyzer/io/wait_stacks.cc).
// Thread: the one whose stack it is, if it is this process's. No lock and no system call if the rules are known and the stack is the thread's
// own.
#pragma once

#include "preload/base/own_memory.h"
#include "preload/unwind/unwind_tables.h"

namespace dlhook::inline unwind {

// Into a cache, the key last: a signal handler that leaves by longjmp must not leave half an entry behind.
template <typename Entry>
void KeepEntry(Entry entry, uint64_t Entry::*key, Entry* place) {
  const uint64_t value = entry.*key;
  place->*key = entry.*key = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  *place = entry;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  place->*key = value;
}

// The rule of an address in a stack.
struct CachedRule : FoundRule {
  enum Call : uint8_t { kNotChecked, kAfterCall, kAfterNoCall };
  bool is_own = false;      // the shim's
  Call call = kNotChecked;  // of a return address: does a call come before it?
  uint64_t pc = 0;          // within the instruction
};
static_assert(sizeof(UnwindRule) == 12 && sizeof(CachedRule) == 24, "every look-up reads one");

// A cache of the rules for the addresses in a thread's stacks. Two places for each: of three with the same ones the
// last two stay. (With one place, each of LeNet's stacks in PyTorch had to read a table again.)
// Thread: the one whose stacks they are; in memory that is initially zero.
class RuleCache {
 public:
  static constexpr uint32_t kSets = 2048;

  // `may_lock`: see FindRule. Valid until the next call.
  CachedRule* Find(uint64_t address, bool is_interrupted, bool may_lock) {
    uint64_t pc = is_interrupted ? address : address - 1;
    CachedRule* set = entries_[(pc * 0x9e3779b97f4a7c15u) >> 53];
    if (__builtin_expect(set[0].pc == pc, 1)) return &set[0];
    if (__builtin_expect(set[1].pc == pc, 1)) return &set[1];
    return Fill(set, address, is_interrupted, may_lock);
  }
  // Is the instruction before `address`, whose rule this is, a call? A system call the first time.
  static bool IsAfterCall(CachedRule* rule, uint64_t address) {
    if (rule->call == CachedRule::kNotChecked)
      rule->call = FollowsCall(address) ? CachedRule::kAfterCall : CachedRule::kAfterNoCall;
    return rule->call == CachedRule::kAfterCall;
  }
  void Clear() { memset(static_cast<void*>(entries_), 0, sizeof entries_); }

 private:
  CachedRule* Fill(CachedRule* set, uint64_t address, bool is_interrupted, bool may_lock);

  CachedRule entries_[kSets][2];
  CachedRule unkept_;
};

// The memory that a walk over a stack may read: the thread's own stack directly, any other (coroutines, signals'
// alternate stacks) through copies made by the kernel.
// Thread: the one whose stack it is.

// The part of the thread's own stack that is known to be readable: from the lowest checked address to its end.
struct StackBounds {
  uint64_t low;
  uint64_t high;  // 0: nothing is known
  // Checked stack pointers that are not in the thread's own stack.
  uint64_t foreign_low;
  uint64_t foreign_high;

  bool Holds(uint64_t stack_pointer) const { return stack_pointer >= low && stack_pointer < high; }
};

// `stack_pointer` is in the thread's own stack. Determines the stack's end: above a thread's stack glibc keeps the
// thread's control block, above that of the program's first thread are the program's arguments. One system call per 64
// pages, the first time at this depth. False: another stack, or not known.
bool ExtendBounds(uint64_t stack_pointer, StackBounds* bounds);

// Words of the thread's own stack.
class OwnStack {
 public:
  OwnStack(uint64_t low, uint64_t high) : low_(low), high_(high) {}
  bool Read(uint64_t address, uint64_t* value) const {
    if (__builtin_expect(address - low_ >= high_ - low_ || (address & 7) != 0, 0)) return false;
    *value = *reinterpret_cast<const uint64_t*>(address);
    return true;
  }

 private:
  uint64_t low_;
  uint64_t high_;  // a multiple of 8
};

// The last copied part of a stack.
struct StackWindow {
  static constexpr uint64_t kBytes = 8192;
  uint64_t start;
  uint64_t bytes;
  uint64_t words[kBytes / 8];
};

// Words of any memory, by copies: Memory::Copy(address, to, size) returns how many bytes from there on can be read. Of this
// process (base/own_memory.h), of another one, or a test's.
template <typename Memory>
class CopiedStack {
 public:
  CopiedStack(const Memory& memory, StackWindow* window) : memory_(memory), window_(window) { window->bytes = 0; }
  bool Read(uint64_t address, uint64_t* value) {
    if ((address & 7) != 0) return false;
    if (address - window_->start >= window_->bytes && !Copy(address)) return false;
    *value = window_->words[(address - window_->start) / 8];
    return true;
  }

 private:
  static constexpr uint32_t kMaxCopies = 256;

  bool Copy(uint64_t address) {
    if (++copies_ > kMaxCopies) return false;
    window_->start = address & ~(kPageBytes - 1);
    window_->bytes = memory_.Copy(window_->start, window_->words, sizeof window_->words) & ~uint64_t{7};
    return address - window_->start < window_->bytes;
  }

  const Memory& memory_;
  StackWindow* window_;
  uint32_t copies_ = 0;
};

constexpr uint32_t kMaxNativeFrames = 512;

// Everything besides memory that determines the frames outside of a frame.
struct FrameState {
  uint64_t address;  // return address; for a frame interrupted by a signal, the instruction
  uint64_t sp;
  uint64_t bp;
  bool is_interrupted;
};

// On a cache line of its own. The state outside of it is the next frame's.
struct WalkedFrame {
  FrameState state;
  // The addresses that the outer state was read from; 0: not read.
  uint64_t return_place;
  uint64_t bp_place;
  uint64_t cfa_place;
  bool needs_bp;  // its rule does
  bool keeps_bp;  // the outer frame's rbp is its own
  bool is_own;    // of the shim
};
static_assert(sizeof(WalkedFrame) == 64);

enum class WalkEnd : uint8_t {
  kOutermost,
  kTooDeep,
  kNoUnwindInfo,
  kOutOfStack,
  kUnreadable,  // a word outside of the thread's own stack
  kJoined,      // at a frame of the last stack
  kLeftStack,   // the signal interrupted code on another stack
};

inline StackCut CutOf(WalkEnd end) {
  switch (end) {
    case WalkEnd::kTooDeep:
      return StackCut::kTooDeep;
    case WalkEnd::kNoUnwindInfo:
      return StackCut::kNoUnwindInfo;
    case WalkEnd::kOutOfStack:
      return StackCut::kOutOfStack;
    case WalkEnd::kUnreadable:
      return StackCut::kUnreadable;
    default:
      return StackCut::kWhole;
  }
}

struct NoJoin {
  bool Knows(const FrameState&) const { return false; }
};

template <typename Rules>
class StackWalk {
 public:
  // `may_lock`: see FindRule.
  StackWalk(Rules* rules, WalkedFrame* frames, uint32_t max, bool may_lock)
      : rules_(rules), frames_(frames), max_(max), may_lock_at_first_(may_lock) {}

  // `stack`: OwnStack or CopiedStack. `join`: returns whether the stack outside of a state is known.
  template <typename Stack, typename Join>
  WalkEnd Run(const FrameState& start, Stack* stack, Join* join) {
    FrameState& state = outer_;
    state = start;
    count_ = 0;
    may_lock_ = may_lock_at_first_;
    is_exact_ = true;
    bool was_guess = false;
    for (;;) {
      if (join->Knows(state)) return WalkEnd::kJoined;
      CachedRule* rule = rules_->Find(state.address, state.is_interrupted, may_lock_);
      if (__builtin_expect(!rule->is_code || was_guess, 0)) {
        if (!may_lock_) is_exact_ = false;  // another walk may have a rule where this one had to guess
        bool is_wrong = !rule->is_code || (!state.is_interrupted && !Rules::IsAfterCall(rule, state.address));
        if (is_wrong) return Fail(was_guess ? WalkEnd::kNoUnwindInfo : WalkEnd::kOutOfStack);
      }
      if (__builtin_expect(count_ == max_, 0)) return Fail(WalkEnd::kTooDeep);
      WalkedFrame* frame = &frames_[count_++];
      frame->state = state;
      WalkEnd end;
      if (!Step(*rule, stack, frame, &end)) return end;
      was_guess = rule->is_guess;
    }
  }

  uint32_t count() const { return count_; }
  // The state outside of frame i: for the last one the state read last, or the joined one.
  const FrameState& OuterOf(uint32_t i) const { return i + 1 < count_ ? frames_[i + 1].state : outer_; }
  // False: the end depends on more than the words that were read.
  bool is_exact() const { return is_exact_; }

 private:
  static WalkEnd Failure(const OwnStack&, bool is_signal_frame) {
    return is_signal_frame ? WalkEnd::kLeftStack : WalkEnd::kOutOfStack;
  }
  template <typename Memory>
  static WalkEnd Failure(const CopiedStack<Memory>&, bool) {
    return WalkEnd::kUnreadable;
  }
  static bool MayGoBack(const OwnStack&) { return false; }
  template <typename Memory>
  static bool MayGoBack(const CopiedStack<Memory>&) {
    return true;
  }

  WalkEnd Fail(WalkEnd end) {
    is_exact_ = false;
    return end;
  }

  // True: `outer_` is the next frame.
  template <typename Stack>
  bool Step(const CachedRule& rule, Stack* stack, WalkedFrame* frame, WalkEnd* end) {
    const FrameState& inner = frame->state;
    frame->return_place = frame->bp_place = frame->cfa_place = 0;
    frame->is_own = rule.is_own;
    frame->keeps_bp = rule.bp_from == FrameBase::kNone;
    frame->needs_bp = false;
    if (__builtin_expect(rule.return_from >= ReturnFrom::kOutermost, 0)) {
      *end = rule.return_from == ReturnFrom::kOutermost ? WalkEnd::kOutermost : WalkEnd::kNoUnwindInfo;
      return false;
    }
    bool from_bp = rule.cfa_from == FrameBase::kBp || rule.cfa_from == FrameBase::kAtBp;
    uint64_t cfa = (from_bp ? inner.bp : inner.sp) + static_cast<int64_t>(rule.cfa_offset);
    frame->needs_bp = from_bp || rule.bp_from == FrameBase::kBp;
    bool is_readable = true;
    if (__builtin_expect(rule.cfa_from >= FrameBase::kAtSp, 0)) {
      frame->cfa_place = cfa;
      is_readable = stack->Read(cfa, &cfa);
    }
    bool goes_out = cfa > inner.sp || (rule.is_signal_frame && MayGoBack(*stack));
    outer_.sp = cfa;
    frame->return_place =
        (rule.return_from == ReturnFrom::kAtCfa ? cfa : inner.sp) + static_cast<int64_t>(rule.return_offset);
    is_readable =
        is_readable && goes_out && stack->Read(frame->return_place, &outer_.address) && ReadBp(rule, stack, frame);
    if (__builtin_expect(!is_readable, 0)) {
      *end = Fail(rule.is_guess ? WalkEnd::kNoUnwindInfo : Failure(*stack, rule.is_signal_frame));
      return false;
    }
    outer_.is_interrupted = rule.is_signal_frame;
    if (outer_.is_interrupted) may_lock_ = false;  // the interrupted code may hold the lock
    *end = WalkEnd::kOutermost;
    return outer_.address != 0;
  }

  template <typename Stack>
  bool ReadBp(const CachedRule& rule, Stack* stack, WalkedFrame* frame) {
    if (rule.bp_from == FrameBase::kNone) return true;
    uint64_t base = rule.bp_from == FrameBase::kCfa  ? outer_.sp
                    : rule.bp_from == FrameBase::kBp ? frame->state.bp
                                                     : frame->state.sp;
    frame->bp_place = base + static_cast<int64_t>(rule.bp_offset);
    return stack->Read(frame->bp_place, &outer_.bp);
  }

  FrameState outer_;
  Rules* rules_;
  WalkedFrame* frames_;
  uint32_t max_;
  uint32_t count_ = 0;
  bool may_lock_at_first_;
  bool may_lock_ = true;
  bool is_exact_ = true;
};

}  // namespace dlhook::inline unwind
