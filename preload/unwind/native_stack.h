// The native stack of the calling thread, for calls that record one (DLHOOK_STACKS).
// Thread: any application thread, for itself only.
#pragma once

#include "preload/format/stack_nodes.h"
#include "preload/runtime/thread_state.h"

namespace dlhook::inline unwind {

class RuleCache;
struct FrameState;

// The StackNode of the innermost frame outside of the shim; 0: none (no room: counted; a signal handler that
// interrupted this; a child forked since the call began). Saves errno. No system call and no lock if the stack's
// functions and frames are known.
uint32_t CaptureNativeStack(ThreadState* thread);

// The same in a signal's handler, for the code that it interrupted, after the thread's first CaptureNativeStack: waits for
// no lock but the shim's own, so not if t_spin_locks. False: that code is itself capturing a stack.
struct InterruptedStack {
  uint32_t outer;  // StackNode of the frame outside of `top`, 0: none
  StackCut cut;    // why there is none
};
bool CaptureInterruptedStack(ThreadState* thread, const FrameState& top, InterruptedStack* stack);

// Captures a stack that begins with `start`: CaptureJoined, or CaptureByLibunwind. The tests' build of the
// shim (tests/testing_shim/) has one that compares several.
using CaptureStack = uint32_t (*)(NativeStackThread* memory, const FrameState& start);
extern CaptureStack g_capture_stack;

// Reuses the part that the thread's last stack shares with this one.
uint32_t CaptureJoined(NativeStackThread* memory, const FrameState& start);
// Walks to the end. `keep`: for the next capture.
uint32_t CaptureWhole(NativeStackThread* memory, const FrameState& start, bool keep);

// The second way: by libunwind, in builds with the CMake option DLHOOK_LIBUNWIND and in the tests', as witness. By the shim's
// own walk if there is no libunwind, or in a signal handler, where that might wait forever: it allocates and takes the loader's
// lock.
uint32_t CaptureByLibunwind(NativeStackThread* memory, const FrameState& start);
bool HasLibunwind();
// For it.
RuleCache* RulesOf(NativeStackThread* memory);
// The node of a frame inside of `parent`; `cut`: what is outside of it is missing for this reason. 0: no room.
uint32_t NodeOf(NativeStackThread* memory, const FrameState& state, uint32_t parent, StackCut cut);

// The number of the node in the process's table; 0: no room for another one (counted), or the process is not recorded. Reads
// without a lock, adds under one.
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
