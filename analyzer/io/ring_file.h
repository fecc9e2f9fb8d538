// The rings of one recorded process, seen from outside: found by the link beside its trace, drained by the launcher while
// the process lives, and by whoever opens the run for what a killed process left.
#ifndef DLHOOK_ANALYZER_IO_RING_FILE_H_
#define DLHOOK_ANALYZER_IO_RING_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "analyzer/io/trace_bytes.h"
#include "preload/core/session.h"
#include "preload/drain/counter_sampler.h"
#include "preload/drain/drain.h"

namespace dlhook::analyzer {

constexpr char kRingSuffix[] = ".ring";

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

// Shared mapping of a ring file. While this object lives nobody else drains it (if `locked()`).
class RingFile {
 public:
  // NotFound: there is none. DataLoss: the link's target is gone, or it is no ring file. ResourceExhausted: no descriptor
  // is left, try again.
  static absl::StatusOr<std::unique_ptr<RingFile>> Open(const std::string& link);
  static absl::StatusOr<std::unique_ptr<RingFile>> OpenTarget(const std::string& link, const std::string& path);
  ~RingFile();
  RingFile(const RingFile&) = delete;
  RingFile& operator=(const RingFile&) = delete;

  SessionHeader* session() const { return session_; }
  bool locked() const { return locked_; }
  // Bytes that may be touched now: the file grows as threads come.
  uint64_t file_bytes() const;
  // The process still has these rings mapped (it may have called exec, or another process may have its number).
  bool IsMappedByProcess() const;
  // Removes ring file and link: nothing is left in them.
  void Remove();
  // A private copy, taken between two checkpoints of the process's drain.
  absl::StatusOr<PrivatePages> Snapshot() const;

 private:
  RingFile() = default;
  bool CopyTo(const PrivatePages& copy) const;

  std::string link_;
  std::string path_;
  int fd_ = -1;
  bool locked_ = false;
  uint64_t mapped_bytes_ = 0;
  SessionHeader* session_ = nullptr;
};

// A process trace that this process writes, from its rings.
class RingDrain {
 public:
  static absl::StatusOr<std::unique_ptr<RingDrain>> Open(std::unique_ptr<RingFile> ring, const std::string& trace_path);

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
  uint64_t calls() const { return drain_.calls(); }

 private:
  RingDrain() = default;

  std::unique_ptr<RingFile> ring_;
  std::string trace_path_;
  FileSink sink_;
  Drain drain_;
  CounterSampler sampler_;
};

// For the trace at `trace_path`: rings of a process that is gone are drained into the file and removed, where that can be
// written; otherwise (and while the process lives) into memory, leaving everything as it is.
absl::StatusOr<Leftover> DrainLeftoverRings(const std::string& trace_path);

// Removes rings of this user's processes that are gone and whose run was deleted before anybody opened it.
void RemoveOrphanedRings();

}  // namespace dlhook::analyzer

#endif  // DLHOOK_ANALYZER_IO_RING_FILE_H_
