// Native stacks in the drain: nodes of the session's tree -> Interned.stack. Samples, which are little else.
// Thread: the drain's. Trusts nothing in the mapping: a node is read once, and a chain of nodes is bounded.

#include "preload/drain/drain.h"
#include "preload/format/stack_nodes.h"

namespace dlhook::inline drain {
namespace {

// More than the capture keeps (it marks the cut itself): only a corrupted mapping gets here.
constexpr uint32_t kMaxStackDepth = 1024;

void WriteNode(uint32_t iid, const StackNode& node, uint32_t address_iid, Buffer* out) {
  PacketWriter writer(out);
  MessageScope message(&writer, fields::Interned::kStack);
  fields::InternedStack::Write({.iid = iid,
                                .address_iid = address_iid,
                                .parent_iid = node.parent,
                                .cut = node.cut,
                                .is_signal_frame = node.is_signal_frame != 0},
                               &writer);
}

}  // namespace

// Id of the stack whose innermost node this is, 0 if none. A node's number is its id, unique in the session, so one bit
// per node records what was defined since the last Reset.
template <typename Find>
uint32_t Drain::DefineStack(uint32_t number, Find find) {
  uint32_t numbers[kMaxStackDepth];
  StackNode nodes[kMaxStackDepth];
  uint32_t depth = 0;
  for (uint32_t at = number; at != 0 && !interner_.HasStackNode(at);) {
    StackNode found;
    const bool is_there = find(at, &found);
    if (!is_there || depth == kMaxStackDepth) {
      if (depth == 0) return 0;
      StackNode& outermost = nodes[depth - 1];
      outermost.parent = 0;
      outermost.cut = is_there ? StackCut::kTooDeep : StackCut::kUnreadable;
      break;
    }
    nodes[depth] = found;
    if (nodes[depth].parent >= at) nodes[depth].parent = 0;  // changed since it was read
    numbers[depth] = at;
    at = nodes[depth++].parent;
  }
  while (depth-- > 0) {
    interner_.AddStackNode(numbers[depth]);
    WriteNode(numbers[depth], nodes[depth], interner_.Address(nodes[depth].address), &pending_native_stacks_);
  }
  return number;
}

uint32_t Drain::NativeStackOf(uint32_t number) {
  return DefineStack(number, [this](uint32_t at, StackNode* node) {
    const StackNode* found = FindStackNode(session_, mapping_bytes_, at);
    if (found != nullptr) memcpy(node, found, sizeof *node);
    return found != nullptr;
  });
}

uint32_t Drain::OutsideStackOf(const OutsideStacks& stacks, uint32_t number) {
  if (number == 0 || number > stacks.node_count) return 0;
  return DefineStack(kMaxStackNodes + number - 1, [&](uint32_t at, StackNode* node) {
    if (at < kMaxStackNodes || at - kMaxStackNodes >= stacks.node_count) return false;
    *node = stacks.nodes[at - kMaxStackNodes];
    if (node->parent != 0) node->parent += kMaxStackNodes - 1;
    return true;
  });
}

void Drain::TakeSample(uint32_t slot, const SampleRecord* record) {
  uint32_t thread_id = state_.thread_ids[slot];
  if (record->ticks > state_.last_record_ticks) state_.last_record_ticks = record->ticks;
  if (!KeepsDetail(record->ticks)) {
    state_.left_out_samples += record->intervals;
    return;
  }
  if (samples_.MustFlushBefore(thread_id)) FlushBatch();
  BatchedSample ids = {interner_.Address(record->address),
                       record->native_stack == 0 ? 0 : NativeStackOf(record->native_stack),
                       PythonStackOf(record->python_stack)};
  if (!samples_.Add(thread_id, ids, *record)) LoseForMemory();
}

}  // namespace dlhook::inline drain
