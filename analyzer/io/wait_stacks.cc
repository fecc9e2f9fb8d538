// Trusts nothing in the process.
#include "analyzer/io/wait_stacks.h"

#include <string.h>
#include <time.h>

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "analyzer/io/machine_files.h"
#include "preload/drain/proc_counters.h"
#include "preload/format/clock.h"
#include "preload/format/identity.h"

namespace dlhook::analyzer::inline io {
namespace {

constexpr size_t kMostOuterFrames = 100;
constexpr size_t kStackBytes = 16 << 10;
constexpr int64_t kHandOverEveryNs = 1'000'000'000;

// Words of the stack, by copies of a part at a time.
class StackWindow {
 public:
  explicit StackWindow(const MemoryReader& memory) : memory_(memory) {}

  bool Read(uint64_t address, uint64_t* word) {
    if (address % 8 != 0) return false;
    if (address - start_ >= bytes_ && !Copy(address)) return false;
    memcpy(word, window_.data() + (address - start_), sizeof *word);
    return true;
  }

 private:
  // Up to the end of what is mapped: a page less at each try.
  bool Copy(uint64_t address) {
    if (++copies_ > 64) return false;
    window_.resize(kStackBytes);
    start_ = address;
    for (bytes_ = kStackBytes - address % 4096; bytes_ > 0; bytes_ -= std::min<size_t>(bytes_, 4096)) {
      if (memory_.Read(address, window_.data(), bytes_)) return true;
    }
    return false;
  }

  const MemoryReader& memory_;
  std::vector<char> window_;
  uint64_t start_ = 0;
  size_t bytes_ = 0;
  int copies_ = 0;
};

struct Registers {
  uint64_t address = 0;
  uint64_t sp = 0;
  std::optional<uint64_t> bp;  // not known at first
  bool is_exact = true;        // the address is an instruction, not a return address
};

// The caller's; false, with the reason unless the frame is the outermost: there is none.
bool StepOut(const UnwindRule& rule, StackWindow* stack, Registers* at, StackCut* cut) {
  *cut = StackCut::kWhole;
  if (rule.return_from == ReturnFrom::kOutermost) return false;
  *cut = StackCut::kNoUnwindInfo;
  if (rule.return_from == ReturnFrom::kNowhere) return false;
  const bool is_from_bp = rule.cfa_from == CfaFrom::kBp || rule.cfa_from == CfaFrom::kAtBp;
  if ((is_from_bp || rule.bp_from == BpFrom::kAtBp) && !at->bp) return false;
  *cut = StackCut::kOutOfStack;
  uint64_t cfa = (is_from_bp ? *at->bp : at->sp) + static_cast<uint64_t>(int64_t{rule.cfa_offset});
  const bool is_there = rule.cfa_from == CfaFrom::kAtSp || rule.cfa_from == CfaFrom::kAtBp;
  if (is_there && !stack->Read(cfa, &cfa)) return false;
  if (cfa <= at->sp && !rule.is_signal_frame) return false;  // signals have stacks of their own
  const auto place = [&](bool is_at_cfa, int16_t offset) {
    return (is_at_cfa ? cfa : at->sp) + static_cast<uint64_t>(int64_t{offset});
  };
  Registers outer = {.sp = cfa, .bp = at->bp, .is_exact = rule.is_signal_frame};
  if (!stack->Read(place(rule.return_from == ReturnFrom::kAtCfa, rule.return_offset), &outer.address)) return false;
  if (rule.bp_from != BpFrom::kSame) {
    uint64_t bp = 0;
    const uint64_t from = rule.bp_from == BpFrom::kAtBp ? *at->bp + static_cast<uint64_t>(int64_t{rule.bp_offset})
                                                        : place(rule.bp_from == BpFrom::kAtCfa, rule.bp_offset);
    if (!stack->Read(from, &bp)) return false;
    outer.bp = bp;
  }
  *at = outer;
  *cut = StackCut::kWhole;
  return outer.address != 0;
}

}  // namespace

OutsideFrames FollowStack(uint64_t address, uint64_t sp, const MemoryReader& memory, OutsideCode* code) {
  StackWindow stack(memory);
  Registers at = {.address = address, .sp = sp};
  OutsideFrames frames;
  for (;;) {
    const uint64_t pc = at.is_exact ? at.address : at.address - 1;
    const OutsideCode::Object* const object = code->Find(pc);
    if (object == nullptr) {  // nothing is known of its code: JIT code, or no return address at all
      frames.cut = StackCut::kNoUnwindInfo;
      return frames;
    }
    if (!StepOut(object->file->RuleAt(pc, object->start, at.address), &stack, &at, &frames.cut)) return frames;
    if (frames.outer.size() == kMostOuterFrames) {
      frames.cut = StackCut::kTooDeep;
      return frames;
    }
    frames.outer.push_back({at.address, at.is_exact});
  }
}

WaitStacks::WaitStacks(const SessionHeader& session) : session_(session) {
  if (session.pid_namespace != PidNamespace() || session.sample_interval_ns == 0) return;
  pid_ = session.pid;
  memory_.emplace(static_cast<pid_t>(pid_));
  code_.emplace(static_cast<pid_t>(pid_));
  python_.emplace(*memory_, session.python);
}

// Threads that have no records are not told: the trace does not name them.
void WaitStacks::See(void* self, const BlockedLook& look) {
  auto& stacks = *static_cast<WaitStacks*>(self);
  if (look.thread_id == 0) return;
  Thread& thread = stacks.threads_[look.tid];
  if (thread.task_clock_ns != look.task_clock_ns || thread.system_call != look.system_call) {
    thread = {look.task_clock_ns, look.system_call, stacks.PlaceOf(look)};
  }
  Wait wait = thread.place;
  wait.start_ticks = look.since_ticks;
  wait.end_ticks = look.ticks;
  wait.blocked_in = look.blocked_in;
  std::vector<Wait>& waits = stacks.waits_[look.thread_id];
  if (!waits.empty()) {
    Wait& last = waits.back();
    const bool goes_on = last.end_ticks == wait.start_ticks && last.address == wait.address &&
                         last.native_stack == wait.native_stack && last.python_stack == wait.python_stack &&
                         last.blocked_in == wait.blocked_in && last.cut == wait.cut;
    if (goes_on) {
      last.end_ticks = wait.end_ticks;
      return;
    }
  }
  waits.push_back(wait);
}

// "202 0x7f… … SP PC", "-1 SP PC".
Wait WaitStacks::PlaceOf(const BlockedLook& look) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(look.system_call, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  uint64_t sp = 0, address = 0;
  if (words.size() < 3 || !absl::SimpleHexAtoi(words[words.size() - 2], &sp) ||
      !absl::SimpleHexAtoi(words.back(), &address))
    return {};
  const OutsideFrames frames = FollowStack(address, sp, *memory_, &*code_);
  const uint32_t python = python_->StackOf(PythonStateOf(look));
  if (!StandsStill(look)) return {};
  Wait place = {};
  place.address = address;
  place.native_stack = NodesOf(frames);
  place.cut = frames.cut;
  place.python_stack = python;
  NoteCode(address);
  return place;
}

// A thread shows its own when it computes or makes a recorded call; others are found by one that did.
uint64_t WaitStacks::PythonStateOf(const BlockedLook& look) {
  OutsidePython::Known known = {};
  const uint32_t slots = std::min<uint32_t>(session_.slots_in_use.load(std::memory_order_acquire), kMaxSlots);
  for (uint32_t i = 0; i < slots; ++i) {
    const Slot& slot = session_.slots[i];
    const uint64_t state = slot.python_state.load(std::memory_order_acquire);
    if (slot.thread_id.load(std::memory_order_acquire) == look.thread_id && state != 0) return state;
    if (state != 0 && known.thread_state == 0) known = {state, slot.tid.load(std::memory_order_relaxed)};
  }
  return python_->StateOf(look.tid, known);
}

// Since the look: a thread that has run has another clock, one that runs has no system call.
bool WaitStacks::StandsStill(const BlockedLook& look) const {
  const std::string task = absl::StrCat("/proc/", pid_, "/task/", look.tid);
  uint64_t task_clock_ns = 0, queued_ns = 0;
  return ReadSmallFile(task + "/syscall") == look.system_call &&
         ParseSchedstat(ReadSmallFile(task + "/schedstat").c_str(), &task_clock_ns, &queued_ns) &&
         task_clock_ns == look.task_clock_ns;
}

uint32_t WaitStacks::NodesOf(const OutsideFrames& frames) {
  uint32_t node = 0;
  for (size_t i = frames.outer.size(); i-- > 0;) {
    const OutsideFrames::Frame& frame = frames.outer[i];
    const StackCut cut = i + 1 == frames.outer.size() ? frames.cut : StackCut::kWhole;
    const auto [place, is_new] = node_numbers_.try_emplace({frame.address, node, cut, frame.is_interrupted}, 0);
    if (is_new) {
      if (nodes_.size() == kMaxOutsideNodes) {
        node_numbers_.erase(place);
        return node;  // its outer frames
      }
      nodes_.push_back({frame.address, node, cut, frame.is_interrupted, {}});
      NoteCode(frame.address - (frame.is_interrupted ? 0 : 1));
      place->second = static_cast<uint32_t>(nodes_.size());
    }
    node = place->second;
  }
  return node;
}

void WaitStacks::NoteCode(uint64_t address) {
  OutsideCode::Object* const object = code_->Find(address);
  if (object != nullptr && !std::exchange(object->is_told, true)) new_code_.push_back(*object);
}

void WaitStacks::Step(Drain* drain, bool all) {
  const auto now_ns = static_cast<int64_t>(ClockNanoseconds(CLOCK_MONOTONIC));
  if (pid_ == 0 || (!all && now_ns < next_ns_)) return;
  next_ns_ = now_ns + kHandOverEveryNs;
  for (const OutsideCode::Object& code : new_code_) {
    const std::vector<uint8_t>& build_id = code.file->build_id();
    drain->AddCode(code.start, code.end, code.path.c_str(), build_id.data(), static_cast<uint32_t>(build_id.size()));
  }
  new_code_.clear();
  for (auto& [thread_id, waits] : waits_) {
    for (size_t at = 0; at < waits.size(); at += Drain::kMostWaits) {
      const auto count = static_cast<uint32_t>(std::min<size_t>(waits.size() - at, Drain::kMostWaits));
      drain->AddWaits(thread_id, waits.data() + at, count, stacks());
    }
  }
  waits_.clear();
}

}  // namespace dlhook::analyzer::io
