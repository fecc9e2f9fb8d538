// The Python frames of a thread of another process, read from outside. The caller sees to it that the thread stands still
// meanwhile: its frames are changed by it alone.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/io/memory_reader.h"
#include "preload/drain/outside_stacks.h"
#include "preload/format/session.h"
#include "preload/python/python_layout.h"

namespace dlhook::analyzer::inline io {

class OutsidePython {
 public:
  // Both must outlive it. `view` is the process's own.
  OutsidePython(const MemoryReader& memory, const PythonView& view) : memory_(memory), view_(view) {}

  // The state of a thread, from a known one's by the interpreter's list of them. From CPython 3.11 on; 0: none.
  struct Known {
    uint64_t thread_state;
    uint32_t tid;
  };
  uint64_t StateOf(uint32_t tid, const Known& known);
  // Number of the stack that this thread state (an address) has now; 0: none, or it can't be read.
  uint32_t StackOf(uint64_t thread_state);
  const std::vector<OutsidePythonStack>& stacks() const { return stacks_; }

 private:
  struct Frame {
    const char* file;
    const char* function;
    uint32_t line;
    bool is_entry;
    auto operator<=>(const Frame&) const = default;
  };
  struct Code {
    std::vector<char> bytes;  // as last seen
    const char* file = nullptr;
    const char* function = nullptr;
    std::map<int64_t, uint32_t> lines;  // by byte of the instruction
  };
  struct Frames;

  template <typename T>
  std::optional<T> Word(uint64_t address) const {
    T value;
    return memory_.Read(address, &value, sizeof value) ? std::optional(value) : std::nullopt;
  }
  bool ReadLayout();
  bool ReadFrames(uint64_t thread_state, std::vector<Frame>* frames, bool* is_cut);
  Code* CodeAt(uint64_t address);
  const char* TextAt(uint64_t string);
  uint32_t LineOf(Code* code, int64_t offset);

  const MemoryReader& memory_;
  const PythonView& view_;
  uint64_t code_type_ = 0;
  size_t tid_offset_ = 0;  // in a thread state; 0: not known
  PythonLayout layout_ = {};
  std::map<uint64_t, Code> codes_;
  std::map<std::string, const char*> texts_;
  std::map<std::pair<std::vector<Frame>, bool>, uint32_t> numbers_;
  std::deque<std::vector<OutsidePythonFrame>> frames_;  // of the stacks
  std::vector<OutsidePythonStack> stacks_;
};

}  // namespace dlhook::analyzer::io
