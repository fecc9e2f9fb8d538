#include "preload/unwind/native_stack.h"

#include "preload/base/own_memory.h"
#include "preload/base/spin_lock.h"
#include "preload/link/resolver.h"
#include "preload/runtime/config.h"
#include "preload/runtime/definitions.h"
#include "preload/runtime/parts.h"
#include "preload/runtime/registry.h"
#include "preload/unwind/last_stack.h"

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
  KeepEntry(set[0], &NativeStackThread::KnownNode::key, &set[1]);
  KeepEntry({key, parent, node}, &NativeStackThread::KnownNode::key, &set[0]);
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
  ErrnoKeeper keeper;  // of the call
  return CaptureFrom(thread, {frame[1], reinterpret_cast<uintptr_t>(frame + 2), frame[0], false});
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

namespace {

// A forked child has the same objects, and the registry repeats them in its trace.
SpinLock g_lock;
struct NotedObject {
  CodeObject object;
  uint64_t fingerprint;
};
NotedObject g_objects[kMaxRegistryObjects];
uint32_t g_object_count;
uint32_t g_checked_generation;

// Of the file's beginning, with headers and build-id: an object loaded in place of another often has the same link_map.
// A copy, because another thread may be unloading it.
uint64_t FingerprintOf(const CodeObject& object) {
  uint64_t words[128];
  uint64_t hash = 0;
  if (CopyOwnMemory(object.start, words, sizeof words) != sizeof words) return hash;
  for (uint64_t word : words) hash = (hash ^ word) * 0x9e3779b97f4a7c15u + (hash >> 29);
  return hash;
}

bool IsSameObject(const CodeObject& one, const CodeObject& other) {
  return one.map == other.map && one.start == other.start;
}

bool IsGone(const NotedObject& noted) {
  CodeObject now;
  return !FindCodeObject(noted.object.start, &now) || !IsSameObject(now, noted.object) ||
         FingerprintOf(now) != noted.fingerprint;
}

// False: known already, or there are too many.
bool Add(const CodeObject& object) {
  SpinLockHolder holder(&g_lock);
  for (uint32_t i = 0; i < g_object_count; ++i) {
    if (IsSameObject(g_objects[i].object, object)) return false;
  }
  if (g_object_count == kMaxRegistryObjects) return false;  // so is the registry, which reports it
  g_objects[g_object_count++] = {object, FingerprintOf(object)};
  return true;
}

constexpr uint32_t kIndexEntries = 2 * kMaxStackNodes;  // a power of two; never full
static_assert((kIndexEntries & (kIndexEntries - 1)) == 0);
constexpr uint64_t kStepBytes = 64 << 10;

// In memory that is wiped in a forked child, which has its own session. All zero is a valid state.
struct NodeTable {
  SpinLock lock;
  uint64_t allocated;           // bytes of the mapping with real pages
  std::atomic<uint32_t> first;  // nodes before this one are retired
  std::atomic<uint32_t> is_full;
  std::atomic<uint32_t> index[kIndexEntries];  // node by hash; 0: free. Filled after the node
};

std::atomic<NodeTable*> g_table{nullptr};

NodeTable* GetTable() { return OneForEachProcess(&g_table); }

// Searches for the wanted node: its number, or 0 and the first free place.
uint32_t Find(const NodeTable& table, const StackNode* nodes, const StackNode& wanted, uint32_t* place) {
  uint32_t first = table.first.load(std::memory_order_relaxed);
  auto start = static_cast<uint32_t>(HashOfNode(wanted.address, wanted.parent));
  for (uint32_t i = 0;; ++i) {
    *place = (start + i) % kIndexEntries;
    uint32_t number = table.index[*place].load(std::memory_order_acquire);
    if (number == 0) return 0;
    if (number >= first && IsSameNode(nodes[number], wanted)) return number;
  }
}

// Allocates pages for the first `count` nodes. False: there is no room.
bool Allocate(const ProcessState* process, NodeTable* table, uint32_t count) {
  uint64_t bytes = uint64_t{count} * sizeof(StackNode);
  if (bytes <= table->allocated || process->ring_path[0] == '\0') return count <= kMaxStackNodes;
  uint64_t target = (bytes + kStepBytes - 1) / kStepBytes * kStepBytes;
  if (target > kStackNodesCapacity) return false;
  if (!AllocatePages(process, kStackNodesStart + table->allocated, target - table->allocated)) return false;
  if (process->session == nullptr) return false;  // the same
  table->allocated = target;
  return true;
}

uint32_t Refuse(SessionHeader* session) {
  session->refused_definitions.fetch_add(1, std::memory_order_relaxed);
  return 0;
}

uint32_t Add(const ProcessState* process, NodeTable* table, StackNode* nodes, const StackNode& wanted) {
  SpinLockHolder holder(&table->lock);
  uint32_t place;
  uint32_t found = Find(*table, nodes, wanted, &place);  // another thread may have added it
  if (found != 0) return found;
  SessionHeader* session = process->session;
  if (session == nullptr) return 0;  // a signal handler forked since: this is the child
  uint32_t number = session->stack_nodes.load(std::memory_order_relaxed);
  if (number == 0) number = 1;
  bool has_room = Allocate(process, table, number + 1);
  if (process->session == nullptr) return 0;
  if (!has_room) {
    table->is_full.store(1, std::memory_order_relaxed);
    return Refuse(session);
  }
  nodes[number] = wanted;
  session->stack_nodes.store(number + 1, std::memory_order_release);
  table->index[place].store(number, std::memory_order_release);
  return number;
}

}  // namespace

void NoteCodeObject(const CodeObject& object) {
  if (Add(object)) ReportCode(object.map, object.start, object.end);
}

void RetireGoneObjects(uint32_t generation) {
  SpinLockHolder holder(&g_lock);
  if (g_checked_generation == generation) return;
  g_checked_generation = generation;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < g_object_count; ++i) {
    if (!IsGone(g_objects[i])) g_objects[kept++] = g_objects[i];
  }
  if (kept == g_object_count) return;
  g_object_count = kept;
  RetireStackNodes();
}

uint32_t FindOrAddStackNode(const StackNode& wanted) {
  ProcessState* process = GetProcess();
  if (process == nullptr || process->phase.load(std::memory_order_acquire) != kRecording) return 0;
  NodeTable* table = GetTable();
  if (table == nullptr) return 0;
  auto nodes = reinterpret_cast<StackNode*>(reinterpret_cast<char*>(process->session) + kStackNodesStart);
  uint32_t place;
  uint32_t found = Find(*table, nodes, wanted, &place);
  if (found != 0) return found;
  // Without the lock: every new stack takes this path from now on.
  if (table->is_full.load(std::memory_order_relaxed) != 0) return Refuse(process->session);
  return Add(process, table, nodes, wanted);
}

void RetireStackNodes() {
  ProcessState* process = GetProcess();
  NodeTable* table = g_table.load(std::memory_order_acquire);
  if (process == nullptr || table == nullptr || process->session == nullptr) return;
  table->first.store(process->session->stack_nodes.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

}  // namespace dlhook::inline unwind
