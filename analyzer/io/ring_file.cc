// Rings from outside.
#include "analyzer/io/ring_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "preload/core/identity.h"

namespace dlhook::analyzer {
namespace {

std::string LinkOf(const std::string& trace_path) {
  return absl::StrCat(absl::StripSuffix(trace_path, ".dlh"), kRingSuffix);
}

bool IsOutOfDescriptors(int error) { return error == EMFILE || error == ENFILE; }

absl::Status OutOfDescriptors(const std::string& name) {
  return absl::ResourceExhaustedError(absl::StrCat(name, ": too many files are open to drain it (ulimit -n)"));
}

uint64_t SizeOfFile(int fd) {
  struct stat info;
  return fstat(fd, &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

// Drains a private copy of the rings; `is_over` adds losses and the footer.
absl::StatusOr<Leftover> DrainCopy(const PrivatePages& copy, const std::string& name, ProcessEnd end, bool is_over) {
  auto session = reinterpret_cast<SessionHeader*>(copy.data());
  Leftover leftover;
  leftover.cut_file = true;
  leftover.file_bytes = session->checkpoints[session->current_checkpoint.load() & 1].file_bytes;
  MemorySink sink;
  Drain drain;
  if (!drain.Open(session, copy.bytes(), &sink)) {
    return absl::DataLossError(absl::StrCat(name, ": rings left by its process: ", drain.error()));
  }
  if (is_over) {
    drain.Finish(end, false);
  } else {
    drain.Step(true, true);
  }
  leftover.packets.assign(sink.buffer().data(), sink.buffer().size());
  return leftover;
}

ProcessEnd EndOf(const SessionHeader& session) {
  return session.exited.load() != 0 ? ProcessEnd::kExited : ProcessEnd::kVanished;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RingFile>> RingFile::Open(const std::string& link) {
  std::error_code error;
  if (!std::filesystem::is_symlink(link, error)) return absl::NotFoundError(link);
  return OpenTarget(link, std::filesystem::read_symlink(link, error).string());
}

absl::StatusOr<std::unique_ptr<RingFile>> RingFile::OpenTarget(const std::string& link, const std::string& path) {
  auto ring = std::unique_ptr<RingFile>(new RingFile);
  ring->link_ = link;
  ring->path_ = path;
  ring->fd_ = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (ring->fd_ < 0 && IsOutOfDescriptors(errno)) return OutOfDescriptors(link);
  if (ring->fd_ < 0) {
    return absl::DataLossError(absl::StrCat(link, ": the rings it points to, ", path, ", can't be opened: ",
                                            strerror(errno), "; what the process had not yet written is lost"));
  }
  ring->locked_ = flock(ring->fd_, LOCK_EX | LOCK_NB) == 0;
  SessionHeader* header = nullptr;
  if (SizeOfFile(ring->fd_) >= kSessionDataStart) {
    void* memory = mmap(nullptr, kSessionDataStart, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd_, 0);
    if (memory != MAP_FAILED) header = static_cast<SessionHeader*>(memory);
  }
  const uint64_t bytes = header == nullptr ? 0 : header->mapping_bytes;
  const bool valid = header != nullptr && header->magic == kSessionMagic && bytes >= kSessionDataStart &&
                     bytes <= (uint64_t{1} << 40);
  if (header != nullptr) munmap(header, kSessionDataStart);
  if (!valid) return absl::DataLossError(absl::StrCat(path, ": not a ring file of dlhook"));
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd_, 0);
  if (memory == MAP_FAILED) return absl::DataLossError(absl::StrCat(path, ": can't be mapped: ", strerror(errno)));
  ring->session_ = static_cast<SessionHeader*>(memory);
  ring->mapped_bytes_ = bytes;
  return ring;
}

RingFile::~RingFile() {
  if (session_ != nullptr) munmap(session_, mapped_bytes_);
  if (fd_ >= 0) close(fd_);  // and with it the lock
}

uint64_t RingFile::file_bytes() const { return std::min(SizeOfFile(fd_), mapped_bytes_); }

bool RingFile::IsMappedByProcess() const {
  const uint32_t pid = session_->pid;
  if (session_->pid_namespace != PidNamespace()) return true;  // of a container: nobody here can tell
  if (kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH) return false;
  if (StartTimeOf(pid) != session_->start_time_jiffies) return false;
  std::ifstream maps(absl::StrCat("/proc/", pid, "/maps"));
  for (std::string line; std::getline(maps, line);) {
    if (absl::StrContains(line, path_)) return true;
  }
  return false;
}

void RingFile::Remove() {
  unlink(path_.c_str());
  unlink(link_.c_str());
}

PrivatePages::PrivatePages(uint64_t bytes) {
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return;
  data_ = static_cast<char*>(pages);
  bytes_ = bytes;
}

PrivatePages::~PrivatePages() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

// What the file holds: rings that no thread ever used are holes in it.
bool RingFile::CopyTo(const PrivatePages& copy) const {
  const auto size = static_cast<off_t>(copy.bytes());
  for (off_t end = 0; end < size;) {
    const off_t begin = lseek(fd_, end, SEEK_DATA);
    if (begin < 0) return errno == ENXIO;  // holes to the end
    end = std::min(lseek(fd_, begin, SEEK_HOLE), size);
    for (off_t at = begin; at < end;) {
      const ssize_t count = pread(fd_, copy.data() + at, static_cast<size_t>(end - at), at);
      if (count <= 0) return false;
      at += count;
    }
  }
  return true;
}

absl::StatusOr<PrivatePages> RingFile::Snapshot() const {
  for (int attempt = 0; attempt < 50; ++attempt) {
    const uint32_t before = session_->checkpoint_generation.load();
    PrivatePages copy(file_bytes());
    const bool whole = copy.bytes() >= kSessionDataStart && CopyTo(copy);
    const bool stable = before % 2 == 0 && session_->checkpoint_generation.load() == before;
    if (stable && whole) return copy;
    usleep(1000);
  }
  return absl::UnavailableError(absl::StrCat(path_, ": its process writes too fast to be read meanwhile"));
}

absl::StatusOr<std::unique_ptr<RingDrain>> RingDrain::Open(std::unique_ptr<RingFile> ring,
                                                           const std::string& trace_path) {
  auto drain = std::unique_ptr<RingDrain>(new RingDrain);
  drain->ring_ = std::move(ring);
  drain->trace_path_ = trace_path;
  if (!drain->sink_.Open(drain->trace_path_.c_str(), true)) {
    if (IsOutOfDescriptors(drain->sink_.error())) return OutOfDescriptors(trace_path);
    return absl::PermissionDeniedError(absl::StrCat(trace_path, ": ", strerror(drain->sink_.error())));
  }
  if (!drain->drain_.Open(drain->session(), drain->ring_->file_bytes(), &drain->sink_)) {
    return absl::DataLossError(absl::StrCat(trace_path, ": its rings: ", drain->drain_.error()));
  }
  drain->sampler_.Open(drain->session(), false, &drain->drain_);
  return drain;
}

uint32_t RingDrain::Step() {
  drain_.set_mapping_bytes(ring_->file_bytes());
  const uint32_t fullness = drain_.Step(false, true);
  sampler_.Step(&drain_);
  return fullness;
}

void RingDrain::Finish() {
  drain_.set_mapping_bytes(ring_->file_bytes());
  sampler_.Finish(&drain_);
  drain_.Finish(EndOf(*session()), true);
  sink_.Close();
  ring_->Remove();
}

void RingDrain::HandOver() {
  sampler_.Finish(&drain_);
  drain_.Step(true, true);
  sink_.Close();
  session()->collector_pid = 0;
}

void RemoveOrphanedRings() {
  const std::string prefix = absl::StrCat("dlhook-", getuid(), "-");
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", error)) {
    const std::string path = entry.path().string();
    if (!absl::StartsWith(entry.path().filename().string(), prefix) || !absl::EndsWith(path, kRingSuffix)) continue;
    absl::StatusOr<std::unique_ptr<RingFile>> ring = RingFile::OpenTarget("", path);
    if (!ring.ok() || !(*ring)->locked() || (*ring)->IsMappedByProcess()) continue;
    const SessionHeader& session = *(*ring)->session();
    const std::string trace(session.trace_path, strnlen(session.trace_path, sizeof session.trace_path));
    if (std::filesystem::read_symlink(LinkOf(trace), error).string() == path) continue;  // its run is still there
    unlink(path.c_str());
  }
}

absl::StatusOr<Leftover> DrainLeftoverRings(const std::string& trace_path) {
  absl::StatusOr<std::unique_ptr<RingFile>> ring = RingFile::Open(LinkOf(trace_path));
  if (absl::IsNotFound(ring.status())) return Leftover{};
  if (!ring.ok()) return ring.status();
  const SessionHeader& session = *(*ring)->session();
  const bool is_over = !(*ring)->IsMappedByProcess();
  const ProcessEnd end = EndOf(session);
  const bool may_write = is_over && (*ring)->locked() && access(trace_path.c_str(), W_OK) == 0;
  if (!may_write) {
    absl::StatusOr<PrivatePages> copy = (*ring)->Snapshot();
    if (!copy.ok()) return copy.status();
    return DrainCopy(*copy, trace_path, end, is_over);
  }
  absl::StatusOr<std::unique_ptr<RingDrain>> drain = RingDrain::Open(*std::move(ring), trace_path);
  if (!drain.ok()) return drain.status();
  (*drain)->Finish();
  return Leftover{};
}

}  // namespace dlhook::analyzer
