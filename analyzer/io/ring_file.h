// The rings of one recorded process, seen from outside: found by the link beside its trace, drained by the launcher while
// the process lives, and by whoever opens the run for what a killed process left.
#ifndef DLHOOK_ANALYZER_IO_RING_FILE_H_
#define DLHOOK_ANALYZER_IO_RING_FILE_H_

#include <string.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "analyzer/io/load_sampler.h"
#include "analyzer/io/run_folder.h"
#include "analyzer/io/trace_bytes.h"
#include "preload/drain/counter_sampler.h"
#include "preload/drain/drain.h"
#include "preload/format/session.h"

namespace dlhook::analyzer::inline io {

constexpr char kRingSuffix[] = ".ring";

// A text of a session, which need not end.
template <size_t size>
std::string TextOf(const char (&text)[size]) {
  return std::string(text, strnlen(text, size));
}

// Memory of this process alone, zero at first; pages that nobody writes take none.
class PrivatePages {
 public:
  explicit PrivatePages(uint64_t bytes);
  PrivatePages(PrivatePages&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  PrivatePages& operator=(PrivatePages&&) = delete;
  ~PrivatePages();

  char* data() const { return data_; }  // null where there is no such memory
  uint64_t bytes() const { return bytes_; }

 private:
  char* data_ = nullptr;
  uint64_t bytes_ = 0;
};

// The ring file of one process, opened to be read. A session may say anything: it is what its owner, or whoever could write
// there, has left. Of the link's target only the last component counts, looked for on /dev/shm or in the run folder.
class RingFile {
 public:
  // NotFound: the trace has none. FailedPrecondition: those that its link names are not the trace's, or of another machine: a
  // sentence for the user. DataLoss: gone, or no ring file. ResourceExhausted: no descriptor is left, try again.
  static absl::StatusOr<std::unique_ptr<RingFile>> Open(std::shared_ptr<const RunFolder> folder,
                                                        const std::string& trace_name);
  // A file of /dev/shm, of whatever run.
  static absl::StatusOr<std::unique_ptr<RingFile>> OpenShared(const std::string& name);
  ~RingFile();
  RingFile(const RingFile&) = delete;
  RingFile& operator=(const RingFile&) = delete;

  const std::shared_ptr<const RunFolder>& folder() const { return folder_; }
  const std::string& trace_name() const { return trace_name_; }
  // A copy, as the header was when the file was opened.
  const SessionHeader& header() const { return *reinterpret_cast<const SessionHeader*>(header_.data()); }
  // What our own process made and nobody else may write: only such rings are ever written to.
  bool IsOurs() const;
  // The process still has these rings mapped (it may have called exec, or another process may have its number), or nobody
  // here can tell. Of a process in another container the lock tells: it is ours then if the process is gone.
  bool IsMappedByProcess() const;
  // While this object lives nobody else drains it. False: somebody does, or has removed it meanwhile.
  bool Lock() const;
  // Maps it shared and writable; only where IsOurs().
  absl::Status Map();
  SessionHeader* session() const { return session_; }  // null before Map()
  // Bytes that may be touched now: the file grows as threads come.
  uint64_t file_bytes() const;
  // Removes ring file and link: nothing is left in them.
  void Remove();
  // A private copy, taken between two checkpoints of whoever drains.
  absl::StatusOr<PrivatePages> Snapshot() const;

 private:
  RingFile() : header_(kSessionDataStart) {}
  static absl::StatusOr<std::unique_ptr<RingFile>> OpenAt(int place, const std::string& name);
  absl::Status CheckIdentity() const;
  bool CopyTo(const PrivatePages& copy) const;
  uint32_t Generation() const;

  std::shared_ptr<const RunFolder> folder_;  // null: of whatever run
  std::string trace_name_;
  std::string name_;           // of the ring file
  bool is_in_folder_ = false;  // on /dev/shm otherwise
  int fd_ = -1;
  PrivatePages header_;
  SessionHeader* session_ = nullptr;
  uint64_t mapped_bytes_ = 0;
};

// A process trace that this process writes, from its rings.
class RingDrain {
 public:
  // `ring`: ours, and locked.
  static absl::StatusOr<std::unique_ptr<RingDrain>> Open(std::unique_ptr<RingFile> ring);

  const RingFile& ring() const { return *ring_; }
  SessionHeader* session() const { return ring_->session(); }
  // Returns how full the fullest ring was, in 1/256.
  uint32_t Step();
  // Until the next sample of counters is due; UINT64_MAX: none is wanted.
  uint64_t NanosecondsToSample() const { return sampler_.NanosecondsToNext(); }
  // The process is gone: takes what is left, closes the trace, removes the rings.
  void Finish();
  // The process goes on without us: its shim drains from now on when it must.
  void HandOver();
  // Where the trace's folder was removed, the trace begins anew in this one.
  void MoveFromRemoved(std::shared_ptr<const RunFolder> folder);
  // What the process made so far, wherever it went.
  uint64_t calls() const;

 private:
  RingDrain() = default;

  std::unique_ptr<RingFile> ring_;
  std::shared_ptr<const RunFolder> folder_;  // where its trace is
  FileSink sink_;
  Drain drain_;
  CounterSampler sampler_;
  std::optional<LoadSampler> load_;
};

// For the trace at `trace_path`: what a process that is gone left in its rings. Where trace, folder and rings are the
// caller's alone it is drained into the file and the rings are removed; otherwise (and while the process lives) into memory,
// leaving everything as it is.
absl::StatusOr<Leftover> DrainLeftoverRings(const std::string& trace_path);

// Removes rings of this user's processes that are gone and whose run was deleted before anybody opened it.
void RemoveOrphanedRings();

}  // namespace dlhook::analyzer::io

#endif  // DLHOOK_ANALYZER_IO_RING_FILE_H_
