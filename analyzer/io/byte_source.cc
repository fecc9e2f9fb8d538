// Files and folders of traces; no knowledge of what is in them.
#include "analyzer/io/byte_source.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "preload/core/fallback_folder.h"

namespace dlhook::analyzer {
namespace {

absl::Status FileError(absl::string_view path, absl::string_view what, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat(path, ": ", what, ": ", std::strerror(error)));
}

absl::StatusOr<std::string> ReadToEnd(int fd, absl::string_view path) {
  std::string bytes;
  char buffer[1 << 16];
  while (true) {
    const ssize_t count = read(fd, buffer, sizeof(buffer));
    if (count == 0) return bytes;
    if (count > 0) {
      bytes.append(buffer, count);
    } else if (errno != EINTR) {
      return FileError(path, "cannot read", errno);
    }
  }
}

absl::StatusOr<RunFiles> FindInFolder(const std::string& path, RunFiles run) {
  std::error_code error;
  size_t entries = 0;
  for (auto entry = std::filesystem::directory_iterator(path, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    ++entries;
    const std::string file = entry->path().string();
    if (absl::EndsWith(file, kTraceSuffix)) run.paths.push_back(file);
  }
  if (error) return FileError(path, "cannot list the folder", error.value());
  if (entries == 0) {
    return absl::NotFoundError(
        absl::StrCat(path, ": the folder is empty; expected process traces (*", kTraceSuffix, ")"));
  }
  if (run.paths.empty()) {
    return absl::NotFoundError(absl::StrCat(path, ": no process traces (*", kTraceSuffix,
                                            ") among the ", entries, " entries of this folder"));
  }
  std::sort(run.paths.begin(), run.paths.end());
  return run;
}

}  // namespace

absl::StatusOr<ByteSource> ByteSource::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FileError(path, "cannot open", errno);
  const auto close_file = absl::MakeCleanup([fd] { close(fd); });
  struct stat info;
  if (fstat(fd, &info) != 0) return FileError(path, "cannot stat", errno);
  ByteSource source;
  if (S_ISREG(info.st_mode) && info.st_size > 0) {
    void* mapping = mmap(nullptr, info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (mapping != MAP_FAILED) {
      madvise(mapping, info.st_size, MADV_SEQUENTIAL);
      source.mapping_ = mapping;
      source.mapped_bytes_ = info.st_size;
      return source;
    }
  }
  absl::StatusOr<std::string> bytes = ReadToEnd(fd, path);
  if (!bytes.ok()) return bytes.status();
  source.owned_ = *std::move(bytes);
  return source;
}

ByteSource& ByteSource::operator=(ByteSource&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(owned_, other.owned_);
  return *this;
}

ByteSource::~ByteSource() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_bytes_);
}

absl::string_view ByteSource::bytes() const {
  if (mapping_ != nullptr) return {static_cast<const char*>(mapping_), mapped_bytes_};
  return owned_;
}

std::string BaseName(absl::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos || path.size() == 1) return std::string(path);
  return std::string(path.substr(slash + 1));
}

namespace {

absl::StatusOr<RunFiles> FindRunAt(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    if (errno != ENOENT) return FileError(path, "cannot open", errno);
    return absl::NotFoundError(
        absl::StrCat(path, ": no such file or folder; expected a run (a folder with *",
                     kTraceSuffix, " files) or one process trace"));
  }
  RunFiles run;
  run.name = BaseName(path);
  if (S_ISDIR(info.st_mode)) return FindInFolder(path, std::move(run));
  run.paths.push_back(path);
  return run;
}

// Where the shim put a run whose folder it could not write.
std::string FallbackOf(const std::string& path) {
  std::string wanted = std::filesystem::absolute(path).lexically_normal().string();
  while (wanted.size() > 1 && wanted.back() == '/') wanted.pop_back();
  char folder[128];
  FallbackFolder(wanted.c_str(), folder, sizeof folder);
  return folder;
}

}  // namespace

absl::StatusOr<RunFiles> FindRun(const std::string& path) {
  absl::StatusOr<RunFiles> run = FindRunAt(path);
  if (!absl::IsNotFound(run.status())) return run;
  absl::StatusOr<RunFiles> fallback = FindRunAt(FallbackOf(path));
  if (!fallback.ok()) return run;
  fallback->name = BaseName(path);
  return fallback;
}

}  // namespace dlhook::analyzer
