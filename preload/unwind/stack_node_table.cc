#include "preload/unwind/stack_node_table.h"

#include <atomic>

#include "preload/base/own_pages.h"
#include "preload/base/spin_lock.h"
#include "preload/runtime/process_state.h"
#include "preload/runtime/shared_pages.h"

namespace dlhook::inline unwind {
namespace {

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
