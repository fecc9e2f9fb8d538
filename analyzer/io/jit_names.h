// Names of code that a process has LLVM compile while it runs (numba, JAX): LLVM describes it to debuggers by a list of
// object files in the process's memory (GDB's "JIT Compilation Interface"), whether a debugger is there or not. Read from
// outside, at looks, by the launcher; added to a perf map in the folder of compiled code (preload/format/folders.h).
#pragma once

#include "analyzer/io/run_folder.h"
#include "preload/format/session.h"

namespace dlhook::analyzer::inline io {

// Where the ELF file has the list's head, as an offset from its first page; unset: it has none. Its symbols may be local,
// as in wheels: .symtab is read, too.
std::optional<uint64_t> OffsetOfJitDescriptor(const std::string& path);

// The functions of an object file whose sections' addresses are those in memory: lines of a perf map.
std::string PerfMapOfObject(absl::string_view object);

class JitNames {
 public:
  // Nothing is read of a process that is not sampled, or in another pid namespace. The trace's name is not taken from the
  // session, where the program may write.
  JitNames(const SessionHeader& session, std::string trace_name);

  // Looks if it is time to. `folder`: of the process's trace.
  void Step(const RunFolder& folder);

 private:
  struct Object {  // as in the process's memory
    uint64_t next;
    uint64_t previous;
    uint64_t address;
    uint64_t bytes;
  };

  bool FindDescriptors();  // false: no file is new
  std::string NewFunctions(uint64_t descriptor);
  void Append(const RunFolder& folder, absl::string_view lines);

  uint32_t pid_ = 0;  // 0: nothing is read
  std::string trace_name_;
  int64_t first_ns_ = 0;
  int64_t next_ns_ = 0;
  int64_t next_files_ns_ = 0;
  int64_t files_wait_ns_ = 0;
  std::set<std::string> files_;                              // those that were looked into
  std::vector<uint64_t> descriptors_;                        // addresses
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> known_;  // address and bytes of an object by where the list has it
  uint64_t written_ = 0;
};

}  // namespace dlhook::analyzer::io
