// Cache, then symbols, then DWARF.
#include "analyzer/symbols/resolve_object.h"

#include <fcntl.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>

#include "absl/strings/escaping.h"
#include "analyzer/io/run_folder.h"
#include "analyzer/names/fold_names.h"
#include "analyzer/symbols/elf_object.h"
#include "analyzer/symbols/inlined_frames.h"

namespace dlhook::analyzer::inline symbols {
namespace {

namespace fs = std::filesystem;

// Change the number whenever the same files give other names.
constexpr absl::string_view kFormat = "dlhook symbols 2\n";
constexpr absl::string_view kSuffix = ".symbols";
constexpr size_t kChecksumBytes = 8;
constexpr uint64_t kMaxCacheFileBytes = 64 << 20;
constexpr uint64_t kMaxFolderBytes = 256 << 20;

std::string WithChecksum(absl::string_view body) {
  const uint64_t checksum = ChecksumOf(body);
  return absl::StrCat(kFormat, absl::string_view(reinterpret_cast<const char*>(&checksum), kChecksumBytes), body);
}

// The functions that contain addresses of an object, from its symbols alone.

struct SymbolMatch {
  const char* name = nullptr;  // mangled, owned by the module; null: none
  uint64_t start = 0;
};

struct Candidate {
  const char* name;
  uint64_t start;
  uint64_t size;
  unsigned char type;
  unsigned char binding;
};

bool IsCode(const GElf_Sym& symbol, GElf_Word section) {
  const unsigned char type = GELF_ST_TYPE(symbol.st_info);
  if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) return false;
  return section != SHN_UNDEF && section != SHN_ABS && section != static_cast<GElf_Word>(-1);
}

int RankOfBinding(unsigned char binding) {
  return binding == STB_GLOBAL || binding == STB_GNU_UNIQUE ? 0 : binding == STB_WEAK ? 1 : 2;
}

// Of several names of one address the best known: "malloc" of malloc, __malloc and __libc_malloc.
bool IsBetter(const Candidate& candidate, const Candidate& best) {
  if (best.name == nullptr) return true;
  if (candidate.start != best.start) return candidate.start > best.start;  // the inner one
  const auto rank = [](const Candidate& one) {
    return std::make_tuple(one.type == STT_NOTYPE, RankOfBinding(one.binding), strspn(one.name, "_"), strlen(one.name));
  };
  const auto left = rank(candidate);
  const auto right = rank(best);
  return left != right ? left < right : strcmp(candidate.name, best.name) < 0;
}

class Matcher {
 public:
  explicit Matcher(absl::Span<const uint64_t> addresses)
      : addresses_(addresses), sized_(addresses.size()), bare_(addresses.size()), nearest_(addresses.size()) {}

  // No symbol without a size extends beyond `address`.
  size_t Fence(uint64_t address) {
    const auto first = absl::c_lower_bound(addresses_, address);
    const size_t begin = static_cast<size_t>(first - addresses_.begin());
    if (begin < nearest_.size()) nearest_[begin] = std::max(nearest_[begin], address + 1);
    return begin;
  }

  void Offer(const Candidate& candidate) {
    const size_t begin = Fence(candidate.start);
    if (begin == addresses_.size()) return;
    if (candidate.size == 0) {
      if (IsBetter(candidate, bare_[begin])) bare_[begin] = candidate;
      return;
    }
    for (size_t i = begin; i < addresses_.size() && addresses_[i] - candidate.start < candidate.size; ++i) {
      if (IsBetter(candidate, sized_[i])) sized_[i] = candidate;
    }
  }

  std::vector<SymbolMatch> Finish() {
    std::vector<SymbolMatch> matches(addresses_.size());
    uint64_t nearest = 0;  // start of the last symbol that begins before the address, plus 1
    Candidate bare = {};
    for (size_t i = 0; i < addresses_.size(); ++i) {
      nearest = std::max(nearest, nearest_[i]);
      if (bare_[i].name != nullptr && IsBetter(bare_[i], bare)) bare = bare_[i];
      const bool is_in_bare = bare.name != nullptr && bare.start + 1 == nearest;
      const Candidate& best = sized_[i].name != nullptr || !is_in_bare ? sized_[i] : bare;
      matches[i] = {best.name, best.start};
    }
    return matches;
  }

 private:
  const absl::Span<const uint64_t> addresses_;
  std::vector<Candidate> sized_;
  std::vector<Candidate> bare_;  // symbols without size that begin between this address and the previous one
  std::vector<uint64_t> nearest_;
};

void FenceSections(Dwfl_Module* module, Matcher* matcher) {
  GElf_Addr bias = 0;
  Elf* const elf = dwfl_module_getelf(module, &bias);
  for (Elf_Scn* section = elf_nextscn(elf, nullptr); section != nullptr; section = elf_nextscn(elf, section)) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) != nullptr && (header.sh_flags & SHF_EXECINSTR) != 0)
      matcher->Fence(header.sh_addr + bias);
  }
}

// Markers left by assemblers ("$x", ".L12") are not names.
bool IsMarker(const char* name) { return name[0] == '\0' || name[0] == '$' || strncmp(name, ".L", 2) == 0; }

// One match per element of `addresses` (ascending), in one pass over all symbols of the module: .symtab of the file or
// of its debug file, else .dynsym and .gnu_debugdata. libdwfl's own look-up goes through all of them for each address:
// 20 ms in libtorch_cpu.so, whose 500 000 symbols this reads once. A symbol with a size contains no address beyond its
// end; one without (assembly) ends where the next symbol begins.
std::vector<SymbolMatch> MatchSymbols(Dwfl_Module* module, absl::Span<const uint64_t> addresses) {
  Matcher matcher(addresses);
  FenceSections(module, &matcher);
  const int symbols = dwfl_module_getsymtab(module);
  for (int i = 1; i < symbols; ++i) {
    GElf_Sym symbol;
    GElf_Addr address = 0;
    GElf_Word section = 0;
    const char* const name = dwfl_module_getsym_info(module, i, &symbol, &address, &section, nullptr, nullptr);
    if (name == nullptr || !IsCode(symbol, section) || IsMarker(name)) continue;
    matcher.Offer({name, address, symbol.st_size, static_cast<unsigned char>(GELF_ST_TYPE(symbol.st_info)),
                   static_cast<unsigned char>(GELF_ST_BIND(symbol.st_info))});
  }
  return matcher.Finish();
}

// For a function with code of its own, a symbol gives a better name than DWARF, which lacks aliases and assembly code.
void NameOutermost(const SymbolMatch& match, uint64_t address, SymbolFrames* frames) {
  if (match.name == nullptr) {
    if (frames->frame_size() == 1 && frames->frame(0).function().empty()) frames->Clear();  // a line without a function
    return;
  }
  if (frames->frame_size() == 0) frames->add_frame();
  SymbolFrame& outermost = *frames->mutable_frame(frames->frame_size() - 1);
  outermost.set_function(DemangleSymbol(match.name));
  outermost.set_offset(address - match.start);
}

std::vector<SymbolFrames> Resolve(ElfObject* object, const std::vector<uint64_t>& addresses, bool use_debug_info) {
  std::vector<SymbolFrames> frames(addresses.size());
  Dwfl_Module* const module = object->Module();
  if (module == nullptr) return frames;
  const std::vector<SymbolMatch> matches = MatchSymbols(module, addresses);
  InlinedFrames inlined(use_debug_info ? module : nullptr);
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (inlined.has_dwarf()) frames[i] = inlined.At(addresses[i]);
    NameOutermost(matches[i], addresses[i], &frames[i]);
  }
  return frames;
}

// Files without build-id (TensorFlow's) are identified by path; size and time in the key detect changes.
std::string CacheName(const ElfObject& object, const std::string& path) {
  if (!object.build_id().empty()) return absl::BytesToHexString(object.build_id());
  return absl::StrCat("path-", absl::Hex(ChecksumOf(path), absl::kZeroPad16));
}

// What the results depend on besides the build-id.
std::string CacheKey(const ElfObject& object, const SymbolOptions& options) {
  std::string key = absl::StrCat(object.Fingerprint(), options.use_debug_info ? " lines" : " names");
  // A debuginfod server may have tomorrow what it lacks today.
  constexpr int64_t kSecondsOfDay = 24 * 60 * 60;
  const char* const servers = getenv("DEBUGINFOD_URLS");
  if (servers != nullptr && *servers != '\0') absl::StrAppend(&key, " ", servers, " ", time(nullptr) / kSecondsOfDay);
  return key;
}

}  // namespace

// File format: a line that names the format, a checksum, a symbol::Cache.

// FNV-1a, because files are damaged by full disks and killed processes, not by attackers.
uint64_t ChecksumOf(absl::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : bytes) hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
  return hash;
}

SymbolCache::SymbolCache(const std::string& folder, const std::string& name, const std::string& key)
    : folder_(name.empty() ? "" : folder), name_(absl::StrCat(name, kSuffix)) {
  if (!folder_.empty()) Read(key);
  contents_.set_key(key);
}

void SymbolCache::Read(const std::string& key) {
  const std::string path = absl::StrCat(folder_, "/", name_);
  const absl::StatusOr<std::string> file = ReadWholeFile(path, kMaxCacheFileBytes, FileIs::kFound);
  if (!file.ok()) return;
  absl::string_view body = *file;
  if (!absl::ConsumePrefix(&body, kFormat) || body.size() < kChecksumBytes) return;
  body.remove_prefix(kChecksumBytes);
  const bool is_whole = *file == WithChecksum(body) && contents_.ParseFromString(std::string(body));
  if (!is_whole || contents_.key() != key) return contents_.Clear();
  utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // mark as used
}

const SymbolFrames* SymbolCache::Find(uint64_t address) const {
  const auto place = contents_.frames().find(address);
  return place == contents_.frames().end() ? nullptr : &place->second;
}

void SymbolCache::Add(uint64_t address, const SymbolFrames& frames) {
  if (!folder_.empty()) (*contents_.mutable_frames())[address] = frames;
}

void SymbolCache::Write() {
  if (folder_.empty() || contents_.ByteSizeLong() > kMaxCacheFileBytes) return;
  std::error_code ignored;
  fs::create_directories(folder_, ignored);
  ReplaceFile(absl::StrCat(folder_, "/", name_), WithChecksum(contents_.SerializeAsString())).IgnoreError();
  TrimCache(folder_, kMaxFolderBytes);
}

void TrimCache(const std::string& folder, uint64_t max_bytes) {
  struct Entry {
    fs::file_time_type used;
    uint64_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    if (!absl::StrContains(at->path().filename().string(), kSuffix))
      continue;  // someone else's; drafts of killed processes are ours
    Entry entry = {at->last_write_time(gone), 0, at->path()};
    if (!gone) entry.bytes = at->file_size(gone);
    if (gone) continue;
    bytes += entry.bytes;
    entries.push_back(std::move(entry));
  }
  absl::c_sort(entries, [](const Entry& left, const Entry& right) { return left.used < right.used; });
  for (size_t i = 0; i < entries.size() && bytes > max_bytes; ++i) {
    if (fs::remove(entries[i].path, error)) bytes -= entries[i].bytes;
  }
}

ObjectAnswer ResolveObject(const ObjectRequest& request, const SymbolOptions& options) {
  ObjectAnswer answer;
  ElfObject object(request.path, request.build_id);
  answer.set_refusal(object.refusal());
  answer.set_remark(object.remark());
  if (!answer.refusal().empty()) return answer;
  answer.set_first_address(object.first_address());
  SymbolCache cache(options.cache_folder, CacheName(object, request.path), CacheKey(object, options));
  std::vector<SymbolFrames*> missing;
  std::vector<uint64_t> addresses;
  answer.mutable_frames()->Reserve(static_cast<int>(request.offsets.size()));
  for (const uint64_t offset : request.offsets) {
    const uint64_t address = offset + answer.first_address();
    SymbolFrames* const frames = answer.add_frames();
    if (const SymbolFrames* const known = cache.Find(address)) {
      *frames = *known;
    } else {
      missing.push_back(frames);
      addresses.push_back(address);
    }
  }
  if (missing.empty()) return answer;
  std::vector<SymbolFrames> found = Resolve(&object, addresses, options.use_debug_info);
  for (size_t i = 0; i < missing.size(); ++i) {
    cache.Add(addresses[i], found[i]);
    *missing[i] = std::move(found[i]);
  }
  cache.Write();
  return answer;
}

}  // namespace dlhook::analyzer::symbols
