#include "analyzer/io/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "preload/format/folders.h"

namespace dlhook::analyzer::inline io {
namespace {

constexpr size_t kWindowBytes = 256 << 10;  // in memory at a time: stays in the cache while it is parsed

absl::Status FileError(absl::string_view path, absl::string_view what, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat(path, ": ", what));
}

// For anything that is not a regular file.
absl::string_view KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

absl::Status CheckRegular(const std::string& path, mode_t mode) {
  if (S_ISREG(mode)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": is ", KindOf(mode), "; expected a regular file"));
}

// The first three lines of a small file; empty where there are none.
std::array<std::string, 3> FirstLines(const std::string& path) {
  constexpr uint64_t kMostBytes = 4096;
  const absl::StatusOr<ByteSource> file = ByteSource::Open(path);
  if (!file.ok()) return {};
  std::string text(std::min(file->size(), kMostBytes), '\0');
  if (!file->Read(0, absl::MakeSpan(text)).ok()) return {};
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  std::array<std::string, 3> first;
  for (size_t i = 0; i < std::min(first.size(), lines.size()); ++i) first[i] = lines[i];
  return first;
}

// Sorts them, each once, and finds what they have in common.
void FinishPaths(RunFiles* run) {
  std::vector<std::string>& paths = run->paths;
  absl::c_sort(paths);
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  const std::string &first = paths.front(), &last = paths.back();
  const auto differ = std::mismatch(first.begin(), first.end(), last.begin(), last.end()).first;
  const std::string common(first.begin(), differ);
  run->common_folder = common.substr(0, common.rfind('/') + 1);
}

// Of a job's hosts, for example, each of which wrote a folder.
std::vector<std::string> TracesInFolders(const std::vector<std::string>& folders, bool (*is_trace)(absl::string_view)) {
  std::vector<std::string> traces;
  std::error_code error;
  for (const std::string& folder : folders) {
    for (auto entry = std::filesystem::directory_iterator(folder, error);
         !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
      if (is_trace(entry->path().string())) traces.push_back(entry->path().string());
    }
  }
  return traces;
}

bool IsProcessTrace(absl::string_view path) { return absl::EndsWith(path, kTraceSuffix); }

// Of other tools, as they name them.
bool HasOthersName(absl::string_view path) { return HasJsonName(path) || absl::EndsWith(path, ".sqlite"); }

absl::StatusOr<RunFiles> FindInFolder(const std::string& path, RunFiles run) {
  std::error_code error;
  size_t entries = 0;
  std::vector<std::string> others;
  for (auto entry = std::filesystem::directory_iterator(path, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    ++entries;
    const std::string file = entry->path().string();
    (IsProcessTrace(file) ? run.paths : others).push_back(file);
  }
  if (error) return FileError(path, "cannot list the folder", error.value());
  if (run.paths.empty()) run.paths = TracesInFolders(others, IsProcessTrace);
  if (run.paths.empty()) absl::c_copy_if(others, std::back_inserter(run.paths), HasOthersName);
  if (run.paths.empty()) run.paths = TracesInFolders(others, HasOthersName);
  // The program that failed or left an empty run here.
  const auto [key, silent, failure] = FirstLines(absl::StrCat(path, "/", kRunFileName));
  run.failure = failure;
  if (!failure.empty() && run.paths.empty()) {
    return absl::NotFoundError(absl::StrCat(path, ": its program, ", silent, ", ", failure,
                                            " before any recorded call, so nothing was recorded"));
  }
  if (!silent.empty() && run.paths.empty()) {
    return absl::NotFoundError(absl::StrCat(
        path, ": its program made no call that dlhook sees, so nothing was recorded; why: dlhook doctor -- ", silent,
        " ...; whose code computes: dlhook run --sample -- ", silent, " ..."));
  }
  if (entries == 0) {
    return absl::NotFoundError(
        absl::StrCat(path, ": the folder is empty; expected process traces (*", kTraceSuffix, ")"));
  }
  if (run.paths.empty()) {
    return absl::NotFoundError(
        absl::StrCat(path, ": no process traces (*", kTraceSuffix, ") among the ", entries, " entries of this folder"));
  }
  FinishPaths(&run);
  return run;
}

absl::StatusOr<RunFiles> FindRunAt(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    if (errno != ENOENT) return FileError(path, "cannot open", errno);
    return absl::NotFoundError(absl::StrCat(path, ": no such file or folder; expected a run (a folder with *",
                                            kTraceSuffix, " files) or one process trace"));
  }
  RunFiles run;
  run.name = BaseName(path);
  if (S_ISDIR(info.st_mode)) return FindInFolder(path, std::move(run));
  run.paths.push_back(path);
  return run;
}

// Anyone may create folders in the temporary folder.
bool IsOurFolder(const std::string& path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid();
}

// Where the shim put a run if its folder was not writable.
std::string FallbackOf(const std::string& path) {
  std::string wanted = std::filesystem::absolute(path).lexically_normal().string();
  while (wanted.size() > 1 && wanted.back() == '/') wanted.pop_back();
  char folder[128];
  FallbackFolder(wanted.c_str(), folder, sizeof folder);
  return folder;
}

}  // namespace

bool HasJsonName(absl::string_view path) {
  return absl::EndsWith(path, ".json") || absl::EndsWith(path, ".json.gz") || absl::EndsWith(path, ".json.zst");
}

absl::StatusOr<ByteSource> ByteSource::Open(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return FileError(path, "cannot open", errno);
  // Checked before opening, which may have effects on a device, and again below, because the file may have been
  // replaced.
  if (absl::Status status = CheckRegular(path, info.st_mode); !status.ok()) return status;
  ByteSource source;
  source.path_ = path;
  source.fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (source.fd_ < 0) return FileError(path, "cannot open", errno);
  if (fstat(source.fd_, &info) != 0) return FileError(path, "cannot stat", errno);
  if (absl::Status status = CheckRegular(path, info.st_mode); !status.ok()) return status;
  posix_fadvise(source.fd_, 0, 0, POSIX_FADV_SEQUENTIAL);
  source.size_ = static_cast<uint64_t>(info.st_size);
  source.owner_ = info.st_uid;
  return source;
}

ByteSource& ByteSource::operator=(ByteSource&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  std::swap(owner_, other.owner_);
  return *this;
}

ByteSource::~ByteSource() {
  if (fd_ >= 0) close(fd_);
}

absl::Status ByteSource::Read(uint64_t offset, absl::Span<char> to) const {
  for (size_t done = 0; done < to.size();) {
    const ssize_t count = pread(fd_, to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
    if (count == 0) return Shortened();
    if (count < 0 && errno != EINTR) return FileError(path_, "cannot read", errno);
    if (count > 0) done += static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

absl::Status ByteSource::Shortened() const {
  struct stat info;
  if (fstat(fd_, &info) != 0) return FileError(path_, "cannot stat", errno);
  return absl::DataLossError(absl::StrCat(path_, ": the file was shortened while it was read: it had ", size_,
                                          " bytes, now it ends after ", info.st_size));
}

absl::StatusOr<absl::string_view> ByteChunk::At(uint64_t offset, size_t wanted) {
  if (file_ == nullptr) return memory_.substr(std::min<uint64_t>(offset, size_));
  const uint64_t left = size_ - std::min(offset, size_);
  const bool is_inside =
      offset >= window_offset_ && offset + std::min<uint64_t>(wanted, left) <= window_offset_ + window_bytes_;
  if (!is_inside) {
    const size_t bytes = std::min<uint64_t>(std::max(wanted, kWindowBytes), left);
    if (window_.size() < bytes) window_.resize(bytes);
    window_bytes_ = 0;
    if (absl::Status status = file_->Read(offset, absl::MakeSpan(window_.data(), bytes)); !status.ok()) return status;
    window_offset_ = offset;
    window_bytes_ = bytes;
  }
  return absl::string_view(window_.data(), window_bytes_).substr(offset - window_offset_);
}

std::string BaseName(absl::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos || path.size() == 1) return std::string(path);
  return std::string(path.substr(slash + 1));
}

std::string FolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::string RunFiles::NameOf(absl::string_view path) const {
  return common_folder.empty() ? BaseName(path) : std::string(path.substr(common_folder.size()));
}

absl::StatusOr<RunFiles> FindRun(const std::string& path) {
  absl::StatusOr<RunFiles> run = FindRunAt(path);
  if (!absl::IsNotFound(run.status())) return run;
  const std::string other = FallbackOf(path);
  if (!IsOurFolder(other)) return run;
  absl::StatusOr<RunFiles> fallback = FindRunAt(other);
  if (!fallback.ok()) return run;
  fallback->name = BaseName(path);
  return fallback;
}

absl::StatusOr<RunFiles> FindRun(const std::vector<std::string>& paths) {
  if (paths.size() == 1) return FindRun(paths.front());
  RunFiles run;
  for (const std::string& path : paths) {
    const absl::StatusOr<RunFiles> part = FindRun(path);
    if (!part.ok()) return part.status();
    if (run.failure.empty()) run.failure = part->failure;
    for (const std::string& trace : part->paths) {
      run.paths.push_back(std::filesystem::absolute(trace).lexically_normal().string());
    }
  }
  FinishPaths(&run);
  std::set<std::string> folders;
  for (const std::string& trace : run.paths) folders.insert(FolderOf(run.NameOf(trace)));
  run.name = absl::StrJoin(folders, ", ");
  return run;
}

// File plus leftover. The rings are drained first, because that may append to the file.
absl::StatusOr<TraceBytes> TraceBytes::Open(const std::string& path, const DrainLeftover& drain_leftover) {
  absl::StatusOr<Leftover> leftover = Leftover{};
  if (drain_leftover) leftover = drain_leftover(path);
  absl::StatusOr<ByteSource> file = ByteSource::Open(path);
  if (!file.ok()) return file.status();
  TraceBytes trace(*std::move(file));
  trace.leftover_status_ = leftover.status();
  if (leftover.ok()) trace.leftover_ = *std::move(leftover);
  return trace;
}

std::vector<ByteChunk> TraceBytes::chunks() const {
  const uint64_t bytes = leftover_.cut_file ? std::min(leftover_.file_bytes, file_.size()) : file_.size();
  std::vector<ByteChunk> chunks = {ByteChunk(&file_, bytes)};
  if (!leftover_.packets.empty()) chunks.emplace_back(leftover_.packets);
  return chunks;
}

}  // namespace dlhook::analyzer::io
