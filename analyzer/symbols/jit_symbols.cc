// Parsers of both formats. They never read out of bounds, whatever the bytes are.
#include "analyzer/symbols/jit_symbols.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "absl/container/btree_map.h"
#include "analyzer/io/byte_source.h"
#include "preload/format/folders.h"

namespace dlhook::analyzer::inline symbols {
namespace {

constexpr size_t kMaxNameBytes = 4096;

bool ReadHex(absl::string_view word, uint64_t* number) {
  absl::ConsumePrefix(&word, "0x");
  return absl::SimpleHexAtoi(word, number);
}

std::optional<JitFunction> ReadPerfMapLine(absl::string_view line) {
  JitFunction function;
  const std::vector<absl::string_view> words = absl::StrSplit(line, absl::MaxSplits(' ', 2));
  if (words.size() < 3 || !ReadHex(words[0], &function.start) || !ReadHex(words[1], &function.size))
    return std::nullopt;
  if (words[2].empty() || function.size == 0 || function.start + function.size < function.start) return std::nullopt;
  function.name = std::string(words[2].substr(0, kMaxNameBytes));
  return function;
}

// Reads fixed-size values from the front of some bytes.
class Bytes {
 public:
  explicit Bytes(absl::string_view bytes) : rest_(bytes) {}
  template <typename T>
  T Take() {
    T value = {};
    if (rest_.size() < sizeof value) {
      ok_ = false;
      rest_ = {};
      return value;
    }
    memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  // Up to the next NUL.
  absl::string_view TakeText() {
    const size_t end = rest_.find('\0');
    if (end == absl::string_view::npos) {
      ok_ = false;
      rest_ = {};
      return "";
    }
    const absl::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool ok() const { return ok_; }

 private:
  absl::string_view rest_;
  bool ok_ = true;
};

enum JitRecordKind : uint32_t { kLoad = 0, kMove = 1, kDebugInfo = 2 };
constexpr uint32_t kJitDumpMagic = 0x4a695444;  // "JiTD" in the writer's byte order

// Records are in order of time: lines of a function before its code, moves after it.
class JitDumpReader {
 public:
  explicit JitDumpReader(JitSymbols* symbols) : symbols_(symbols) {}

  void Take(uint32_t kind, absl::string_view body) {
    Bytes bytes(body);
    if (kind == kLoad) TakeLoad(&bytes);
    if (kind == kMove) TakeMove(&bytes);
    if (kind == kDebugInfo) TakeDebugInfo(&bytes);
  }

 private:
  void TakeLoad(Bytes* bytes) {
    bytes->Take<uint64_t>();  // pid, tid
    bytes->Take<uint64_t>();  // vma: equals code_addr unless code is moved before it runs
    JitFunction function;
    function.start = bytes->Take<uint64_t>();
    function.size = bytes->Take<uint64_t>();
    const uint64_t index = bytes->Take<uint64_t>();
    function.name = std::string(bytes->TakeText().substr(0, kMaxNameBytes));
    if (!bytes->ok() || function.size == 0 || function.start + function.size < function.start) return;
    if (lines_of_ == function.start) function.lines = std::move(lines_);
    lines_.clear();
    by_index_[index] = function;
    symbols_->Add(std::move(function));
  }

  void TakeMove(Bytes* bytes) {
    bytes->Take<uint64_t>();  // pid, tid
    bytes->Take<uint64_t>();  // vma
    const uint64_t from = bytes->Take<uint64_t>();
    const uint64_t to = bytes->Take<uint64_t>();
    const uint64_t size = bytes->Take<uint64_t>();
    const auto place = by_index_.find(bytes->Take<uint64_t>());
    if (!bytes->ok() || place == by_index_.end() || to + size < to || size == 0) return;
    JitFunction& function = place->second;
    function.start = to;
    function.size = size;
    for (JitLine& line : function.lines) line.address += to - from;
    symbols_->Add(function);
  }

  void TakeDebugInfo(Bytes* bytes) {
    lines_.clear();
    lines_of_ = bytes->Take<uint64_t>();
    const uint64_t count = bytes->Take<uint64_t>();
    std::string file;
    for (uint64_t i = 0; i < count && bytes->ok(); ++i) {
      JitLine line;
      line.address = bytes->Take<uint64_t>();
      line.line = bytes->Take<uint32_t>();
      bytes->Take<uint32_t>();  // discriminator
      const absl::string_view name = bytes->TakeText();
      if (!bytes->ok()) return;
      if (name != "\xff") file = std::string(name.substr(0, kMaxNameBytes));  // "\xff": the same as before
      line.file = file;
      lines_.push_back(std::move(line));
    }
  }

  JitSymbols* symbols_;
  absl::btree_map<uint64_t, JitFunction> by_index_;
  uint64_t lines_of_ = 0;  // code address
  std::vector<JitLine> lines_;
};

namespace fs = std::filesystem;

constexpr int64_t kMaxJitFileBytes = int64_t{1} << 30;

enum class Trust { kFolderOfRun, kSharedFolder };

// Why the file does not belong to the process; empty: it does.
std::string ReasonAgainst(const struct stat& status, const JitOwner& owner, Trust trust) {
  constexpr int64_t kSlackSeconds = 2;  // file systems' clocks
  if (!S_ISREG(status.st_mode)) return "it is no file";
  if (status.st_size > kMaxJitFileBytes) return "it is larger than 1 GiB";
  if (trust == Trust::kFolderOfRun) return "";
  if (status.st_uid != getuid() && status.st_uid != 0) return "it belongs to another user";
  if (!owner.start_realtime_s) return "whether it is older than the process is not known";
  if (status.st_mtim.tv_sec + kSlackSeconds < *owner.start_realtime_s)
    return "it is older than the process: one of the same number wrote it";
  return "";
}

// The contents of the file if it exists and belongs to the process.
std::optional<std::string> ReadIfOwned(const std::string& path, const JitOwner& owner, Trust trust,
                                       std::vector<std::string>* notes) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return std::nullopt;
  std::optional<std::string> bytes;
  struct stat status;
  const std::string reason = fstat(file, &status) != 0 ? "it can't be read" : ReasonAgainst(status, owner, trust);
  if (reason.empty()) {
    bytes.emplace(static_cast<size_t>(status.st_size), '\0');
    size_t done = 0;
    ssize_t got = 0;
    while (done < bytes->size() && (got = read(file, bytes->data() + done, bytes->size() - done)) > 0)
      done += static_cast<size_t>(got);
    bytes->resize(done);
  } else {
    notes->push_back(absl::StrCat(path, " was not used: ", reason, "."));
  }
  close(file);
  return bytes;
}

struct Place {
  std::string folder;
  Trust trust;
};

// Writers of jitdumps make a folder of their own below `parent`.
void AddFoldersOfWriters(const std::string& parent, Trust trust, std::vector<Place>* places) {
  std::error_code error;
  for (fs::directory_iterator at(absl::StrCat(parent, "/.debug/jit"), error), end; !error && at != end;
       at.increment(error)) {
    places->push_back({at->path().string(), trust});
  }
}

std::string OwnFolder(const std::string& trace) {
  const fs::path path(trace);
  return absl::StrCat((path.parent_path() / path.stem()).string(), kJitFolderSuffix);
}

std::vector<Place> Places(const std::string& trace) {
  std::vector<Place> places = {{FolderOf(trace), Trust::kFolderOfRun}};
  AddFoldersOfWriters(OwnFolder(trace), Trust::kFolderOfRun, &places);
  places.push_back({"/tmp", Trust::kSharedFolder});
  std::error_code error;
  const std::string here = fs::current_path(error).string();
  if (!error && here != "/tmp") places.push_back({here, Trust::kSharedFolder});
  const char* const home = getenv("HOME");
  if (home != nullptr) AddFoldersOfWriters(home, Trust::kSharedFolder, &places);
  return places;
}

}  // namespace

void JitSymbols::Add(JitFunction function) {
  std::ranges::sort(function.lines, {}, &JitLine::address);
  functions_.push_back(std::move(function));
}

// From the last recorded function to the first: each keeps only what no later one covers.
void JitSymbols::Finish() {
  absl::btree_map<uint64_t, JitFunction> kept;
  for (auto function = functions_.rbegin(); function != functions_.rend(); ++function) {
    auto next = kept.lower_bound(function->start);
    const bool hits_next = next != kept.end() && next->first < function->start + function->size;
    bool hits_previous = false;
    if (next != kept.begin()) {
      const JitFunction& previous = std::prev(next)->second;
      hits_previous = previous.start + previous.size > function->start;
    }
    if (hits_next || hits_previous) {
      ++replaced_;
    } else {
      const uint64_t start = function->start;
      kept.emplace(start, std::move(*function));
    }
  }
  functions_.clear();
  for (auto& [start, function] : kept) functions_.push_back(std::move(function));
}

const JitFunction* JitSymbols::Find(uint64_t address) const {
  auto place = std::ranges::upper_bound(functions_, address, {}, &JitFunction::start);
  if (place == functions_.begin()) return nullptr;
  --place;
  return address - place->start < place->size ? &*place : nullptr;
}

size_t ReadPerfMap(absl::string_view text, JitSymbols* symbols) {
  size_t functions = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    std::optional<JitFunction> function = ReadPerfMapLine(line);
    if (!function) continue;
    symbols->Add(*std::move(function));
    ++functions;
  }
  return functions;
}

bool ReadJitDump(absl::string_view bytes, uint32_t pid, JitSymbols* symbols) {
  constexpr uint32_t kRecordHeaderBytes = 16;
  Bytes header(bytes);
  const uint32_t magic = header.Take<uint32_t>();
  header.Take<uint32_t>();  // version
  const uint32_t header_bytes = header.Take<uint32_t>();
  const uint32_t machine = header.Take<uint32_t>();
  header.Take<uint32_t>();
  const uint32_t writer = header.Take<uint32_t>();
  const bool is_ours = machine == EM_X86_64 || machine == EM_NONE;  // CPython 3.13 sets none
  if (!header.ok() || magic != kJitDumpMagic || !is_ours || writer != pid || header_bytes > bytes.size()) return false;
  bytes.remove_prefix(header_bytes);
  JitDumpReader reader(symbols);
  while (bytes.size() >= kRecordHeaderBytes) {
    Bytes record(bytes);
    const uint32_t kind = record.Take<uint32_t>();
    const uint32_t size = record.Take<uint32_t>();
    if (size < kRecordHeaderBytes || size > bytes.size()) break;
    reader.Take(kind, bytes.substr(kRecordHeaderBytes, size - kRecordHeaderBytes));
    bytes.remove_prefix(size);
  }
  return true;
}

JitSymbols ReadJitFiles(const std::string& trace, const JitOwner& owner, std::vector<std::string>* notes) {
  JitSymbols symbols;
  bool has_map = false;
  bool has_dump = false;
  const std::string of_launcher = absl::StrCat(OwnFolder(trace), "/perf-", owner.pid, ".map");  // beside other writers'
  if (const auto text = ReadIfOwned(of_launcher, owner, Trust::kFolderOfRun, notes)) ReadPerfMap(*text, &symbols);
  for (const Place& place : Places(trace)) {
    const std::string map = absl::StrCat(place.folder, "/perf-", owner.pid, ".map");
    const std::string dump = absl::StrCat(place.folder, "/jit-", owner.pid, ".dump");
    if (!has_map) {
      const auto text = ReadIfOwned(map, owner, place.trust, notes);
      has_map = text && ReadPerfMap(*text, &symbols) > 0;
    }
    if (!has_dump) {
      const auto bytes = ReadIfOwned(dump, owner, place.trust, notes);
      has_dump = bytes && ReadJitDump(*bytes, owner.pid, &symbols);
      if (bytes && !has_dump)
        notes->push_back(absl::StrCat(dump, " was not used: it is no jitdump of process ", owner.pid, "."));
    }
  }
  symbols.Finish();
  return symbols;
}

}  // namespace dlhook::analyzer::symbols
