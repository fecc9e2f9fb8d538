// Tries candidates in order; the first match of each kind is read.
#include "analyzer/symbols/jit_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "analyzer/io/byte_source.h"
#include "preload/format/jit_folder.h"

namespace dlhook::analyzer::inline symbols {
namespace {

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
