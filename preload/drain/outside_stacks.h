// Stacks of blocked threads, and for how long they were blocked there, as the launcher reads them from outside; passed to the
// drain of the process.
// Thread: the drain's, of a launcher.
#pragma once

#include <compare>

#include "preload/format/stack_nodes.h"
#include "preload/format/thread_states.h"

namespace dlhook::inline drain {

constexpr uint32_t kMaxOutsideNodes = 1 << 16;

struct OutsidePythonFrame {
  const char* file;
  const char* function;
  uint32_t line;
  bool is_entry;
  auto operator<=>(const OutsidePythonFrame&) const = default;  // by where its texts are
};
struct OutsidePythonStack {
  const OutsidePythonFrame* frames;  // innermost first
  uint32_t count;
  bool is_cut;
};

// By numbers from 1 upward.
struct OutsideStacks {
  const StackNode* nodes;  // a parent before its children
  uint32_t node_count;
  const OutsidePythonStack* python;
  uint32_t python_count;
};

struct Wait {
  uint64_t start_ticks;
  uint64_t end_ticks;
  BlockedIn blocked_in;
  StackCut cut;           // why there is no native stack
  uint64_t address;       // 0: not known
  uint32_t native_stack;  // numbers of OutsideStacks, 0: none
  uint32_t python_stack;
};

}  // namespace dlhook::inline drain
