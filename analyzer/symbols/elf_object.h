// A file that a process had mapped: opened only if it is unchanged.
#pragma once

#include <elfutils/libdwfl.h>
#include <libelf.h>

#include "analyzer/model/prelude.h"

namespace dlhook::analyzer::inline symbols {

class ElfObject {
 public:
  // `build_id`: recorded in the run, at most its first 20 bytes; empty: none recorded. If the file differs or is
  // missing, a debug file with that build-id in the system's folder is used.
  ElfObject(const std::string& path, const std::string& build_id);
  ~ElfObject();
  ElfObject(const ElfObject&) = delete;
  ElfObject& operator=(const ElfObject&) = delete;

  // Why the file must not be used, as the end of a sentence; empty: it may be.
  const std::string& refusal() const { return refusal_; }
  const std::string& remark() const { return remark_; }
  // The following only if it was not refused.
  Elf* elf() const { return elf_; }
  const std::string& build_id() const { return build_id_; }  // of the file
  uint64_t first_address() const { return first_address_; }  // of its first page
  // Everything outside the run that names depend on: sizes and times of the file and of the places where debug files
  // may appear.
  std::string Fingerprint() const;
  // Opens symbols and debug files: slow, and a network request if the user has set DEBUGINFOD_URLS. Null: unreadable.
  Dwfl_Module* Module();

 private:
  // False: not an ELF object. Sets elf_, build_id_ and first_address_.
  bool Open(const std::string& path);
  void Close();
  void OpenVdso();
  bool OpenDebugFile(const std::string& build_id);
  void Identify();
  std::vector<std::string> DebugFiles() const;

  std::string path_;  // the open file
  int file_ = -1;
  Elf* elf_ = nullptr;
  std::string build_id_;
  uint64_t first_address_ = 0;
  std::string refusal_;
  std::string remark_;
  Dwfl* session_ = nullptr;
  Dwfl_Module* module_ = nullptr;
};

}  // namespace dlhook::analyzer::symbols
