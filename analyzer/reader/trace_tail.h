// The end of a process trace that grows: what was recorded last, and the definitions before it that this needs. Every byte is read
// once, and memory does not grow with the number of calls. Nothing but the file is touched.
#pragma once

#include <sys/stat.h>

#include <deque>

#include "analyzer/io/byte_source.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/reader/load_run.h"

namespace dlhook::trace {

class ClockSample;
class Packet;
}  // namespace dlhook::trace

namespace dlhook::analyzer::inline reader {

class TraceTail {
 public:
  // Keeps about `most_bytes` of the newest calls and scopes.
  TraceTail(std::string path, uint64_t most_bytes) : path_(std::move(path)), most_bytes_(most_bytes) {}
  TraceTail(const TraceTail&) = delete;
  TraceTail& operator=(const TraceTail&) = delete;

  // Reads what was appended since; of a file that was replaced or cut off, all. Not OK: damaged, or it can't be read now; what was
  // read before stays. A packet that is only half there yet is read later.
  absl::Status Read();

  const std::string& path() const { return path_; }
  bool has_header() const { return !known_.header_bytes.empty(); }
  // Which process it is.
  struct Process {
    uint32_t pid = 0;
    uint64_t start_time_jiffies = 0;
    std::string boot_id;
  };
  const Process& process() const { return known_.process; }
  // Of calls, scopes and totals in the whole trace.
  uint64_t calls() const { return known_.calls; }
  uint64_t scopes() const { return known_.scopes; }
  // When the last of them ended, on CLOCK_MONOTONIC of the process's boot; 0: there is none, or its clock is not known.
  int64_t LastRecordNs() const;
  // How the process ended, if its trace says so.
  const std::optional<ProcessEnd>& ended() const { return known_.ended; }
  bool is_recording() const { return known_.is_recording; }            // false: dlhook ctl stop, DLHOOK_START=off
  bool has_reached_limit() const { return known_.has_reached_limit; }  // DLHOOK_MAX_BYTES: only totals from here on

  bool has_light_scopes() const { return known_.has_light_scopes; }  // DLHOOK_SCOPES=light

  // The newest part of the trace, for TraceBuilder::AddTrace; valid until the next Read.
  struct Part {
    std::unique_ptr<const std::string> definitions;  // of what is before it
    std::vector<ByteChunk> chunks;
    ReadParts parts;
  };
  // Begins at the last clock sample that is not later than `realtime_ns` (CLOCK_REALTIME), as far as that is kept.
  Part Since(int64_t realtime_ns) const;
  // Where a part of about `bytes` begins (CLOCK_REALTIME); at least one stretch with calls or scopes is in it.
  int64_t StartOfLast(uint64_t bytes) const;
  // Of the last clock sample before the last call or scope was written; 0: there is none.
  int64_t LastWrittenRealtimeNs() const;

 private:
  // Of the trace. All calls and scopes that ended after its start are in it or after it.
  struct Stretch {
    std::string bytes;
    uint64_t start_ticks = 0;
    int64_t start_realtime_ns = 0;
    bool has_records = false;
  };

  absl::Status ReadFrom(const ByteSource& file);
  void Take(absl::string_view packet, absl::string_view framed);
  void TakeRest(const trace::Packet& packet);
  void TakeClockSample(const trace::ClockSample& sample);
  void Record(uint64_t end_ticks);
  void BeginStretch(uint64_t start_ticks, int64_t start_realtime_ns);
  void DropOld();
  size_t FirstOf(int64_t realtime_ns) const;

  struct Instant {
    uint64_t ticks = 0;
    uint64_t monotonic_ns = 0;
  };
  // What was read of the file.
  struct Known {
    uint64_t offset = 0;  // of the first byte that was not read
    std::string header_bytes;
    Process process;
    ClockKind clock = ClockKind::kUnknown;
    uint64_t ticks_per_second = 0;
    std::string definitions;  // before `stretches`: what is not calls or scopes
    std::deque<Stretch> stretches;
    uint64_t stretch_bytes = 0;
    bool has_dropped = false;
    std::vector<Instant> clock_samples;  // the first and the last
    uint64_t calls = 0;
    uint64_t scopes = 0;
    uint64_t last_end_ticks = 0;
    std::optional<ProcessEnd> ended;
    bool is_recording = true;
    bool has_reached_limit = false;
    bool has_light_scopes = false;
  };

  const std::string path_;
  const uint64_t most_bytes_;
  struct stat file_ = {};  // as of the last Read
  bool was_damaged_ = false;
  Known known_;
};

// The end of a run that goes on: of all its process traces what was recorded last, read again and again as they grow.
class RecentRun {
 public:
  // `path`: as FindRun takes it; it need not exist yet. Keeps about `most_bytes` of the newest calls and scopes.
  RecentRun(std::string path, uint64_t most_bytes) : path_(std::move(path)), most_bytes_(most_bytes) {}

  // Reads what was added to traces, new traces included; forgets those that are gone. Not OK: there is no trace to read (NotFound
  // also if there is none yet).
  absl::Status Read();

  // In the order of the model's processes.
  const std::vector<const TraceTail*>& traces() const { return order_; }
  // What could not be read, and why.
  const std::vector<std::string>& damage() const { return damage_; }
  int64_t calls() const;  // calls and scopes of the whole run

  // A model of the last `seconds` in which something was recorded; of less if these have more than `bytes` (its read_spans).
  // `open`: of each trace, what its process has not ended yet (DrainOpen), or empty. What was read must hold all that ended before.
  TraceModel Last(int64_t seconds, uint64_t bytes, const std::vector<Leftover>& open = {}) const;

 private:
  const std::string path_;
  const uint64_t most_bytes_;
  RunFiles files_;
  std::map<std::string, std::unique_ptr<TraceTail>> tails_;  // by path
  std::vector<const TraceTail*> order_;
  std::vector<std::string> damage_;
};

}  // namespace dlhook::analyzer::reader
