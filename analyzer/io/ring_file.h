// Accesses the rings of a recorded process from outside: found by the link next to its trace, drained by the launcher
// while the process lives, or by a reader of the run if the process was killed.
#pragma once

#include "analyzer/io/byte_source.h"
#include "analyzer/io/jit_names.h"
#include "analyzer/io/machine_files.h"
#include "analyzer/io/wait_stacks.h"
#include "preload/drain/counter_sampler.h"
#include "preload/format/session.h"

namespace dlhook::analyzer::inline io {

constexpr char kRingSuffix[] = ".ring";
constexpr char kSharedMemory[] = "/dev/shm";

// A string in a session, possibly not terminated.
template <size_t size>
std::string TextOf(const char (&text)[size]) {
  return std::string(text, strnlen(text, size));
}

// This machine's, as traces have it.
std::string HostName();

// Private memory of this process, initially zero; untouched pages use no memory.
class PrivatePages {
 public:
  explicit PrivatePages(uint64_t bytes);
  PrivatePages(PrivatePages&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  PrivatePages& operator=(PrivatePages&&) = delete;
  ~PrivatePages();

  char* data() const { return data_; }  // null if there is no such memory
  uint64_t bytes() const { return bytes_; }

 private:
  char* data_ = nullptr;
  uint64_t bytes_ = 0;
};

// The ring file of one process, opened for reading. Its contents are not trusted: anyone with write access may have put
// anything there. Of the link's target only the last component is used, looked up in /dev/shm or in the run folder.
class RingFile {
 public:
  // NotFound: the trace has no rings. FailedPrecondition: those that its link names belong to another trace, machine or build
  // of dlhook. DataLoss: gone, or not a ring file. ResourceExhausted: out of descriptors, try again.
  static absl::StatusOr<std::unique_ptr<RingFile>> Open(std::shared_ptr<const RunFolder> folder,
                                                        const std::string& trace_name);
  // A file in /dev/shm, of any run. Unimplemented: of another build of dlhook, which the message names.
  static absl::StatusOr<std::unique_ptr<RingFile>> OpenShared(const std::string& name);
  ~RingFile();
  RingFile(const RingFile&) = delete;
  RingFile& operator=(const RingFile&) = delete;

  const std::shared_ptr<const RunFolder>& folder() const { return folder_; }
  const std::string& trace_name() const { return trace_name_; }
  // A copy of the header as of opening the file.
  const SessionHeader& header() const { return *reinterpret_cast<const SessionHeader*>(header_.data()); }
  // Created by our own process and not writable by others: only such rings are ever written to.
  bool IsOurs() const;
  // Whether the process still has these rings mapped (it may have called exec, or its number may be reused), or this
  // can't be determined here. For a process in another container the lock decides: we get it if the process is gone.
  bool IsMappedByProcess() const;
  // While this object lives nothing else drains it. False: something does, or has removed it meanwhile.
  bool Lock() const;
  // Maps it shared and writable; requires IsOurs().
  absl::Status Map();
  SessionHeader* session() const { return session_; }  // null before Map()
  // Bytes that may be accessed now: the file grows with the number of threads.
  uint64_t file_bytes() const;
  // Removes ring file and link, when nothing is left in them.
  void Remove();
  // A private copy, taken between two checkpoints of the drain.
  absl::StatusOr<PrivatePages> Snapshot() const;

 private:
  RingFile() : header_(kSessionDataStart) {}
  static absl::StatusOr<std::unique_ptr<RingFile>> OpenAt(int folder, const std::string& path);
  absl::Status CheckIdentity() const;
  bool CopyTo(const PrivatePages& copy) const;
  uint32_t Generation() const;

  std::shared_ptr<const RunFolder> folder_;  // null: any run
  std::string trace_name_;
  std::string path_;  // of the ring file: in /dev/shm, or a name in the run folder
  int fd_ = -1;
  PrivatePages header_;
  SessionHeader* session_ = nullptr;
  uint64_t mapped_bytes_ = 0;
};

// Drains the rings of a process into its trace.
class RingDrain {
 public:
  // `ring`: IsOurs() and locked.
  static absl::StatusOr<std::unique_ptr<RingDrain>> Open(std::unique_ptr<RingFile> ring);

  const RingFile& ring() const { return *ring_; }
  SessionHeader* session() const { return ring_->session(); }
  // Returns the fill level of the fullest ring, in 1/256.
  uint32_t Step();
  // Until the next sample of counters is due; UINT64_MAX: none.
  uint64_t NanosecondsToSample() const { return sampler_.NanosecondsToNext(); }
  // The process is gone: drains the rest, closes the trace, removes the rings.
  void Finish();
  // The process continues without us: from now on its shim drains when necessary.
  void HandOver();
  // If the trace's folder was removed, starts the trace again in this one.
  void MoveFromRemoved(std::shared_ptr<const RunFolder> folder);
  // What the process recorded so far, wherever it was written.
  uint64_t calls() const;

 private:
  RingDrain() = default;

  std::unique_ptr<RingFile> ring_;
  std::shared_ptr<const RunFolder> folder_;  // of its trace
  FileSink sink_;
  Drain drain_;
  CounterSampler sampler_;
  std::optional<LoadSampler> load_;
  std::optional<JitNames> jit_names_;
  std::optional<WaitStacks> waits_;
};

// For the trace at `trace_path`: what its process left in its rings. If that is gone, and trace, folder and rings belong to the
// caller alone, it is drained into the file and the rings are removed; else into memory, and nothing is changed.
absl::StatusOr<Leftover> DrainLeftoverRings(const std::string& trace_path);

// The same of a process that lives, with the calls and scopes that have not ended as if they ended now. Changes nothing.
absl::StatusOr<Leftover> DrainOpen(const std::string& trace_path);

}  // namespace dlhook::analyzer::io
