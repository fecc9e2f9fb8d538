// Trusts nothing in the process.
#include "analyzer/io/wait_stacks.h"

#include <iterator>

#include "analyzer/io/machine_files.h"
#include "preload/format/identity.h"
#include "preload/unwind/stack_walk.h"

namespace dlhook::analyzer::inline io {
namespace {

constexpr size_t kMostOuterFrames = 100;
constexpr int64_t kHandOverEveryNs = 1'000'000'000;

// The rules of another process's code, for StackWalk.
class OutsideRules {
 public:
  explicit OutsideRules(OutsideCode* code) : code_(*code) {}

  // Nothing is known of code that is in no file: JIT code, or no return address at all.
  CachedRule* Find(uint64_t address, bool is_exact, bool /*may_lock*/) {
    const uint64_t pc = is_exact ? address : address - 1;
    const OutsideCode::Object* const object = code_.Find(pc);
    rule_ = {{object == nullptr ? NoRule(StackCut::kNoUnwindInfo) : object->file->RuleAt(pc, object->start, address)}};
    return &rule_;
  }
  static bool IsAfterCall(CachedRule*, uint64_t) { return true; }

 private:
  OutsideCode& code_;
  CachedRule rule_ = {};
};

}  // namespace

OutsideFrames FollowStack(uint64_t address, uint64_t sp, const MemoryReader& memory, OutsideCode* code) {
  constexpr uint64_t kUnknownBp = 1;  // nothing is read by it: words are at multiples of 8
  OutsideRules rules(code);
  WalkedFrame walked[1 + kMostOuterFrames];
  StackWalk walk(&rules, walked, std::size(walked), false);
  StackWindow window;
  CopiedStack stack(memory, &window);
  NoJoin none;
  const WalkEnd end = walk.Run({.address = address, .sp = sp, .bp = kUnknownBp, .is_interrupted = true}, &stack, &none);
  OutsideFrames frames = {.address = address, .outer = {}, .cut = CutOf(end)};
  for (uint32_t i = 1; i < walk.count(); ++i)
    frames.outer.push_back({walked[i].state.address, walked[i].state.is_interrupted});
  const WalkedFrame& last = walked[walk.count() - 1];
  if (end == WalkEnd::kUnreadable)
    frames.cut = last.needs_bp && last.state.bp == kUnknownBp ? StackCut::kNoUnwindInfo : StackCut::kOutOfStack;
  return frames;
}

// "202 0x7f… … SP PC", "-1 SP PC".
std::optional<OutsideFrames> StackInSystemCall(absl::string_view system_call, const MemoryReader& memory,
                                               OutsideCode* code) {
  const std::vector<absl::string_view> words = absl::StrSplit(system_call, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  uint64_t sp = 0, address = 0;
  const bool is_told = words.size() >= 3 && absl::SimpleHexAtoi(words[words.size() - 2], &sp) &&
                       absl::SimpleHexAtoi(words.back(), &address);
  return is_told ? std::optional(FollowStack(address, sp, memory, code)) : std::nullopt;
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

Wait WaitStacks::PlaceOf(const BlockedLook& look) {
  const std::optional<OutsideFrames> frames = StackInSystemCall(look.system_call, *memory_, &*code_);
  if (!frames) return {};
  const uint32_t python = python_->StackOf(PythonStateOf(look));
  if (!StandsStill(look)) return {};
  Wait place = {};
  place.address = frames->address;
  place.native_stack = NodesOf(*frames);
  place.cut = frames->cut;
  place.python_stack = python;
  NoteCode(frames->address);
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
