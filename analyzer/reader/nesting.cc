// One pass from the last call to the first, so that a call comes after those that may contain it. A closed call has as
// many calls after it as there are free places, so the result fits into the array it is read from.
#include "analyzer/reader/nesting.h"

#include <algorithm>
#include <cstddef>

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline reader {
namespace {

struct OpenCall {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  uint64_t sequence = 0;
  uint64_t parent_sequence = 0;  // 0: none
  uint32_t op = 0;
  bool is_tap = false;
  // The earliest child, which was visited last; the others are linked by StagedCall::parent until the call is closed.
  uint32_t first_child = kNone;
  int64_t first_child_start_ns = 0;
};

class Nester {
 public:
  Nester(const ClockMap& clock, absl::Span<StagedCall> calls, NestingCounts* counts)
      : clock_(clock), calls_(calls), counts_(counts), next_place_(calls.size()) {}

  void Run() {
    for (size_t i = calls_.size(); i-- > 0;) {
      OpenCall call = Read(calls_[i]);
      while (!open_.empty() && !Holds(&open_.back(), &call)) CloseInnermost();
      if (open_.empty() && call.parent_sequence != 0) ++counts_->lost_parents;
      Fit(&call);
      open_.push_back(call);
    }
    while (!open_.empty()) CloseInnermost();
  }

 private:
  OpenCall Read(const StagedCall& staged);
  bool Holds(OpenCall* outer, OpenCall* call);
  bool TapHolds(OpenCall* tap, OpenCall* call);
  void Fit(OpenCall* call);
  void CloseInnermost();

  const ClockMap& clock_;
  absl::Span<StagedCall> calls_;
  NestingCounts* counts_;
  size_t next_place_;                 // one after the place of the next call to be closed
  std::vector<OpenCall> open_;        // outermost first
  int64_t top_start_ns_ = INT64_MAX;  // of the earliest closed call without a parent
};

OpenCall Nester::Read(const StagedCall& staged) {
  OpenCall call;
  call.op = staged.op & ~kTapCall;
  call.is_tap = (staged.op & kTapCall) != 0;
  call.sequence = staged.sequence;
  if (staged.parent != 0 && staged.parent < staged.sequence) call.parent_sequence = staged.sequence - staged.parent;
  const uint64_t end_ticks = static_cast<uint64_t>(staged.time);
  const uint64_t duration = static_cast<uint64_t>(staged.duration);
  call.end_ns = clock_.ToNs(end_ticks);
  if (call.is_tap) {
    call.start_ns = call.end_ns - static_cast<int64_t>(std::min<uint64_t>(duration, int64_t{1} << 60));
  } else {
    call.start_ns = clock_.ToNs(end_ticks - std::min(duration, end_ticks));
  }
  call.first_child_start_ns = call.end_ns;
  return call;
}

// Whether `outer`, the innermost open call, is the parent. If not, it is complete.
bool Nester::Holds(OpenCall* outer, OpenCall* call) {
  if (call->sequence == kNoSequence) return false;  // a product of XLA's, which is in no other call
  if (outer->sequence == kNoSequence) {
    const int64_t inside_ns = call->end_ns - outer->start_ns;
    return inside_ns > 0 && inside_ns >= (call->end_ns - call->start_ns) / 2;
  }
  if (outer->is_tap) return TapHolds(outer, call);
  if (outer->sequence == call->parent_sequence) return true;
  if (outer->sequence > call->sequence || call->start_ns < outer->start_ns || call->end_ns <= outer->start_ns) {
    return false;
  }
  ++counts_->lost_parents;  // it ran inside `outer`, but names another parent
  return true;
}

bool Nester::TapHolds(OpenCall* tap, OpenCall* call) {
  if (call->end_ns <= tap->start_ns) return false;
  const int64_t duration_ns = call->end_ns - call->start_ns;
  const int64_t late_ns = call->start_ns - tap->start_ns;
  const int64_t overlap_ns = call->end_ns - tap->start_ns;
  const bool is_inside = late_ns >= 0 ? duration_ns >= kTapResolutionNs || late_ns >= kTapResolutionNs
                                      : overlap_ns > kTapResolutionNs && overlap_ns >= duration_ns / 2;
  if (call->is_tap || !is_inside) {
    tap->start_ns = std::min(call->end_ns, tap->first_child_start_ns);
    return false;
  }
  const int64_t floor_ns = open_.size() > 1 ? open_[open_.size() - 2].start_ns : INT64_MIN;
  tap->start_ns = std::max(std::min(tap->start_ns, call->start_ns), floor_ns);
  if (call->parent_sequence != tap->parent_sequence) ++counts_->lost_parents;
  return true;
}

// Shortens `call` to fit into its parent and before the sibling visited last.
void Nester::Fit(OpenCall* call) {
  const int64_t earliest_ns = open_.empty() ? INT64_MIN : open_.back().start_ns;
  const int64_t latest_ns = open_.empty() ? top_start_ns_ : open_.back().first_child_start_ns;
  const int64_t end_ns = std::max(std::min(call->end_ns, latest_ns), earliest_ns);
  const int64_t start_ns = std::min(std::max(call->start_ns, earliest_ns), end_ns);
  const int64_t cut_ns = (call->end_ns - call->start_ns) - (end_ns - start_ns);
  if (cut_ns > kTapResolutionNs) ++counts_->clipped;
  call->start_ns = start_ns;
  call->end_ns = end_ns;
  call->first_child_start_ns = end_ns;
}

void Nester::CloseInnermost() {
  const OpenCall call = open_.back();
  open_.pop_back();
  const uint32_t place = static_cast<uint32_t>(--next_place_);
  for (uint32_t child = call.first_child; child != kNone;) {
    const uint32_t sibling = calls_[child].parent;
    calls_[child].parent = place;
    child = sibling;
  }
  StagedCall& nested = calls_[place];
  nested = {call.start_ns, call.end_ns - call.start_ns, call.sequence, call.op, kNone};
  if (open_.empty()) {
    top_start_ns_ = call.start_ns;
    return;
  }
  OpenCall& parent = open_.back();
  nested.parent = parent.first_child;
  parent.first_child = place;
  parent.first_child_start_ns = call.start_ns;
}

}  // namespace

void NestCalls(const ClockMap& clock, absl::Span<StagedCall> calls, NestingCounts* counts) {
  Nester(clock, calls, counts).Run();
}

}  // namespace dlhook::analyzer::reader
