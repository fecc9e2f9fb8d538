// Native stacks as a tree: a node is a frame and the node of its outer frames, so a stack is the number of its
// innermost frame. The nodes are in the session's mapping: any drain can look them up, even after the process was
// killed, and a dropped record affects no others (docs/design.md, "Stacks", says why this is not done in the drain).
// Append-only, bounded.
#pragma once

#include "preload/format/session.h"

namespace dlhook::inline format {

using StackCut = fields::InternedStack::Cut;

struct StackNode {
  uint64_t address;  // return address; for a frame interrupted by a signal, the instruction
  uint32_t parent;   // less than this node's own number; 0: none
  StackCut cut;
  uint8_t is_signal_frame;
  uint8_t reserved[2];
};
static_assert(sizeof(StackNode) == 16);
constexpr uint32_t kMaxStackNodes = kStackNodesCapacity / sizeof(StackNode);

// The node with this number, or null. Trusts nothing in the mapping.
// Thread: the drain's.
inline const StackNode* FindStackNode(const SessionHeader* session, uint64_t mapping_bytes, uint32_t number) {
  uint32_t published = session->stack_nodes.load(std::memory_order_acquire);
  if (number == 0 || number >= published || published > kMaxStackNodes) return nullptr;
  if (mapping_bytes < kStackNodesStart + uint64_t{published} * sizeof(StackNode)) return nullptr;
  auto nodes = reinterpret_cast<const StackNode*>(reinterpret_cast<const char*>(session) + kStackNodesStart);
  return nodes[number].parent < number ? nodes + number : nullptr;
}

}  // namespace dlhook::inline format
