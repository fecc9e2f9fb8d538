#include "preload/unwind/stack_node_table.h"

#include "preload/base/own_memory.h"
#include "preload/base/own_pages.h"
#include "preload/base/spin_lock.h"
#include "preload/runtime/process_state.h"
#include "preload/runtime/registry.h"
#include "preload/runtime/shared_pages.h"
#include "preload/unwind/unwind_tables.h"

namespace dlhook::inline unwind {
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
