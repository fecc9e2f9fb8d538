// What of a run is kept in detail, so that its trace stays within its limit: the beginning, then windows of training steps,
// ever farther apart, and steps that turn out to be slow. Of all steps the range that ends them is kept (14 to 46 bytes), of other
// calls totals. A window is marked as a tap marks its own (kScopeWindowName), so a reader knows where operations are missing.
#include "preload/drain/drain.h"
#include "preload/format/taps.h"

namespace dlhook::inline drain {
namespace {

// Parts of the limit, in sixteenths: so much may the beginning of a run take, all details, of these slow steps, totals by shapes,
// and all together. What is left is for the ends of steps, other totals and the end of the trace.
constexpr uint64_t kParts = 16, kBeginningParts = 8, kDetailParts = 12, kSlowParts = 1, kTotalsParts = 2,
                   kFullParts = 15;
constexpr uint64_t kRawBytesPerByte = 4;  // of a record in a ring, at least, for one in a trace
constexpr uint64_t kFewestTotalsBytes = 4096;
constexpr uint64_t kStepsPerWindow = 4;  // so that both of two optimizers that alternate are in it, and several of one
constexpr uint32_t kMostUpdatesInTurn = 16;
constexpr uint64_t kFewestStepsBetween = 2 * kStepsPerWindow;
constexpr uint64_t kWindowMs = 500;        // without steps: it holds whole requests
constexpr uint64_t kShortestTicks = 1000;  // of a window: one without length is the mark of one that is open
constexpr uint64_t kBytesOfScope = 10, kBytesOfCall = 16, kBytesOfAddress = 8,
                   kBytesOfTotals = 40;       // about, in a trace
constexpr uint64_t kMostHeldBytes = 1 << 20;  // that are not yet in the trace, roughly
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
  most_bytes_ = detail_bytes_ = limit / kParts * kDetailParts;
  beginning_bytes_ = limit / kParts * kBeginningParts;
  slow_bytes_ = limit / kParts * kSlowParts;
  totals_bytes_ =
      limit / kParts * kTotalsParts > kFewestTotalsBytes ? limit / kParts * kTotalsParts : kFewestTotalsBytes;
  const bool is_whole = is_default && age_seconds < kWholeSeconds;
  const bool has_windows = detail.steps != 0 && HasWindows();
  full_bytes_ = limit / kParts * kFullParts + (is_default && !has_windows ? kWholeBytes : 0);
  if (is_whole && !has_windows) {
    most_bytes_ = detail_bytes_ = beginning_bytes_ = kWholeBytes;
    slow_bytes_ = 0;
  }
}

uint64_t Drain::HeldBytes() const {
  return TraceBytes() + kBytesOfTotals * aggregates_.rows() + pending_.size() + pending_strings_.size() +
         kBytesOfScope * scopes_.rows() + kBytesOfCall * batch_.rows() + kBytesOfAddress * memory_.rows() +
         interner_.new_addresses().size();
}

// Whether a call is kept by its shape.
bool Drain::KeepsShape(uint64_t end_ticks) {
  const uint64_t bytes = state_.detail.totals_bytes + kBytesOfTotals * aggregates_.rows();
  return (bytes <= totals_bytes_ && (bytes <= kFewestTotalsBytes || HeldBytes() <= full_bytes_)) ||
         KeepsDetail(end_ticks);
}

bool Drain::KeepsDetail(uint64_t end_ticks) {
  const DetailState& detail = state_.detail;
  if (detail.end_ticks == 0) {
    uint64_t most_bytes = detail.windows == 0 ? most_bytes_ : detail.start_bytes + WindowsBytes();
    if (most_bytes > full_bytes_) most_bytes = full_bytes_;
    const bool is_far = TraceBytes() + kMostHeldBytes <= most_bytes;  // asked for each record
    if (is_far || HeldBytes() <= most_bytes) return end_ticks >= detail.start_ticks;
    EndDetail(WholeUntil(detail.steps != 0 ? detail.last_step_ticks : state_.last_record_ticks), true);
  }
  return end_ticks >= detail.start_ticks && end_ticks <= detail.end_ticks;
}

template <size_t kBytes>
void Drain::MarkWindow(const char (&name)[kBytes], uint32_t thread_id, uint64_t start_ticks, uint64_t end_ticks) {
  ScopeRecord window = {};
  window.start_ticks = start_ticks;
  window.end_ticks = end_ticks;
  window.link = -1;
  window.kind = ScopeKind::kUserRange;
  AddScope(thread_id, name, kBytes - 1, window);
}

// At most `ticks`: what ended until then is in no ring any more. Of each ring, the first record that has a time tells.
uint64_t Drain::WholeUntil(uint64_t ticks) {
  const uint32_t slots = session_->slots_in_use.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < slots && i < kMaxSlots; ++i) {
    const uint64_t head = session_->slots[i].head.load(std::memory_order_acquire);
    uint64_t position = state_.tails[i], end = 0;
    Segment segment = SegmentAt(i, position);
    while (end == 0 && position < head) {
      const RecordHeader* record = RecordAt(i, position, head, &segment);
      if (record == nullptr) break;
      end = EndOf(*record);
      position += uint64_t{record->words} * 8;
    }
    if (end != 0 && end <= ticks) ticks = end - 1;
  }
  return ticks;
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
  if (is_beginning && detail.steps == 0 && Progress() > kWindowMs) detail.window_bytes = bytes / Progress() * kWindowMs;
  uint64_t start_ticks = is_beginning ? session_->shim_loaded_ticks : detail.start_ticks;
  detail.end_ticks = at_once ? 1 : end_ticks;
  is_settled_ = false;
  if (at_once) detail.start_ticks = UINT64_MAX;
  if (detail.has_tap_windows != 0) start_ticks = detail.tap_window_ticks;
  if (end_ticks < start_ticks + kShortestTicks) end_ticks = start_ticks + kShortestTicks;
  const bool is_marked = detail.steps != 0 || (detail.last_step_thread != 0 && HasWindows());
  if (is_marked && start_ticks != 0 && start_ticks < end_ticks)
    MarkWindow(kScopeWindowName, detail.last_step_thread, start_ticks, end_ticks);
  detail.tap_window_ticks = 0;
  PlanWindow();
}

// Of GPUs' work, which is reported late, and where a tap has windows of its own, only the beginning is kept.
bool Drain::HasWindows() const {
  const DetailState& detail = state_.detail;
  return detail.has_gpu == 0 && detail.has_tap_windows == 0 && detail.has_profiles == 0;
}

uint64_t Drain::Progress() const {
  if (state_.detail.steps != 0) return state_.detail.steps;
  const uint64_t now = state_.last_record_ticks, start = session_->shim_loaded_ticks;
  return now > start ? (now - start) / (TicksPerSecond(*session_) / 1000 + 1) : 0;
}

// Until what takes so many bytes may be kept again: while steps or time double, half of what is left is spent.
uint64_t Drain::ProgressUntilNext(uint64_t bytes, uint64_t left) const {
  const uint64_t all = Progress(), between = 2 * bytes >= left ? all : all * 2 * bytes / left;
  const uint64_t least = state_.detail.steps != 0 ? kFewestStepsBetween : 2 * kWindowMs;
  return between > least ? between : least;
}

// Before the first step. Where details ended before the first operation, a reader must know that they did.
void Drain::NoteOperation(uint32_t thread_id) {
  DetailState& detail = state_.detail;
  const bool is_unmarked = detail.windows != 0 && detail.last_step_thread == 0 && HasWindows();
  const uint64_t start_ticks = session_->shim_loaded_ticks;
  if (is_unmarked) MarkWindow(kScopeWindowName, thread_id, start_ticks, start_ticks + kShortestTicks);
  detail.last_step_thread = thread_id;
}

// Where no optimizer steps, windows go by time.
void Drain::FollowTime() {
  DetailState& detail = state_.detail;
  const bool is_for_time = detail.steps == 0 && detail.windows != 0 && detail.last_step_thread != 0 && HasWindows();
  if (!is_for_time || session_->trace_bytes_limit == 0) return;
  if (detail.end_ticks != 0) {
    if (is_settled_ && Progress() >= detail.next_step) BeginDetail(detail.last_step_thread);
  } else if (state_.last_record_ticks > detail.start_ticks + TicksPerSecond(*session_) / 1000 * kWindowMs) {
    EndDetail(state_.last_record_ticks, false);
  }
}

// A profile is of use only as a whole. Programs are needed by all profiles that follow.
bool Drain::KeepsProfile(const ProfileRecord& record) {
  DetailState& detail = state_.detail;
  const bool is_program = record.kind == ProfileKind::kHloModule;
  detail.has_profiles = 1;
  if (record.total_bytes > full_bytes_ || HeldBytes() + record.total_bytes > full_bytes_) return false;
  if (KeepsDetail(record.end_ticks)) return true;
  if (detail.spent_bytes + record.total_bytes > WindowsBytes()) return false;
  if (!is_program && Progress() < detail.next_step) return false;
  detail.spent_bytes += record.total_bytes;
  if (is_program) return true;
  detail.window_bytes = record.total_bytes;
  PlanWindow();
  return true;
}

void Drain::PlanWindow() {
  DetailState& detail = state_.detail;
  const uint64_t bytes = detail.spent_bytes + detail.window_bytes, all = WindowsBytes();
  detail.next_step = Progress() + ProgressUntilNext(detail.window_bytes, bytes < all ? all - bytes : 0);
}

bool StepTimes::Add(uint64_t ticks) {
  uint32_t as_long = 0;
  double sum = 0;
  for (uint64_t other : ticks_) {
    as_long += other >= ticks;
    sum += static_cast<double>(other);
  }
  const bool is_slow = count_ >= kMost && as_long <= 1 && static_cast<double>(ticks) * kMost > 1.25 * sum;
  ticks_[count_++ % kMost] = ticks;
  return is_slow;
}

// What ended before the last judged step is decided.
bool Drain::Waits(uint32_t slot, const RecordHeader& header) const {
  const DetailState& detail = state_.detail;
  if (waiting_of_[slot] != 0) return true;
  return is_watching_ && detail.end_ticks != 0 && EndOf(header) > detail.last_turn_ticks;
}

// A step that is longer than all that were kept for being slow goes before the plan, which leaves half of the room to them.
bool Drain::MayKeepSlowStep(uint64_t ticks) const {
  const DetailState& detail = state_.detail;
  const uint64_t bytes = waiting_.size() / kRawBytesPerByte;
  if (!is_settled_ || bytes == 0 || detail.slow_bytes + bytes > slow_bytes_ || HeldBytes() + bytes > full_bytes_)
    return false;
  const bool is_planned = detail.steps >= detail.next_slow_step && 2 * (detail.slow_bytes + bytes) <= slow_bytes_;
  return is_planned || ticks > longest_slow_ticks_;
}

void Drain::KeepSlowStep(uint32_t thread_id, uint64_t end_ticks) {
  DetailState& detail = state_.detail;
  FlushBatch();
  const uint64_t before = TraceBytes();
  const uint64_t ticks = end_ticks - detail.last_turn_ticks;
  if (ticks > longest_slow_ticks_) longest_slow_ticks_ = ticks;
  detail.start_ticks = detail.last_turn_ticks + 1;
  detail.end_ticks = end_ticks;
  is_settled_ = false;
  TakeWaiting(end_ticks);
  MarkWindow(kSlowStepName, thread_id, detail.last_turn_ticks, end_ticks);
  FlushBatch();
  const uint64_t bytes = TraceBytes() - before;
  detail.slow_bytes += bytes;
  detail.next_slow_step =
      detail.steps + ProgressUntilNext(bytes, detail.slow_bytes < slow_bytes_ ? slow_bytes_ - detail.slow_bytes : 0);
}

// Records that end later than all that were drained so far are still complete.
void Drain::BeginDetail(uint32_t thread_id) {
  DetailState& detail = state_.detail;
  if (detail.spent_bytes + detail.window_bytes > WindowsBytes()) return PlanWindow();
  if (HeldBytes() + detail.window_bytes > full_bytes_) return PlanWindow();
  FlushAggregates(0, true);
  FlushBatch();
  detail.start_ticks = state_.last_record_ticks + 1;
  detail.end_ticks = 0;
  detail.start_bytes = TraceBytes();
  detail.window_steps = 0;
  MarkWindow(kScopeWindowName, thread_id, detail.start_ticks, detail.start_ticks);
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

// The range that ends a step has been taken, or waits.
void Drain::EndStep(uint32_t thread_id, const ScopeRecord& update) {
  const uint64_t end_ticks = update.end_ticks;
  const bool ends_turn = EndsTurn(update.python_stack + 1);
  DetailState& detail = state_.detail;
  const bool is_known = detail.steps != 0 && end_ticks > detail.last_turn_ticks;
  if (detail.steps++ == 0) {
    detail.before_bytes = TraceBytes();
    if (detail.windows != 0) PlanWindow();
  }
  detail.last_step_thread = thread_id;
  detail.last_step_ticks = end_ticks;
  if (session_->trace_bytes_limit == 0) return;
  const bool has_windows = HasWindows();
  if (ends_turn && is_known) {
    const uint64_t ticks = end_ticks - detail.last_turn_ticks;
    if (step_times_.Add(ticks) && detail.end_ticks != 0 && MayKeepSlowStep(ticks)) KeepSlowStep(thread_id, end_ticks);
  }
  if (ends_turn) {
    TakeWaiting(end_ticks);
    detail.last_turn_ticks = end_ticks;
    is_watching_ = has_windows;
  }
  if (detail.end_ticks != 0) {
    if (ends_turn && has_windows && is_settled_ && detail.steps >= detail.next_step) {
      BeginDetail(thread_id);
      TakeWaiting(UINT64_MAX);
    }
  } else if (end_ticks > detail.start_ticks && ++detail.window_steps >= kStepsPerWindow && ends_turn &&
             (detail.windows != 0 || HeldBytes() > beginning_bytes_)) {
    EndDetail(end_ticks, false);
  }
}

}  // namespace dlhook::inline drain
