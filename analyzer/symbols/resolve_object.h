// Names, lines and inlined functions of addresses in one object: from its file, its debug files, and the cache.
#pragma once

#include "analyzer/symbols/add_symbols.h"
#include "proto/symbols.pb.h"

namespace dlhook::analyzer::inline symbols {

using SymbolFrame = symbol::Frame;
using SymbolFrames = symbol::Frames;
using ObjectAnswer = symbol::Answer;

// Addresses in one mapped file.
struct ObjectRequest {
  std::string path;
  std::string build_id;           // at most 20 bytes; empty: not recorded
  std::vector<uint64_t> offsets;  // from the first page of the file's first segment; ascending, distinct
};

// Caches symbols of earlier reports, one file per build-id: reading libtorch_cpu.so's symbols takes half a second,
// reading this a millisecond. Never fails: unreadable entries are missing, unwritable ones are lost. Several processes
// may use a folder at once: files are replaced as a whole, and the last writer wins.
class SymbolCache {
 public:
  // Results stored under another `key` are dropped: debug information appeared, the file was stripped … `name`:
  // identifies the object, its build-id. Without folder or name nothing is cached.
  SymbolCache(const std::string& folder, const std::string& name, const std::string& key);

  const SymbolFrames* Find(uint64_t address) const;  // null: not known
  void Add(uint64_t address, const SymbolFrames& frames);
  void Write();

 private:
  void Read(const std::string& key);

  std::string folder_;  // empty: nothing is cached
  std::string name_;
  symbol::Cache contents_;
};

// Equal for equal bytes in every process.
uint64_t ChecksumOf(absl::string_view bytes);

// Removes the least recently used files until the folder has at most `max_bytes`.
void TrimCache(const std::string& folder, uint64_t max_bytes);

// Reads untrusted files with libraries that may crash on them: call it in a child process (isolated.h).
ObjectAnswer ResolveObject(const ObjectRequest& request, const SymbolOptions& options);

}  // namespace dlhook::analyzer::symbols
