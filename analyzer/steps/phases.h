// The steps of a program and their phases: forward, backward, update, input; training, validation, warm-up.
#pragma once

#include "analyzer/layers/attribution.h"

namespace dlhook::analyzer::inline steps {

enum class PhaseKind : uint8_t { kUnknown, kInput, kForward, kBackward, kUpdate, kInference };
const char* PhaseKindName(PhaseKind kind);  // "input", "forward", …

// The kind of a step, by its contents: training has backward and update, accumulation steps have no update, validation
// (inside a training run) and inference (serving) have forward only.
enum class StepKind : uint8_t { kUnknown, kTraining, kValidation, kInference };
const char* StepKindName(StepKind kind);

// "training", "training (Net #2)".
std::string StepName(StepKind kind, const std::string& sort);

struct PhaseInterval {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  PhaseKind kind = PhaseKind::kUnknown;
};

// Why a step is in no mean, the first that holds. Decided once for all that is said of a run: Judged.
enum class LeftOut : uint8_t {
  kNot,
  kWarmUp,
  kOther,        // not is_regular; requests and validation count nevertheless, but for a network's first try
  kNotRecorded,  // without scopes, where others of its sort and process have them
  kSlow,         // a bounded trace kept its scopes because it was slow
  kCutShort,     // the last of its track: none begins after it, so that it seems shorter. A request ends by itself
  kMuchLonger,   // than others of its kind and sort: InterruptedNs
};
constexpr size_t kLeftOuts = 7;
const char* LeftOutName(LeftOut left_out);  // "much longer"; kNot: empty

struct Step {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  StepKind kind = StepKind::kUnknown;
  ThreadIndex thread = kNone;  // the track's
  bool is_warm_up = false;
  bool is_regular = true;   // like others of its sort: same batch, same micro steps; same calls if only calls are known
  bool has_scopes = false;  // scopes were recorded throughout (light mode omits some)
  bool is_kept_as_slow = false;  // … because it was slow
  LeftOut left_out = LeftOut::kNot;
  int64_t batch = 0;                  // batch size; 0 if not known
  bool batch_is_rows = false;         // as BatchSpan.is_rows
  int64_t samples = 0;                // of all its passes, whose batches may differ; 0 if not known
  int32_t micro_steps = 1;            // forward+backward passes before the update (gradient accumulation)
  int32_t updates = 1;                // of several optimizers that step in turn, joined to one step …
  int32_t updates_of_most = 1;        // … and those of the one with most
  std::string model;                  // Layer.model of the network that was trained, or ran, if there was exactly one
  std::string sort;                   // what distinguishes it from others of its kind: NameSteps; empty: nothing
  std::vector<PhaseInterval> phases;  // ascending, disjoint, inside the step; gaps have no phase

  bool counts() const { return left_out == LeftOut::kNot; }
  PhaseKind PhaseAt(int64_t ns) const {
    const auto is_at = [&](const PhaseInterval& phase) { return phase.start_ns <= ns && ns < phase.end_ns; };
    const auto phase = absl::c_find_if(phases, is_at);
    return phase == phases.end() ? PhaseKind::kUnknown : phase->kind;
  }
};

// The steps of one process (or thread, if threads repeat independently), ascending and disjoint.
struct StepTrack {
  ProcessIndex process = 0;
  ThreadIndex thread = kNone;
  bool by_kind_only = false;  // shapes change from step to step, and there are no scopes: found by kinds of calls alone
  std::vector<Step> steps;
};

// The last of these (ascending, by start_ns) that begins by then; null: none.
template <typename Intervals>
auto* LastBegun(Intervals& intervals, int64_t ns) {
  const auto after =
      std::ranges::upper_bound(intervals, ns, {}, [](const auto& interval) { return interval.start_ns; });
  return after == intervals.begin() ? nullptr : &*std::prev(after);
}

// Of a process's windows of recording, the last one that begins by then; null: none.
inline const ScopeWindow* LastWindow(const TraceModel& model, ProcessIndex process, int64_t ns) {
  const auto begins = [](const ScopeWindow& window) { return std::pair(window.process, window.start_ns); };
  const auto after = std::ranges::upper_bound(model.scope_windows, std::pair(process, ns), {}, begins);
  const bool has = after != model.scope_windows.begin() && std::prev(after)->process == process;
  return has ? &*std::prev(after) : nullptr;
}

// Whether only parts of the process were recorded in full, by a light tap.
inline bool HasWindows(const TraceModel& model, ProcessIndex process) {
  return LastWindow(model, process, INT64_MAX) != nullptr;
}

// The end of the window that contains `ns`; less than that: none does.
inline int64_t EndOfWindow(const TraceModel& model, ProcessIndex process, int64_t ns) {
  const ScopeWindow* const window = LastWindow(model, process, ns);
  return window == nullptr ? INT64_MIN : window->end_ns;
}

// The step in which it lies; null: none.
inline const Step* StepAt(const StepTrack& track, int64_t ns) {
  const Step* const step = LastBegun(track.steps, ns);
  return step != nullptr && ns < step->end_ns ? step : nullptr;
}

// The place among these steps (ascending) of the one in which it lies; kNone: in none.
inline size_t StepAt(const std::vector<const Step*>& steps, int64_t ns) {
  const auto after = std::ranges::upper_bound(steps, ns, {}, &Step::start_ns);
  const bool is_in = after != steps.begin() && ns < (*(after - 1))->end_ns;
  return is_in ? static_cast<size_t>(after - steps.begin()) - 1 : kNone;
}

// `visit`s the calls that begin in steps of the track, with the step's number.
template <typename Visit>
void ForEachCallIn(const TraceModel& model, const StepTrack& track, Visit visit) {
  const auto [begin, end] = model.calls.RangeOf(track.thread);
  for (CallIndex call = begin; call < end; ++call) {
    if (model.threads[model.calls.thread[call]].process != track.process) continue;
    const Step* const step = StepAt(track, model.calls.start_ns[call]);
    if (step != nullptr) visit(static_cast<size_t>(step - track.steps.data()), call);
  }
}

// Most time first.
void SortByLength(std::vector<StepTrack>* tracks);

// Tracks with most time first. From scopes and directions if there are any, else from the steps that FindStepsByCalls finds in the order of ops.
std::vector<StepTrack> FindStepTracks(const TraceModel& model, const Attribution& attribution);

// The GPU work that steps ask for: it may end long after the host has asked for all of it.
struct AskedWork {
  int64_t end_ns = INT64_MIN;    // INT64_MIN: no GPU work is known
  int64_t asked_ns = INT64_MIN;  // of that which ends with the step; INT64_MIN: none does
};

// By step of the track.
std::vector<AskedWork> AskedWorkOf(const TraceModel& model, const StepTrack& track);

// Steps end with the host's last call. What the GPU does for them ends later where nothing waits for it: a step lasts
// until then, but not into the next one, and not where the GPU was still busy for the steps before.
void EndWithAskedWork(const TraceModel& model, StepTrack& track);

}  // namespace dlhook::analyzer::steps
