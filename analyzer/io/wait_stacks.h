// Where threads of a sampled process are blocked: their stacks, read from outside by the launcher at its looks
// (preload/drain/proc_counters.h). A blocked thread's stack stands still; what moved meanwhile is not used. No signal, no
// ptrace: the process does not notice.
#pragma once

#include "analyzer/io/outside_code.h"
#include "preload/drain/drain.h"
#include "preload/drain/proc_counters.h"
#include "preload/format/session.h"

namespace dlhook::analyzer::inline io {

// The frames outside of one at `address`, which is exact, where the stack pointer is `sp`; other registers are not known: the
// walk ends at a frame that is found by rbp, unless a frame inside of it has saved it.
struct OutsideFrames {
  struct Frame {
    uint64_t address;
    bool is_interrupted;
  };
  uint64_t address = 0;
  std::vector<Frame> outer;  // innermost first
  StackCut cut = StackCut::kWhole;
};
OutsideFrames FollowStack(uint64_t address, uint64_t sp, const MemoryReader& memory, OutsideCode* code);
// Of a thread of which /proc/PID/task/TID/syscall says this; nullopt: it says nothing.
std::optional<OutsideFrames> StackInSystemCall(absl::string_view system_call, const MemoryReader& memory,
                                               OutsideCode* code);

class WaitStacks {
 public:
  // Nothing is read of a process that is not sampled, or in another pid namespace.
  explicit WaitStacks(const SessionHeader& session);

  BlockedObserver observer() { return pid_ == 0 ? BlockedObserver{} : BlockedObserver{&See, this}; }
  // Hands over what is known, once a second; `all`: now.
  void Step(Drain* drain, bool all = false);

 private:
  struct Thread {
    uint64_t task_clock_ns = 0;
    std::string system_call;
    Wait place = {};  // where it is; times are not used
  };

  static void See(void* self, const BlockedLook& look);
  Wait PlaceOf(const BlockedLook& look);
  uint64_t PythonStateOf(const BlockedLook& look);
  bool StandsStill(const BlockedLook& look) const;
  uint32_t NodesOf(const OutsideFrames& frames);
  void NoteCode(uint64_t address);
  OutsideStacks stacks() const {
    const auto& python = python_->stacks();
    return {nodes_.data(), static_cast<uint32_t>(nodes_.size()), python.data(), static_cast<uint32_t>(python.size())};
  }

  uint32_t pid_ = 0;  // 0: nothing is read
  const SessionHeader& session_;
  int64_t next_ns_ = 0;
  std::optional<ProcessMemory> memory_;
  std::optional<OutsideCode> code_;
  std::optional<OutsidePython> python_;
  std::map<uint32_t, Thread> threads_;           // by the kernel's number
  std::map<uint32_t, std::vector<Wait>> waits_;  // by the trace's number, not handed over yet
  std::vector<StackNode> nodes_;
  std::map<std::tuple<uint64_t, uint32_t, StackCut, bool>, uint32_t> node_numbers_;
  std::vector<OutsideCode::Object> new_code_;  // files that the trace may not have yet
};

}  // namespace dlhook::analyzer::io
