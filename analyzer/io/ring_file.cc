#include "analyzer/io/ring_file.h"

#include <limits.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/cord.h"
#include "analyzer/io/packet_reader.h"
#include "preload/format/identity.h"
#include "proto/trace.pb.h"

namespace dlhook::analyzer::inline io {
namespace {

// More than any setting allows: a sparse file uses no memory, but its contents are copied.
constexpr uint64_t kMostRingBytes = uint64_t{2} << 30;

// With the status of rings of another build: its command.
constexpr absl::string_view kCommandPayload = "dlhook/command";

std::string LinkOf(const std::string& trace) {
  return absl::StrCat(absl::StripSuffix(trace, kTraceSuffix), kRingSuffix);
}

bool IsOutOfDescriptors(int error) { return error == EMFILE || error == ENFILE; }

absl::Status OutOfDescriptors(const std::string& name) {
  return absl::ResourceExhaustedError(absl::StrCat(name, ": too many files are open to drain it (ulimit -n)"));
}

std::string BootId() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id;
}

std::string OnlyThere(const std::string& trace, const std::string& host) {
  return absl::StrCat(trace, ": its process ran on ", host, ", and only there can be read what it had not yet written");
}

// A sentence for the user if a process of that host and boot can't have its rings here; else empty.
std::string WhyElsewhere(const std::string& trace, const std::string& host, const std::string& boot_id) {
  if (boot_id.empty() || boot_id == BootId()) return "";
  if (host == HostName()) {
    return absl::StrCat(
        trace,
        ": the machine was restarted before the records that its process left in memory were read: they are lost");
  }
  return OnlyThere(trace, host);
}

// For rings that can't be found: the trace contains where its process ran. Another host of the same boot is a container.
absl::Status NotHere(const RunFolder& folder, const std::string& trace, const std::string& what) {
  const absl::StatusOr<ByteSource> file = ByteSource::Open(folder.PathOf(trace));
  trace::Packet packet;
  if (file.ok()) {
    PacketReader reader(trace, {ByteChunk(&*file, file->size())});
    if (reader.Next()) reader.Parse(reader.payload(), &packet);
  }
  const trace::Process& process = packet.header().process();
  std::string why = WhyElsewhere(trace, process.host(), process.boot_id());
  if (why.empty() && !process.host().empty() && process.host() != HostName()) why = OnlyThere(trace, process.host());
  if (!why.empty()) return absl::FailedPreconditionError(why);
  const std::string lost =
      absl::StrCat(folder.Path(), "/", trace, ": ", what, "; what the process had not yet written is lost");
  if (!packet.has_header()) return absl::UnavailableError(lost);  // unless it is somewhere else, and will say so
  return absl::DataLossError(lost);
}

// A drain that takes over truncates the trace to the size recorded in its rings: only at the end of a packet, or the
// trace would be unreadable from there.
absl::Status CheckCut(const RunFolder& folder, const std::string& trace, uint64_t file_bytes) {
  const absl::StatusOr<ByteSource> file = ByteSource::Open(folder.PathOf(trace));
  if (!file.ok()) return file.status();
  if (EndsAPacket(ByteChunk(&*file, file->size()), file_bytes)) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(folder.Path(), "/", trace, ": its rings say that ", file_bytes,
                   " bytes of it were written, where no packet ends: what is in them can't be added"));
}

// "another build of dlhook (0.1.0, /opt/lib/libdlhook.so)". Only the members that all builds share.
std::string BuildOf(const SessionHeader& session) {
  const std::string library = TextOf(session.library);
  return absl::StrCat("another build of dlhook (", TextOf(session.tool_version), library.empty() ? "" : ", ", library,
                      ")");
}

// The command that was installed with that library.
std::string CommandOf(const SessionHeader& session) {
  const std::filesystem::path library = TextOf(session.library);
  const std::filesystem::path command = library.parent_path().parent_path() / "bin" / "dlhook";
  std::error_code error;
  return library.is_absolute() && std::filesystem::exists(command, error) ? command.string()
                                                                          : "the command dlhook of that build";
}

uint64_t WrittenBytes(const SessionHeader& session) {
  return session.checkpoints[session.current_checkpoint.load() & 1].file_bytes;
}

ProcessEnd EndOf(const SessionHeader& session) {
  if (session.exited.load() != 0) return ProcessEnd::kExited;
  return session.left_ticks.load() != 0 ? ProcessEnd::kLeft : ProcessEnd::kVanished;
}

// kOver: with losses and the footer. kOpen: with what has not ended.
enum class CopyOf : uint8_t { kOver, kLiving, kOpen };

// Drains a private copy of the rings.
absl::StatusOr<Leftover> DrainCopy(const RingFile& ring, CopyOf what) {
  const absl::StatusOr<PrivatePages> snapshot = ring.Snapshot();
  if (!snapshot.ok()) return snapshot.status();
  const PrivatePages& copy = *snapshot;
  auto session = reinterpret_cast<SessionHeader*>(copy.data());
  Leftover leftover;
  leftover.cut_file = true;
  leftover.file_bytes = WrittenBytes(*session);
  const absl::Status cut = CheckCut(*ring.folder(), ring.trace_name(), leftover.file_bytes);
  if (!cut.ok()) return cut;
  MemorySink sink;
  Drain drain;
  if (!drain.Open(session, copy.bytes(), &sink)) {
    return absl::DataLossError(absl::StrCat(ring.trace_name(), ": rings left by its process: ", drain.error()));
  }
  if (what == CopyOf::kOver) drain.Finish(EndOf(*session), false);
  if (what == CopyOf::kLiving) drain.Step(true, true);
  if (what == CopyOf::kOpen) drain.TakeOpen();
  leftover.packets.assign(sink.buffer().data(), sink.buffer().size());
  return leftover;
}

}  // namespace

std::string HostName() {
  char name[sizeof SessionHeader::host] = "";
  gethostname(name, sizeof name - 1);
  return name;
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

absl::StatusOr<std::unique_ptr<RingFile>> RingFile::OpenAt(int folder, const std::string& path) {
  auto ring = std::unique_ptr<RingFile>(new RingFile);
  ring->path_ = path;
  ring->fd_ = openat(folder, path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (ring->fd_ < 0) return absl::Status(absl::ErrnoToStatusCode(errno), strerror(errno));
  struct stat info;
  const bool is_file = fstat(ring->fd_, &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 1;
  const bool is_whole = is_file && ring->header_.data() != nullptr &&
                        pread(ring->fd_, ring->header_.data(), kSessionDataStart, 0) == ssize_t{kSessionDataStart};
  const SessionHeader& header = ring->header();
  if (!is_whole || header.magic != kSessionMagic || header.mapping_bytes < kSessionDataStart ||
      header.mapping_bytes > (uint64_t{1} << 40)) {
    return absl::DataLossError("not a ring file of dlhook");
  }
  if (header.layout == kSessionLayout && header.hook_table_hash == kHookTableHash) return ring;
  absl::Status other = absl::UnimplementedError(BuildOf(header));
  other.SetPayload(kCommandPayload, absl::Cord(CommandOf(header)));
  return other;
}

absl::StatusOr<std::unique_ptr<RingFile>> RingFile::OpenShared(const std::string& name) {
  return OpenAt(AT_FDCWD, absl::StrCat(kSharedMemory, "/", name));
}

absl::StatusOr<std::unique_ptr<RingFile>> RingFile::Open(std::shared_ptr<const RunFolder> folder,
                                                         const std::string& trace_name) {
  const std::string link = LinkOf(trace_name);
  char target[PATH_MAX];
  const ssize_t length = readlinkat(folder->fd(), link.c_str(), target, sizeof target);
  if (length < 0) return absl::NotFoundError(link);
  const std::string path(target, static_cast<size_t>(length));
  const std::string name = BaseName(path);
  const bool is_shared = absl::StartsWith(path, absl::StrCat(kSharedMemory, "/"));
  absl::StatusOr<std::unique_ptr<RingFile>> ring = is_shared ? OpenShared(name) : OpenAt(folder->fd(), name);
  if (absl::IsResourceExhausted(ring.status())) return OutOfDescriptors(trace_name);
  if (absl::IsPermissionDenied(ring.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat(trace_name, ": what its process has not yet written is another user's and can't be read"));
  }
  if (absl::IsUnimplemented(ring.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat(trace_name, ": recorded by ", ring.status().message(),
                     ", so this one can't access what its process has in memory: use ",
                     std::string(ring.status().GetPayload(kCommandPayload).value_or(absl::Cord()))));
  }
  if (!ring.ok()) {
    return NotHere(*folder, trace_name,
                   absl::StrCat("its rings ", name, " can't be opened: ", ring.status().message()));
  }
  (*ring)->folder_ = std::move(folder);
  (*ring)->trace_name_ = trace_name;
  if (absl::Status status = (*ring)->CheckIdentity(); !status.ok()) return status;
  return ring;
}

// A copy of a run has the original's links, whose targets belong to the original.
absl::Status RingFile::CheckIdentity() const {
  const SessionHeader& session = header();
  const std::string why = WhyElsewhere(trace_name_, TextOf(session.host), TextOf(session.boot_id));
  if (!why.empty()) return absl::FailedPreconditionError(why);
  struct stat trace;
  struct stat rings;
  const bool is_its = folder_->Stat(trace_name_, &trace) && fstat(fd_, &rings) == 0 && trace.st_uid == rings.st_uid &&
                      trace.st_ino == session.trace_inode && folder_->info().st_dev == session.folder_device &&
                      folder_->info().st_ino == session.folder_inode && TextOf(session.trace_name) == trace_name_;
  if (is_its) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(trace_name_,
                   ": a copy: what its process left in memory belongs to the original, and is missing here; report the "
                   "original, then copy it again"));
}

RingFile::~RingFile() {
  if (session_ != nullptr) munmap(session_, mapped_bytes_);
  if (fd_ >= 0) close(fd_);  // this also releases the lock
}

bool RingFile::IsOurs() const {
  struct stat info;
  return fstat(fd_, &info) == 0 && IsOurOwnFile(info);
}

bool RingFile::Lock() const {
  struct stat info;
  return flock(fd_, LOCK_EX | LOCK_NB) == 0 && fstat(fd_, &info) == 0 && info.st_nlink != 0;
}

// By descriptor: this very file, whatever its name refers to now.
absl::Status RingFile::Map() {
  const int fd = open(absl::StrCat("/proc/self/fd/", fd_).c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0 && IsOutOfDescriptors(errno)) return OutOfDescriptors(trace_name_);
  void* memory = fd < 0 ? MAP_FAILED : mmap(nullptr, header().mapping_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int error = errno;
  if (fd >= 0) close(fd);
  if (memory == MAP_FAILED) return absl::DataLossError(absl::StrCat(path_, ": can't be mapped: ", strerror(error)));
  session_ = static_cast<SessionHeader*>(memory);
  mapped_bytes_ = header().mapping_bytes;
  return absl::OkStatus();
}

uint64_t RingFile::file_bytes() const {
  struct stat info;
  const uint64_t bytes = fstat(fd_, &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
  return std::min(bytes, header().mapping_bytes);
}

bool RingFile::IsMappedByProcess() const {
  const SessionHeader& session = header();
  const uint32_t pid = session.pid;
  if (TextOf(session.boot_id) != BootId()) return TextOf(session.host) != HostName();
  // In a container its number means nothing here. A process that drains itself holds the lock as long as it lives.
  if (session.pid_namespace != PidNamespace()) return session.drained_by_host.load() == 0 || !Lock();
  if (kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH) return false;
  if (StartTimeOf(pid) != session.start_time_jiffies) return false;
  std::error_code error;
  for (std::filesystem::directory_iterator task(absl::StrCat("/proc/", pid, "/task"), error), end;
       !error && task != end; task.increment(error)) {
    std::ifstream maps(task->path() / "maps");
    if (!maps.is_open() && errno != ESRCH) return true;  // belongs to another user, or does now
    bool has_memory = false;                             // not a first thread that has ended before the others
    for (std::string line; std::getline(maps, line); has_memory = true) {
      if (absl::StrContains(line, absl::StrCat("/", BaseName(path_)))) return true;
    }
    if (has_memory) return false;
  }
  return static_cast<bool>(error);
}

void RingFile::Remove() {
  struct stat named;
  struct stat ours;
  const int folder = folder_ == nullptr ? AT_FDCWD : folder_->fd();
  const bool is_this = fstatat(folder, path_.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd_, &ours) == 0 &&
                       named.st_ino == ours.st_ino && named.st_dev == ours.st_dev;
  if (is_this) unlinkat(folder, path_.c_str(), 0);
  const std::string link = LinkOf(trace_name_);
  if (folder_ != nullptr && folder_->Stat(link, &named) && S_ISLNK(named.st_mode) && named.st_uid == geteuid()) {
    unlinkat(folder_->fd(), link.c_str(), 0);
  }
}

// Copies the file's contents: rings that no thread ever used are holes in it.
bool RingFile::CopyTo(const PrivatePages& copy) const {
  const auto size = static_cast<off_t>(copy.bytes());
  for (off_t end = 0; end < size;) {
    const off_t begin = lseek(fd_, end, SEEK_DATA);
    if (begin < 0) return errno == ENXIO;  // holes up to the end
    end = std::min(lseek(fd_, begin, SEEK_HOLE), size);
    for (off_t at = begin; at < end;) {
      const ssize_t count = pread(fd_, copy.data() + at, static_cast<size_t>(end - at), at);
      if (count <= 0) return false;
      at += count;
    }
  }
  return true;
}

uint32_t RingFile::Generation() const {
  uint32_t generation = 1;
  const auto at = static_cast<off_t>(offsetof(SessionHeader, checkpoint_generation));
  return pread(fd_, &generation, sizeof generation, at) == sizeof generation ? generation : 1;
}

absl::StatusOr<PrivatePages> RingFile::Snapshot() const {
  struct stat info;
  if (fstat(fd_, &info) != 0 || static_cast<uint64_t>(info.st_blocks) * 512 > kMostRingBytes) {
    return absl::DataLossError(absl::StrCat(trace_name_, ": its rings take more than 2 GiB, which dlhook never makes"));
  }
  for (int attempt = 0; attempt < 50; ++attempt) {
    const uint32_t before = Generation();
    PrivatePages copy(file_bytes());
    const bool whole = before % 2 == 0 && copy.bytes() >= kSessionDataStart && CopyTo(copy);
    if (whole && Generation() == before) return copy;
    usleep(1000);
  }
  return absl::UnavailableError(absl::StrCat(trace_name_, ": its process writes too fast to be read meanwhile"));
}

absl::StatusOr<std::unique_ptr<RingDrain>> RingDrain::Open(std::unique_ptr<RingFile> ring) {
  const std::string name = ring->trace_name();
  struct stat trace;
  if (!ring->folder()->Stat(name, &trace) || !IsOurOwnFile(trace) || trace.st_ino != ring->header().trace_inode) {
    return absl::PermissionDeniedError(absl::StrCat(name, ": was replaced, or others may write it: not written to"));
  }
  if (absl::Status status = ring->Map(); !status.ok()) return status;
  const absl::Status cut = CheckCut(*ring->folder(), name, WrittenBytes(*ring->session()));
  if (!cut.ok()) return cut;
  auto drain = std::unique_ptr<RingDrain>(new RingDrain);
  drain->ring_ = std::move(ring);
  drain->folder_ = drain->ring_->folder();
  if (!drain->sink_.OpenAt(drain->folder_->fd(), drain->ring_->trace_name().c_str(), trace.st_ino, true)) {
    if (IsOutOfDescriptors(drain->sink_.error())) return OutOfDescriptors(name);
    return absl::PermissionDeniedError(absl::StrCat(name, ": ", strerror(drain->sink_.error())));
  }
  if (!drain->drain_.Open(drain->session(), drain->ring_->file_bytes(), &drain->sink_)) {
    return absl::DataLossError(absl::StrCat(name, ": its rings: ", drain->drain_.error()));
  }
  drain->waits_.emplace(*drain->session());
  drain->sampler_.Open(drain->session(), false, &drain->drain_, drain->waits_->observer());
  drain->load_.emplace(*drain->session());
  drain->jit_names_.emplace(*drain->session(), name);
  return drain;
}

uint32_t RingDrain::Step() {
  drain_.set_mapping_bytes(ring_->file_bytes());
  const uint32_t fullness = drain_.Step(false, true);
  sampler_.Step(&drain_);
  load_->Step(drain_);
  jit_names_->Step(*folder_);
  waits_->Step(&drain_);
  session()->trace_inode = sink_.inode();  // a different one if the trace was removed and started again
  return fullness;
}

void RingDrain::Finish() {
  drain_.set_mapping_bytes(ring_->file_bytes());
  sampler_.Finish(&drain_);
  waits_->Step(&drain_, true);
  drain_.Finish(EndOf(*session()), true);
  sink_.Close();
  ring_->Remove();
}

void RingDrain::HandOver() {
  sampler_.Finish(&drain_);
  waits_->Step(&drain_, true);
  drain_.Step(true, true);
  sink_.Close();
  session()->collector_pid = 0;
}

void RingDrain::MoveFromRemoved(std::shared_ptr<const RunFolder> folder) {
  if (!folder_->IsRemoved()) return;
  folder_ = std::move(folder);
  sink_.MoveTo(folder_->fd(), ring_->trace_name().c_str());
}

uint64_t RingDrain::calls() const {
  uint64_t calls = drain_.calls() + session()->no_ring_calls.load();
  for (const Slot& slot : session()->slots) calls += slot.dropped.load();
  return calls;
}

namespace {

absl::StatusOr<std::unique_ptr<RingFile>> RingOf(const std::string& trace_path) {
  const auto folder = RunFolder::Open(FolderOf(trace_path));
  if (!folder.ok()) return folder.status();
  return RingFile::Open(*folder, BaseName(trace_path));
}

}  // namespace

absl::StatusOr<Leftover> DrainOpen(const std::string& trace_path) {
  const absl::StatusOr<std::unique_ptr<RingFile>> ring = RingOf(trace_path);
  return ring.ok() ? DrainCopy(**ring, CopyOf::kOpen) : ring.status();
}

absl::StatusOr<Leftover> DrainLeftoverRings(const std::string& trace_path) {
  absl::StatusOr<std::unique_ptr<RingFile>> ring = RingOf(trace_path);
  if (absl::IsNotFound(ring.status())) return Leftover{};
  if (absl::IsFailedPrecondition(ring.status())) return Leftover{.note = std::string(ring.status().message())};
  if (!ring.ok()) return ring.status();
  const bool is_over = !(*ring)->IsMappedByProcess();
  const RunFolder& folder = *(*ring)->folder();
  const std::string& name = (*ring)->trace_name();
  struct stat trace;
  const bool may_write = is_over && IsOnlyOurs(folder.info()) && (*ring)->IsOurs() && folder.Stat(name, &trace) &&
                         IsOurOwnFile(trace) && faccessat(folder.fd(), name.c_str(), W_OK, AT_EACCESS) == 0;
  if (!may_write || !(*ring)->Lock()) return DrainCopy(**ring, is_over ? CopyOf::kOver : CopyOf::kLiving);
  absl::StatusOr<std::unique_ptr<RingDrain>> drain = RingDrain::Open(*std::move(ring));
  if (!drain.ok()) return drain.status();
  (*drain)->Finish();
  return Leftover{};
}

}  // namespace dlhook::analyzer::io
