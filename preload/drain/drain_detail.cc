// What of a run is kept in detail, so that its trace stays within its limit: the beginning, then windows of training steps,
// ever farther apart. Of all steps the range that ends them is kept (16 to 20 bytes), of other calls totals. A window is
// marked as a tap marks its own (kScopeWindowName), so a reader knows where operations are missing.
#include "preload/drain/drain.h"
#include "preload/format/taps.h"

namespace dlhook::inline drain {
namespace {

// Parts of the limit, in eighths: so much may the beginning of a run take, all details, and a beginning without steps.
constexpr uint64_t kBeginningEighths = 4, kDetailEighths = 6, kMostEighths = 7;
constexpr uint64_t kStepsPerWindow = 4;  // so that both of two optimizers that alternate are in it, and several of one
constexpr uint32_t kMostUpdatesInTurn = 16;
constexpr uint64_t kFewestStepsBetween = 2 * kStepsPerWindow;
constexpr uint64_t kShortestTicks = 1000;  // of a window: one without length is the mark of one that is open
constexpr uint64_t kBytesOfScope = 10;     // about, in a trace
constexpr uint64_t kSecondsOfDay = 86400;
// By default, if steps are not known or windows are no use: all of this time is kept, up to this size.
constexpr uint64_t kWholeSeconds = 600;
constexpr uint64_t kWholeBytes = 512 << 20;

}  // namespace

// The default limit grows with the age of the run.
void Drain::PlanLimits(uint64_t now_ticks) {
  uint64_t limit = session_->trace_bytes_limit;
  if (limit == 0) return;
  const DetailState& detail = state_.detail;
  const bool is_default = limit == kTraceBytesOfDay;
  const uint64_t age_ticks = now_ticks > session_->shim_loaded_ticks ? now_ticks - session_->shim_loaded_ticks : 0;
  const uint64_t age_seconds = age_ticks / TicksPerSecond(*session_);
  if (is_default) limit = detail.before_bytes + limit * (1 + age_seconds / kSecondsOfDay);
  most_bytes_ = limit / 8 * kMostEighths;
  detail_bytes_ = limit / 8 * kDetailEighths;
  beginning_bytes_ = limit / 8 * kBeginningEighths;
  const bool is_whole = is_default && age_seconds < kWholeSeconds;
  const bool has_windows = detail.steps != 0 && detail.has_gpu == 0 && detail.has_tap_windows == 0;
  if (is_whole && !has_windows) most_bytes_ = detail_bytes_ = beginning_bytes_ = kWholeBytes;
}

bool Drain::KeepsDetail(uint64_t end_ticks) {
  const DetailState& detail = state_.detail;
  if (detail.end_ticks == 0) {
    const uint64_t most_bytes =
        detail.windows == 0 ? most_bytes_ : detail.start_bytes + detail_bytes_ - beginning_bytes_;
    if (TraceBytes() <= most_bytes) return end_ticks >= detail.start_ticks;
    EndDetail(detail.last_step_ticks, true);
  }
  return end_ticks >= detail.start_ticks && end_ticks <= detail.end_ticks;
}

void Drain::MarkWindow(uint32_t thread_id, uint64_t start_ticks, uint64_t end_ticks) {
  ScopeRecord window = {};
  window.start_ticks = start_ticks;
  window.end_ticks = end_ticks;
  window.link = -1;
  window.kind = ScopeKind::kUserRange;
  AddScope(thread_id, kScopeWindowName, sizeof kScopeWindowName - 1, window);
}

// `at_once`: not even what ended before and is still in a ring.
void Drain::EndDetail(uint64_t end_ticks, bool at_once) {
  DetailState& detail = state_.detail;
  FlushBatch();
  const uint64_t bytes = TraceBytes() > detail.start_bytes ? TraceBytes() - detail.start_bytes : 0;
  const bool is_beginning = detail.windows++ == 0;
  detail.window_bytes = bytes;
  if (!is_beginning) detail.spent_bytes += bytes;
  if (is_beginning && detail.window_steps > kStepsPerWindow)
    detail.window_bytes = bytes / detail.window_steps * kStepsPerWindow;
  uint64_t start_ticks = is_beginning ? session_->shim_loaded_ticks : detail.start_ticks;
  detail.end_ticks = at_once ? 1 : end_ticks;
  if (at_once) detail.start_ticks = UINT64_MAX;
  if (detail.has_tap_windows != 0) start_ticks = detail.tap_window_ticks;
  if (!is_beginning && end_ticks < start_ticks + kShortestTicks) end_ticks = start_ticks + kShortestTicks;
  if (detail.steps != 0 && start_ticks != 0 && start_ticks < end_ticks)
    MarkWindow(detail.last_step_thread, start_ticks, end_ticks);
  detail.tap_window_ticks = 0;
  PlanWindow();
}

// While the number of steps doubles, half of what is left is spent.
void Drain::PlanWindow() {
  DetailState& detail = state_.detail;
  const uint64_t bytes = detail.spent_bytes + detail.window_bytes, all = detail_bytes_ - beginning_bytes_;
  const uint64_t left = bytes < all ? all - bytes : 0;
  const uint64_t between =
      2 * detail.window_bytes >= left ? detail.steps : detail.steps * 2 * detail.window_bytes / left;
  detail.next_step = detail.steps + (between > kFewestStepsBetween ? between : kFewestStepsBetween);
}

// Records that end later than all that were drained so far are still complete.
void Drain::BeginDetail(uint32_t thread_id) {
  DetailState& detail = state_.detail;
  if (detail.spent_bytes + detail.window_bytes > detail_bytes_ - beginning_bytes_) return PlanWindow();
  FlushAggregates(0, true);
  FlushBatch();
  detail.start_ticks = state_.last_record_ticks + 1;
  detail.end_ticks = 0;
  detail.start_bytes = TraceBytes();
  detail.window_steps = 0;
  MarkWindow(thread_id, detail.start_ticks, detail.start_ticks);
}

// Whether all optimizers have stepped that take turns, or step together: a window cut between two would show half a step.
bool Drain::EndsTurn(uint32_t update) {
  DetailState& detail = state_.detail;
  const bool begins_turn = update == detail.first_update && detail.last_update != update;
  const bool is_other = detail.first_update == 0 || ++detail.updates_in_turn > kMostUpdatesInTurn;
  if (begins_turn) detail.final_update = detail.last_update;
  if (!begins_turn && is_other) detail.first_update = detail.final_update = update;
  if (begins_turn || is_other) detail.updates_in_turn = 0;
  detail.last_update = update;
  return update == detail.final_update;
}

// The range that ends a step has been kept. Of GPUs' work, which is reported late, and where a tap has windows of its own, only
// the beginning is kept.
void Drain::EndStep(uint32_t thread_id, const ScopeRecord& update) {
  const uint64_t end_ticks = update.end_ticks;
  const bool ends_turn = EndsTurn(update.python_stack + 1);
  DetailState& detail = state_.detail;
  if (detail.steps++ == 0) detail.before_bytes = TraceBytes();
  detail.last_step_thread = thread_id;
  detail.last_step_ticks = end_ticks;
  if (session_->trace_bytes_limit == 0) return;
  if (detail.end_ticks != 0) {
    const bool may_begin = ends_turn && detail.has_gpu == 0 && detail.has_tap_windows == 0;
    if (may_begin && detail.steps >= detail.next_step) BeginDetail(thread_id);
  } else if (end_ticks > detail.start_ticks && ++detail.window_steps >= kStepsPerWindow && ends_turn &&
             (detail.windows != 0 || TraceBytes() + kBytesOfScope * scopes_.rows() > beginning_bytes_)) {
    EndDetail(end_ticks, false);
  }
}

}  // namespace dlhook::inline drain
