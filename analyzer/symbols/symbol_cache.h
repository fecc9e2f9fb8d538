// Answers of earlier reports, one file for each build-id: reading libtorch_cpu.so's symbols takes half a second,
// reading this a millisecond.
#ifndef DLHOOK_ANALYZER_SYMBOLS_SYMBOL_CACHE_H_
#define DLHOOK_ANALYZER_SYMBOLS_SYMBOL_CACHE_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "analyzer/symbols/symbol_frame.h"

namespace dlhook::analyzer::inline symbols {

// Never fails: what can't be read is not there, what can't be written is lost. Several processes may use a folder at
// once: files are replaced whole, and the last writer stands.
class SymbolCache {
 public:
  // Answers under another `key` than this one are forgotten: debug information appeared, the file was stripped …
  // `name`: of the object, its build-id. Without folder or name it keeps nothing.
  SymbolCache(const std::string& folder, const std::string& name, const std::string& key);

  const SymbolFrames* Find(uint64_t address) const;  // null: not known
  void Add(uint64_t address, const SymbolFrames& frames);
  void Write();

 private:
  void Read();
  bool Parse(absl::string_view bytes);

  std::string folder_;
  std::string name_;
  std::string key_;
  absl::flat_hash_map<uint64_t, SymbolFrames> answers_;
};

// The same for the same bytes in every process.
uint64_t ChecksumOf(absl::string_view bytes);

// Removes the files that were used longest ago until the folder holds at most `max_bytes`.
void TrimCache(const std::string& folder, uint64_t max_bytes);

}  // namespace dlhook::analyzer::symbols

#endif  // DLHOOK_ANALYZER_SYMBOLS_SYMBOL_CACHE_H_
