// Cache, then symbols, then DWARF.
#include "analyzer/symbols/resolve_object.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "analyzer/names/fold_names.h"
#include "analyzer/symbols/elf_object.h"
#include "analyzer/symbols/inlined_frames.h"
#include "analyzer/symbols/symbol_cache.h"
#include "analyzer/symbols/symbol_table.h"

namespace dlhook::analyzer::inline symbols {
namespace {

// For a function with code of its own, a symbol gives a better name than DWARF, which lacks aliases and assembly code.
void NameOutermost(const SymbolMatch& match, uint64_t address, Elf* elf, SymbolFrames* frames) {
  std::string function;
  uint64_t start = match.start;
  if (match.name != nullptr) {
    function = DemangleSymbol(match.name);
  } else {
    PltStub stub = PltStubAt(elf, address);
    function = std::move(stub.name);
    start = stub.start;
  }
  if (function.empty()) {
    if (frames->size() == 1 && frames->front().function.empty()) frames->clear();  // a line without a function
    return;
  }
  if (frames->empty()) frames->emplace_back();
  frames->back().function = std::move(function);
  frames->back().offset = address - start;
}

std::vector<SymbolFrames> Resolve(ElfObject* object, const std::vector<uint64_t>& addresses, bool use_debug_info) {
  std::vector<SymbolFrames> frames(addresses.size());
  Dwfl_Module* const module = object->Module();
  if (module == nullptr) return frames;
  const std::vector<SymbolMatch> matches = MatchSymbols(module, addresses);
  InlinedFrames inlined(use_debug_info ? module : nullptr);
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (inlined.has_dwarf()) frames[i] = inlined.At(addresses[i]);
    NameOutermost(matches[i], addresses[i], object->elf(), &frames[i]);
  }
  return frames;
}

// Files without build-id (TensorFlow's) are identified by path; size and time in the key detect changes.
std::string CacheName(const ElfObject& object, const std::string& path) {
  if (!object.build_id().empty()) return absl::BytesToHexString(object.build_id());
  return absl::StrCat("path-", absl::Hex(ChecksumOf(path), absl::kZeroPad16));
}

// What the results depend on besides the build-id.
std::string CacheKey(const ElfObject& object, const ResolveOptions& options) {
  std::string key = absl::StrCat(object.Fingerprint(), options.use_debug_info ? " lines" : " names");
  // A debuginfod server may have tomorrow what it lacks today.
  constexpr int64_t kSecondsOfDay = 24 * 60 * 60;
  const char* const servers = getenv("DEBUGINFOD_URLS");
  if (servers != nullptr && *servers != '\0') absl::StrAppend(&key, " ", servers, " ", time(nullptr) / kSecondsOfDay);
  return key;
}

}  // namespace

ObjectAnswer ResolveObject(const ObjectRequest& request, const ResolveOptions& options) {
  ObjectAnswer answer;
  ElfObject object(request.path, request.build_id);
  answer.refusal = object.refusal();
  answer.remark = object.remark();
  if (!answer.refusal.empty()) return answer;
  answer.first_address = object.first_address();
  answer.frames.resize(request.offsets.size());
  SymbolCache cache(options.cache_folder, CacheName(object, request.path), CacheKey(object, options));
  std::vector<size_t> missing;
  std::vector<uint64_t> addresses;
  for (size_t i = 0; i < request.offsets.size(); ++i) {
    const uint64_t address = request.offsets[i] + answer.first_address;
    if (const SymbolFrames* const known = cache.Find(address)) {
      answer.frames[i] = *known;
    } else {
      missing.push_back(i);
      addresses.push_back(address);
    }
  }
  if (missing.empty()) return answer;
  std::vector<SymbolFrames> found = Resolve(&object, addresses, options.use_debug_info);
  for (size_t i = 0; i < missing.size(); ++i) {
    cache.Add(addresses[i], found[i]);
    answer.frames[missing[i]] = std::move(found[i]);
  }
  cache.Write();
  return answer;
}

}  // namespace dlhook::analyzer::symbols
