// Native stacks on their way through the drain: nodes of the session's tree -> Interned.stack. Thread: the drain's.
// Trusts nothing in the mapping: a node is read once, and a chain of them ends.
#include "preload/drain/drain.h"
#include "preload/format/stack_nodes.h"
#include "preload/proto_fields.h"

namespace dlhook::inline drain {
namespace {

// More than the capture keeps (it marks the cut itself): only a host that scribbles gets here.
constexpr uint32_t kMaxStackDepth = 1024;

void WriteNode(uint32_t iid, const StackNode& node, uint32_t address_iid, Buffer* out) {
  namespace f = fields::InternedStack;
  PacketWriter writer(out);
  size_t message = writer.Begin(fields::Interned::kStack);
  writer.UInt(f::kIid, iid);
  writer.UInt(f::kAddressIid, address_iid);
  writer.UInt(f::kParentIid, node.parent);
  writer.UInt(f::kCut, static_cast<uint32_t>(node.cut));
  writer.UInt(f::kIsSignalFrame, node.is_signal_frame != 0);
  writer.End(message);
}

}  // namespace

// Id of the stack with this node innermost, 0 where there is none. A node's number is its id: it is unique in the
// session, so that what was defined since the last Reset fits in a bit each.
uint32_t Drain::NativeStackOf(uint32_t number) {
  uint32_t numbers[kMaxStackDepth];
  StackNode nodes[kMaxStackDepth];
  uint32_t depth = 0;
  for (uint32_t at = number; at != 0 && !interner_.HasStackNode(at);) {
    const StackNode* found = FindStackNode(session_, mapping_bytes_, at);
    if (found == nullptr || depth == kMaxStackDepth) {
      if (depth == 0) return 0;
      StackNode& outermost = nodes[depth - 1];
      outermost.parent = 0;
      outermost.cut = found == nullptr ? StackCut::kUnreadable : StackCut::kTooDeep;
      break;
    }
    memcpy(&nodes[depth], found, sizeof *found);
    if (nodes[depth].parent >= at) nodes[depth].parent = 0;  // written to since it was looked at
    numbers[depth] = at;
    at = nodes[depth++].parent;
  }
  while (depth-- > 0) {
    interner_.AddStackNode(numbers[depth]);
    WriteNode(numbers[depth], nodes[depth], interner_.Address(nodes[depth].address), &pending_native_stacks_);
  }
  return number;
}

}  // namespace dlhook::inline drain
