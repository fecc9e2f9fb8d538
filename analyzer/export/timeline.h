// What happened when: a run as tracks with slices, counters and flows between slices, for viewers of timelines. WalkTimeline
// makes it; what writes a format takes it piece by piece.
#pragma once

#include <deque>

#include "analyzer/analysis/layer_analysis.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline exports {

// All texts of a timeline, each once, with control characters spelled out: viewers print names as they are.
enum class TextIndex : uint32_t {};
constexpr TextIndex kNoText = TextIndex{0};  // the empty text
class TimelineTexts {
 public:
  TimelineTexts() { Of(""); }
  TextIndex Of(absl::string_view text);
  const std::string& operator[](TextIndex index) const { return texts_[static_cast<size_t>(index)]; }

 private:
  std::deque<std::string> texts_;  // references stay valid while it grows
  absl::flat_hash_map<std::string, TextIndex> known_;
};

struct TimelineArg {
  TextIndex key = kNoText;
  std::variant<TextIndex, int64_t> value;
};
using TimelineArgs = std::vector<TimelineArg>;

// kSteps: steps and their phases; kLayers: for which layer a thread or stream worked; kTotals: calls of which only totals were
// kept.
enum class TrackKind : uint8_t { kSteps, kThread, kLayers, kTotals, kGpuStream, kCounter };
using TrackIndex = uint32_t;
struct TimelineTrack {
  TrackIndex index = 0;
  TrackKind kind = TrackKind::kThread;
  ProcessIndex process = 0;
  ThreadIndex thread = kNone;  // of kThread, and of layers, counters and totals of a thread
  TextIndex name = kNoText;
  TextIndex unit = kNoText;  // of kCounter
};

enum class FlowKind : uint8_t { kBackward, kLaunch };  // from an op to its backward node, from a call to its GPU work
struct TimelineFlow {
  uint64_t id = 0;  // unique
  FlowKind kind = FlowKind::kBackward;
};

// Times are nanoseconds since the run began.
struct TimelineSlice {
  TrackIndex track = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  TextIndex name = kNoText;
  TextIndex kind = kNoText;  // "library", "framework", "gpu" …
  absl::Span<const TimelineArg> args;
  absl::Span<const TimelineFlow> starts;  // flows that lead from here …
  absl::Span<const TimelineFlow> ends;    // … and to here
};

// Slices of a track come in the order of their starts, outer ones first, and nest exactly.
class TimelineWriter {
 public:
  virtual ~TimelineWriter() = default;
  virtual void Process(ProcessIndex process, TextIndex name, TextIndex label) = 0;
  virtual void Track(const TimelineTrack& track) = 0;  // before anything on it
  virtual void Begin(const TimelineSlice& slice) = 0;
  virtual void End(TrackIndex track, int64_t time_ns) = 0;  // of the innermost slice
  virtual void Instant(const TimelineSlice& at) = 0;
  virtual void Count(TrackIndex track, int64_t time_ns, double value) = 0;
  virtual bool ok() const = 0;  // false: nothing more is needed
};

struct Timeline {
  const TraceModel& model;
  const LayerAnalysis& analysis;
  std::function<void(uint64_t done, uint64_t all)> progress;
};

// Tells how much was exported, now and then.
class ExportProgress {
 public:
  ExportProgress(const Timeline& run, uint64_t all) : show_(run.progress), all_(all) {}
  void Next() {
    if ((++done_ & 0xffff) == 0 && show_) show_(done_, all_);
  }

 private:
  const std::function<void(uint64_t, uint64_t)>& show_;
  const uint64_t all_;
  uint64_t done_ = 0;
};

void WalkTimeline(const Timeline& timeline, TimelineTexts& texts, TimelineWriter& writer);

// Process and thread ids as viewers need them: unique within the run, and within the process. Those of the run, unless
// processes of several machines or one after another share them.
class TimelineIds {
 public:
  explicit TimelineIds(const TraceModel& model);
  int64_t Pid(ProcessIndex process) const { return pid_[process]; }
  int64_t Tid(ThreadIndex thread) const { return tid_[thread]; }
  // Of a track that is no thread.
  static int64_t TidOfTrack(TrackIndex track) { return kBeyondTids + track; }

 private:
  static constexpr int64_t kBeyondTids = 1 << 30;  // Linux has at most 2^22

  std::vector<int64_t> pid_, tid_;
};

}  // namespace dlhook::analyzer::exports
