// The end of a process trace that grows: what was recorded last, and the definitions before it that this needs. Every byte is read
// once, and memory does not grow with the number of calls. Nothing but the file is touched.
#pragma once

#include <sys/stat.h>

#include <deque>

#include "analyzer/io/byte_source.h"
#include "analyzer/model/trace_enums.h"
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

  // Reads what was appended since. A file that was replaced, or cut off before what was read, is read from its beginning. Not OK:
  // damaged, or it can't be read now; what was read before stays. A packet that is only half there yet is read later.
  absl::Status Read();

  const std::string& path() const { return path_; }
  bool has_header() const { return !header_bytes_.empty(); }
  // Which process it is.
  struct Process {
    uint32_t pid = 0;
    uint64_t start_time_jiffies = 0;
    std::string boot_id;
  };
  const Process& process() const { return process_; }
  // Of calls, scopes and totals in the whole trace.
  uint64_t calls() const { return calls_; }
  uint64_t scopes() const { return scopes_; }
  // When the last of them ended, on CLOCK_MONOTONIC of the process's boot; 0: there is none, or its clock is not known.
  int64_t LastRecordNs() const;
  // How the process ended, if its trace says so.
  const std::optional<ProcessEnd>& ended() const { return ended_; }
  bool is_recording() const { return is_recording_; }            // false: dlhook ctl stop, DLHOOK_START=off
  bool has_reached_limit() const { return has_reached_limit_; }  // DLHOOK_MAX_BYTES: only totals from here on

  bool has_light_scopes() const { return has_light_scopes_; }  // DLHOOK_SCOPES=light

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

  void StartOver();
  absl::Status ReadFrom(const ByteSource& file);
  void Take(absl::string_view packet, absl::string_view framed);
  void TakeRest(const trace::Packet& packet);
  void TakeClockSample(const trace::ClockSample& sample);
  void Record(uint64_t end_ticks);
  void BeginStretch(uint64_t start_ticks, int64_t start_realtime_ns);
  void DropOld();
  size_t FirstOf(int64_t realtime_ns) const;

  const std::string path_;
  const uint64_t most_bytes_;
  struct stat file_ = {};  // as of the last Read
  uint64_t offset_ = 0;    // of the first byte that was not read
  bool was_damaged_ = false;
  std::string header_bytes_;
  Process process_;
  ClockKind clock_ = ClockKind::kUnknown;
  uint64_t ticks_per_second_ = 0;
  std::string definitions_;  // before `stretches_`: what is not calls or scopes
  std::deque<Stretch> stretches_;
  uint64_t stretch_bytes_ = 0;
  bool has_dropped_ = false;
  struct Instant {
    uint64_t ticks = 0;
    uint64_t monotonic_ns = 0;
  };
  std::vector<Instant> clock_samples_;  // the first and the last
  uint64_t calls_ = 0;
  uint64_t scopes_ = 0;
  uint64_t last_end_ticks_ = 0;
  std::optional<ProcessEnd> ended_;
  bool is_recording_ = true;
  bool has_reached_limit_ = false;
  bool has_light_scopes_ = false;
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

  // A model of the last `seconds` in which something was recorded; of less if these have more than `bytes`. Its read_spans tell which
  // part of each process it holds.
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
