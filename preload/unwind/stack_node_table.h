// The process's table of StackNodes: from a frame and the stack outside of it to the node's number.
// Thread: any application thread, for nodes not in its own cache. Reads without a lock, adds under one.
#pragma once

#include "preload/format/stack_nodes.h"

namespace dlhook::inline unwind {

// The number of the node; 0: no room for another one (counted), or the process is not recorded.
uint32_t FindOrAddStackNode(const StackNode& wanted);

// An object with frames in it was unloaded: its addresses may get another meaning. Existing nodes are no longer found.
void RetireStackNodes();

inline bool IsSameNode(const StackNode& one, const StackNode& other) {
  return one.address == other.address && one.parent == other.parent && one.cut == other.cut &&
         one.is_signal_frame == other.is_signal_frame;
}

inline uint64_t HashOfNode(uint64_t address, uint32_t parent) {
  uint64_t hash = (address ^ (uint64_t{parent} << 40)) * 0x9e3779b97f4a7c15u + parent * 0xc2b2ae3d27d4eb4fu;
  return hash ^ (hash >> 32);
}

}  // namespace dlhook::inline unwind
