#include "preload/unwind/native_stack.h"

#include <initializer_list>

#include "preload/base/frame_mark.h"
#include "preload/base/own_pages.h"
#include "preload/link/resolver.h"
#include "preload/runtime/config.h"
#include "preload/runtime/parts.h"
#include "preload/runtime/registry.h"
#include "preload/unwind/last_stack.h"
#include "preload/unwind/stack_node_table.h"
#include "preload/unwind/stack_walk.h"
#include "preload/unwind/unwind_tables.h"

namespace dlhook::inline unwind {

// A thread's cache of its stacks. Its pages are touched on demand.
struct NativeStackThread {
  struct KnownNode {
    uint64_t key;  // address and, above it, the rest of a node's identity
    uint32_t parent;
    uint32_t node;
  };
  static constexpr uint32_t kNodeSets = 2048;

  uintptr_t busy;       // the place of the current capture's mark, 0: none
  bool is_sample;       // that is for CaptureInterruptedStack
  StackCut sample_cut;  // its result
  uint32_t thread_id;   // of the thread that these belong to: slots are reused
  uint32_t generation;  // CurrentBindingGeneration() of the rules
  StackBounds bounds;
  StackWindow window;
  LastStack last;
  WalkedFrame walked[kMaxNativeFrames];  // the innermost first
  RuleCache rules;
  KnownNode nodes[kNodeSets][2];
};

namespace {

void SayThatThereAreStacks(CapabilityState state, const char* reason) {
  static std::atomic<bool> is_said{false};
  bool is_wanted = GetConfig().stack_families != 0;
  if (is_wanted && !is_said.exchange(true)) ReportCapability("native-stacks", "", state, reason);
}

NativeStackThread* NewMemory(ThreadState* thread) {
  void* pages = MapOwnPages(sizeof(NativeStackThread));
  if (pages == nullptr) {
    SayThatThereAreStacks(CapabilityState::kRefused, "no memory");
    return nullptr;
  }
  madvise(pages, sizeof(NativeStackThread), MADV_NOHUGEPAGE);  // much of it is never touched
  // A forked child keeps a copy unknown to its wiped ThreadState: a handler that forked may return into a capture
  // there, which must find its data.
  thread->native_stacks = static_cast<NativeStackThread*>(pages);
  SayThatThereAreStacks(CapabilityState::kOn, "");
  return thread->native_stacks;
}

void ForgetAddresses(NativeStackThread* memory) {
  memory->last.Forget();
  memory->rules.Clear();
  memset(memory->nodes, 0, sizeof memory->nodes);
}

// Null: no memory.
NativeStackThread* MemoryOf(ThreadState* thread) {
  NativeStackThread* memory = thread->native_stacks;
  if (__builtin_expect(memory == nullptr, 0)) memory = NewMemory(thread);
  if (memory == nullptr) return nullptr;
  if (__builtin_expect(memory->thread_id != thread->thread_id, 0)) {
    memory->thread_id = thread->thread_id;
    memory->busy = 0;
    memory->bounds = {};
    memory->last.Forget();
  }
  return memory;
}

// Assigns nodes to the walked frames, outer ones first. `keep`: the next capture may join them. Returns the innermost
// one's node.
uint32_t Remember(NativeStackThread* memory, const StackWalk<RuleCache>& walk, WalkEnd end, bool keep) {
  bool joined = end == WalkEnd::kJoined;
  uint32_t node = joined ? memory->last.joined_node() : 0;
  if (keep) memory->last.Cut(joined);
  StackCut cut = CutOf(end);
  for (uint32_t i = walk.count(); i-- > 0;) {
    const WalkedFrame& frame = memory->walked[i];
    bool is_end = !joined && i + 1 == walk.count();
    if (memory->is_sample && i == 0) {  // recorded with the sample: there are more of them than of all others
      memory->sample_cut = cut;
      break;
    }
    if (!frame.is_own) {
      node = NodeOf(memory, frame.state, node, cut);
      if (__builtin_expect(node == 0, 0)) {  // no room: what is outside may still be joined
        memory->sample_cut = StackCut::kTooDeep;
        return 0;
      }
      cut = StackCut::kWhole;
    }
    if (keep) memory->last.Push(frame, walk.OuterOf(i), is_end, node);
  }
  return node;
}

uint32_t CaptureInto(NativeStackThread* memory, const FrameState& start, FrameMark* mark) {
  memory->busy = mark->Set();
  std::atomic_signal_fence(std::memory_order_seq_cst);
  uint32_t generation = CurrentBindingGeneration();
  if (__builtin_expect(memory->generation != generation, 0)) {
    RetireGoneObjects(generation);
    ForgetAddresses(memory);
    memory->generation = generation;
  }
  uint32_t node = g_capture_stack(memory, start);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  memory->busy = 0;
  return node;
}

uint32_t CaptureFrom(ThreadState* thread, const FrameState& caller) {
  FrameMark mark;
  NativeStackThread* memory = MemoryOf(thread);
  if (memory == nullptr) return 0;
  if (__builtin_expect(memory->busy != 0, 0)) {
    if (mark.SeesWorkAt(memory->busy)) return 0;
    memory->last.Forget();
  }
  return CaptureInto(memory, caller, &mark);
}

}  // namespace

uint32_t NodeOf(NativeStackThread* memory, const FrameState& state, uint32_t parent, StackCut cut) {
  uint64_t key = state.address | uint64_t{state.is_interrupted} << 56 | static_cast<uint64_t>(cut) << 57;
  NativeStackThread::KnownNode* set = memory->nodes[HashOfNode(state.address, parent) % NativeStackThread::kNodeSets];
  for (int i = 0; i < 2; ++i) {
    if (__builtin_expect(set[i].key == key && set[i].parent == parent, 1)) return set[i].node;
  }
  StackNode wanted = {state.address, parent, cut, state.is_interrupted, {0, 0}};
  uint32_t node = FindOrAddStackNode(wanted);
  if (node == 0) return 0;
  // A signal handler that leaves by longjmp must not leave half an entry behind.
  for (NativeStackThread::KnownNode* known : {&set[1], &set[0]}) {
    NativeStackThread::KnownNode now = known == &set[1] ? set[0] : NativeStackThread::KnownNode{key, parent, node};
    known->key = 0;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    known->parent = now.parent;
    known->node = now.node;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    known->key = now.key;
  }
  return node;
}

uint32_t CaptureWhole(NativeStackThread* memory, const FrameState& start, bool keep) {
  StackWalk walk(&memory->rules, memory->walked, kMaxNativeFrames, !memory->is_sample);
  NoJoin none;
  if (memory->bounds.Holds(start.sp)) {
    OwnStack stack(start.sp, memory->bounds.high);
    WalkEnd end = walk.Run(start, &stack, &none);
    if (end != WalkEnd::kLeftStack) return Remember(memory, walk, end, keep && walk.is_exact());
  }
  const OwnMemory own;
  CopiedStack stack(own, &memory->window);
  WalkEnd end = walk.Run(start, &stack, &none);
  return Remember(memory, walk, end, false);
}

uint32_t CaptureJoined(NativeStackThread* memory, const FrameState& start) {
  StackBounds* bounds = &memory->bounds;
  bool is_own = bounds->Holds(start.sp) || ExtendBounds(start.sp, bounds);
  if (__builtin_expect(!is_own, 0)) return CaptureWhole(memory, start, true);
  memory->last.Verify(start.sp);
  StackWalk walk(&memory->rules, memory->walked, kMaxNativeFrames, !memory->is_sample);
  OwnStack stack(start.sp, bounds->high);
  WalkEnd end = walk.Run(start, &stack, &memory->last);
  bool is_too_deep = end == WalkEnd::kJoined && memory->last.joined_count() + walk.count() > kMaxNativeFrames;
  if (__builtin_expect(end == WalkEnd::kLeftStack || is_too_deep, 0)) return CaptureWhole(memory, start, true);
  return Remember(memory, walk, end, walk.is_exact());
}

RuleCache* RulesOf(NativeStackThread* memory) { return &memory->rules; }

#ifdef DLHOOK_LIBUNWIND
CaptureStack g_capture_stack = &CaptureByLibunwind;
#else
CaptureStack g_capture_stack = &CaptureJoined;
#endif

__attribute__((noinline)) uint32_t CaptureNativeStack(ThreadState* thread) {
  if (__builtin_expect(thread->active == 0, 0)) return 0;  // forked since the call began
  auto frame = static_cast<const uint64_t*>(__builtin_frame_address(0));
  int saved_errno = errno;  // of the call
  uint32_t node = CaptureFrom(thread, {frame[1], reinterpret_cast<uintptr_t>(frame + 2), frame[0], false});
  errno = saved_errno;
  return node;
}

bool CaptureInterruptedStack(ThreadState* thread, const FrameState& top, InterruptedStack* stack) {
  NativeStackThread* memory = thread->native_stacks;
  if (memory == nullptr || memory->thread_id != thread->thread_id || memory->busy != 0) return false;
  memory->is_sample = true;
  memory->sample_cut = StackCut::kWhole;
  FrameMark mark;
  stack->outer = CaptureInto(memory, top, &mark);
  stack->cut = memory->sample_cut;
  memory->is_sample = false;
  return true;
}

}  // namespace dlhook::inline unwind
