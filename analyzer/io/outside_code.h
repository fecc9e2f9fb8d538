// The code of a running process, as files that it has mapped: which file an address is in, and how to get from a frame there to
// its caller's. From outside; the process is not stopped.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "preload/unwind/unwind_rules.h"

namespace dlhook::analyzer::inline io {

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

}  // namespace dlhook::analyzer::io
