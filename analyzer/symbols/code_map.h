// Which file was mapped at an address of a process.
#pragma once

#include "analyzer/model/process_info.h"

namespace dlhook::analyzer::inline symbols {

class CodeMap {
 public:
  explicit CodeMap(const ProcessInfo& process);

  // The last recorded mapping that contains the address; null: none. If several files were mapped there one after
  // another (dlclose), frames have no time to choose by: `*is_doubtful` is set.
  const Mapping* Find(uint64_t address, bool* is_doubtful) const;

 private:
  // From `start` to that of the next piece.
  struct Piece {
    uint64_t start = 0;
    const Mapping* mapping = nullptr;
    bool is_doubtful = false;
  };
  std::vector<Piece> pieces_;  // ascending
};

}  // namespace dlhook::analyzer::symbols
