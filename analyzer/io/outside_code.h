// The code of a running process, as files that it has mapped: which file an address is in, and how to get from a frame there to
// its caller's. From outside; the process is not stopped.
#pragma once

#include <sys/types.h>

#include "analyzer/model/prelude.h"
#include "preload/drain/outside_stacks.h"
#include "preload/format/session.h"
#include "preload/python/python_layout.h"
#include "preload/unwind/unwind_rules.h"

namespace dlhook::analyzer::inline io {

// Reads the memory of another process, and what is mapped there.
class MemoryReader {
 public:
  virtual ~MemoryReader() = default;
  // The number of bytes, from `address` on, that could be read into `to`.
  virtual size_t Copy(uint64_t address, void* to, size_t bytes) const = 0;
  // True only if all could.
  bool Read(uint64_t address, void* to, size_t bytes) const { return Copy(address, to, bytes) == bytes; }
};

// A running or stopped process of this user.
class ProcessMemory : public MemoryReader {
 public:
  explicit ProcessMemory(pid_t pid) : pid_(pid) {}
  size_t Copy(uint64_t address, void* to, size_t bytes) const override;

 private:
  pid_t pid_;
};

// A line of /proc/PID/maps: "7f3a0000-7f3b0000 r-xp 00001000 08:01 1234   /usr/lib/libm.so.6".
struct MapsLine {
  uint64_t start = 0;
  uint64_t end = 0;
  uint64_t offset = 0;
  bool is_code = false;
  uint64_t inode = 0;
  std::string path;  // with " (deleted)" if it is
  std::string file;  // device, inode and path, which identify it
};
// False: not of a file.
bool ParseMapsLine(absl::string_view line, MapsLine* parsed);

// What an ELF file tells of its code: read, never mapped. Shared by the processes of a run.
class CodeFile {
 public:
  // Null: no ELF file of this machine's kind.
  static std::shared_ptr<const CodeFile> Open(const std::string& path);

  // The rule of a frame at `pc`; `start`: where the file's first page is in memory; `ip`: for expressions.
  UnwindRule RuleAt(uint64_t pc, uint64_t start, uint64_t ip) const;
  const std::vector<uint8_t>& build_id() const { return build_id_; }

 private:
  bool IsInside(const uint8_t* entry) const;

  std::vector<uint8_t> build_id_;
  uint64_t first_page_ = 0;     // as the file numbers addresses
  uint64_t table_address_ = 0;  // likewise: of .eh_frame_hdr
  std::vector<uint8_t> bytes_;  // .eh_frame_hdr and .eh_frame; empty: it has none that is understood
  size_t table_ = 0;            // where .eh_frame_hdr is in them
};

class OutsideCode {
 public:
  struct Object {
    uint64_t start = 0;
    uint64_t end = 0;
    std::string path;
    uint64_t inode = 0;
    std::shared_ptr<const CodeFile> file;  // null: can't be read
    bool is_told = false;                  // for the user of this class
  };

  explicit OutsideCode(pid_t pid) : pid_(pid) {}

  // The file that is mapped at this address; null: none. Valid until the next call. Mappings are read again if none is known
  // there, and every ten seconds.
  Object* Find(uint64_t address);

 private:
  Object* FindKnown(uint64_t address);
  void ReadMappings();

  pid_t pid_;
  int64_t read_ns_ = 0;                 // when; 0: never
  std::map<uint64_t, Object> objects_;  // by start
};

// The Python frames of a thread of another process, read from outside. The caller sees to it that the thread stands still
// meanwhile: its frames are changed by it alone.
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
  bool ReadFrames(uint64_t thread_state, std::vector<OutsidePythonFrame>* frames, bool* is_cut);
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
  std::map<std::pair<std::vector<OutsidePythonFrame>, bool>, uint32_t> numbers_;  // its keys hold the stacks' frames
  std::vector<OutsidePythonStack> stacks_;
};

}  // namespace dlhook::analyzer::io
