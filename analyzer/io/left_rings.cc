#include "analyzer/io/left_rings.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "absl/functional/function_ref.h"
#include "analyzer/io/ring_file.h"

namespace dlhook::analyzer::inline io {
namespace {

// A process makes its rings in milliseconds.
constexpr int64_t kUnfinishedSeconds = 60;

struct Found {
  std::string name;
  struct stat info;
  absl::StatusOr<std::unique_ptr<RingFile>> ring;
};

// By the number in its name: of a ring whose header tells nothing.
bool IsGone(const std::string& name) {
  unsigned user = 0;
  int pid = 0;
  if (sscanf(name.c_str(), "dlhook-%u-%d-", &user, &pid) != 2 || pid <= 0) return false;
  return kill(pid, 0) != 0 && errno == ESRCH;
}

// This user's rings, except those of processes that live.
void ForEachLeftRing(absl::FunctionRef<void(const Found&)> take) {
  const std::string prefix = absl::StrCat("dlhook-", getuid(), "-");
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(kSharedMemory, error)) {
    Found found = {entry.path().filename().string(), {}, absl::UnknownError("")};
    if (!absl::StartsWith(found.name, prefix) || !absl::EndsWith(found.name, kRingSuffix)) continue;
    if (lstat(entry.path().c_str(), &found.info) != 0 || !IsOurOwnFile(found.info)) continue;
    found.ring = RingFile::OpenShared(found.name);
    const bool is_left = found.ring.ok()
                             ? (*found.ring)->IsOurs() && !(*found.ring)->IsMappedByProcess() && (*found.ring)->Lock()
                             : IsGone(found.name);
    if (is_left) take(found);
  }
}

// Its process was killed before it had written the first word.
bool IsUnfinished(const Found& found) {
  if (time(nullptr) - found.info.st_mtime < kUnfinishedSeconds) return false;
  const int fd = open(absl::StrCat(kSharedMemory, "/", found.name).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  uint64_t magic = 1;
  const bool is_read = fd >= 0 && pread(fd, &magic, sizeof magic, 0) == sizeof magic;
  if (fd >= 0) close(fd);
  return is_read && magic == 0;
}

// The folder of the run; empty: it was deleted. It may have been renamed, but is still in the same place.
std::string RunOf(const SessionHeader& session) {
  const std::filesystem::path folder = std::filesystem::path(TextOf(session.trace_path)).parent_path();
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder.parent_path(), error)) {
    struct stat info;
    if (lstat(entry.path().c_str(), &info) != 0 || info.st_ino != session.folder_inode) continue;
    const auto run = RunFolder::Open(entry.path().string());
    if (run.ok() && (*run)->info().st_dev == session.folder_device && (*run)->Stat(TextOf(session.trace_name), &info) &&
        info.st_ino == session.trace_inode) {
      return entry.path().string();
    }
  }
  return "";
}

}  // namespace

LeftRings FindLeftRings() {
  LeftRings left;
  ForEachLeftRing([&](const Found& found) {
    const uint64_t bytes = static_cast<uint64_t>(found.info.st_blocks) * 512;
    if (found.ring.ok()) {
      const std::string run = RunOf((*found.ring)->header());
      if (!run.empty()) left.run_bytes[run] += bytes;
    } else if (absl::IsUnimplemented(found.ring.status())) {
      left.other_builds.emplace(found.ring.status().message());
      left.other_builds_bytes += bytes;
    }
  });
  return left;
}

void RemoveOrphanedRings() {
  ForEachLeftRing([](const Found& found) {
    if (found.ring.ok() && RunOf((*found.ring)->header()).empty()) (*found.ring)->Remove();
    if (!found.ring.ok() && IsUnfinished(found)) unlink(absl::StrCat(kSharedMemory, "/", found.name).c_str());
  });
}

}  // namespace dlhook::analyzer::io
