// See local_folder.h. Names in the run's folder are used through its descriptor, wherever its path leads meanwhile.
#include "analyzer/cli/local_folder.h"

#include <filesystem>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "analyzer/io/byte_source.h"
#include "analyzer/io/ring_file.h"
#include "preload/format/folders.h"

namespace dlhook::analyzer::inline cli {
namespace {

constexpr char kPartSuffix[] = ".part";  // no reader takes it for a trace
constexpr size_t kPieceBytes = 1 << 20;
constexpr int kMostNames = 10000;

absl::Status Failed(const std::string& what) { return absl::ErrnoToStatus(errno, what); }

// The bytes from `offset` on, at most a piece; -1 with errno set.
ssize_t ReadPiece(int fd, off_t offset, std::vector<char>* piece) {
  piece->resize(kPieceBytes);
  size_t bytes = 0;
  while (bytes < kPieceBytes) {
    const ssize_t count = pread(fd, piece->data() + bytes, kPieceBytes - bytes, offset + static_cast<off_t>(bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -1;
    if (count == 0) break;
    bytes += static_cast<size_t>(count);
  }
  piece->resize(bytes);
  return static_cast<ssize_t>(bytes);
}

absl::Status Copy(int from, int to) {
  std::vector<char> piece;
  for (off_t offset = 0;; offset += static_cast<off_t>(piece.size())) {
    if (ReadPiece(from, offset, &piece) < 0) return Failed("it can't be read");
    if (piece.empty()) break;
    for (size_t done = 0; done < piece.size();) {
      const ssize_t count = pwrite(to, piece.data() + done, piece.size() - done, offset + static_cast<off_t>(done));
      if (count < 0 && errno != EINTR) return Failed("its copy can't be written");
      if (count > 0) done += static_cast<size_t>(count);
    }
  }
  return fsync(to) == 0 ? absl::OkStatus() : Failed("its copy can't be written");  // a full disk may show only now
}

absl::Status Compare(int from, int to) {
  std::vector<char> one, other;
  for (off_t offset = 0;; offset += static_cast<off_t>(one.size())) {
    if (ReadPiece(from, offset, &one) < 0 || ReadPiece(to, offset, &other) < 0) return Failed("its copy can't be read");
    if (one != other) return absl::DataLossError("its copy differs");
    if (one.empty()) return absl::OkStatus();
  }
}

// A name that no other trace has, and the file that will get it: whoever made NAME.part may take NAME.
absl::StatusOr<std::pair<std::string, int>> NewFile(const RunFolder& run, const std::string& trace) {
  const absl::string_view stem = absl::StripSuffix(trace, kTraceSuffix);
  for (int n = 1; n < kMostNames; ++n) {
    const std::string name = absl::StrCat(stem, n == 1 ? "" : absl::StrCat("-", n), kTraceSuffix);
    struct stat info;
    if (run.Stat(name, &info)) continue;
    const int fd =
        openat(run.fd(), absl::StrCat(name, kPartSuffix).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd < 0) return Failed("its copy can't be made");
    return std::pair(name, fd);
  }
  return absl::AlreadyExistsError("the run has too many traces of this name");
}

// Of the names of what the process compiled (preload/format/folders.h).
std::string JitFolderOf(const std::string& trace) {
  return absl::StrCat(absl::StripSuffix(trace, kTraceSuffix), kJitFolderSuffix);
}

// If it exists.
std::error_code MoveFolder(const std::string& from, const std::string& to) {
  std::error_code error;
  if (!std::filesystem::is_directory(from, error)) return {};
  std::filesystem::copy(from, to, std::filesystem::copy_options::recursive, error);
  if (!error) std::filesystem::remove_all(from, error);
  return error;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalFolder>> LocalFolder::Make(const std::string& parent,
                                                               std::shared_ptr<const RunFolder> run) {
  std::string path = absl::StrCat(std::filesystem::absolute(parent).lexically_normal().string(), "/dlhook-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) return Failed(absl::StrCat("--local ", parent, ": can't make a folder there"));
  absl::StatusOr<std::shared_ptr<const RunFolder>> here = RunFolder::Open(path);
  if (!here.ok()) return here.status();
  const std::string pointer = absl::StrCat(HostName(), "-", getpid(), kElsewhereSuffix);
  const int fd = openat(run->fd(), pointer.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  const std::string text = absl::StrCat(HostName(), "\n", path, "\n");
  const bool is_written = fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const absl::Status status = is_written ? absl::OkStatus() : Failed(absl::StrCat(run->Path(), "/", pointer));
  if (fd >= 0) close(fd);
  if (is_written) return std::unique_ptr<LocalFolder>(new LocalFolder(path, pointer, *std::move(here), std::move(run)));
  rmdir(path.c_str());
  return status;
}

absl::Status LocalFolder::Move(const std::string& name) {
  const int from = openat(here_->fd(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (from < 0) return Failed("it can't be read");
  const absl::Cleanup close_from = [from] { close(from); };
  const absl::StatusOr<std::pair<std::string, int>> file = NewFile(*run_, name);
  if (!file.ok()) return file.status();
  const auto& [new_name, to] = *file;
  const std::string part = absl::StrCat(new_name, kPartSuffix);
  absl::Status status = Copy(from, to);
  if (status.ok()) status = Compare(from, to);
  close(to);
  if (status.ok() && renameat(run_->fd(), part.c_str(), run_->fd(), new_name.c_str()) != 0) {
    status = Failed("its copy can't be renamed");
  }
  if (!status.ok()) {
    unlinkat(run_->fd(), part.c_str(), 0);
    return status;
  }
  moved_.insert(new_name);
  unlinkat(here_->fd(), name.c_str(), 0);
  const std::string jit = JitFolderOf(here_->PathOf(name));
  if (std::error_code error = MoveFolder(jit, JitFolderOf(run_->PathOf(new_name)))) {
    problems_.push_back(absl::StrCat("names of compiled code stay in ", jit, ": ", error.message()));
  }
  return absl::OkStatus();
}

void LocalFolder::MoveTraces() {
  for (const std::string& name : here_->Names(std::string(kTraceSuffix))) {
    const absl::StatusOr<Leftover> leftover = DrainLeftoverRings(here_->PathOf(name));
    struct stat info;
    const std::string link = absl::StrCat(absl::StripSuffix(name, kTraceSuffix), kRingSuffix);
    if (here_->Stat(link, &info)) continue;  // its process goes on, or what it left can't be taken
    if (absl::Status status = Move(name); !status.ok()) {
      problems_.push_back(absl::StrCat(name, " was not moved: ", status.message()));
    }
  }
  if (rmdir(path_.c_str()) == 0) {
    unlinkat(run_->fd(), pointer_.c_str(), 0);
  } else {
    problems_.push_back(absl::StrCat("what was not moved lies in ", path_, " on this machine"));
  }
}

}  // namespace dlhook::analyzer::cli
