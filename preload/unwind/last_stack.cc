#include "preload/unwind/last_stack.h"

namespace dlhook::inline unwind {

void LastStack::Push(const WalkedFrame& walked, const FrameState& outside, bool is_end, uint32_t node) {
  const Frame* outer = frame_count_ == 0 ? nullptr : &frames_[frame_count_ - 1];
  uint32_t words = outer == nullptr ? 0 : outer->words;
  bool outer_needs_bp = !is_end && outer != nullptr && outer->needs_bp;
  if (walked.return_place != 0) words_[words++] = {walked.return_place, outside.address};
  if (walked.cfa_place != 0) words_[words++] = {walked.cfa_place, outside.sp};
  if (walked.bp_place != 0 && outer_needs_bp) words_[words++] = {walked.bp_place, outside.bp};
  bool needs_bp = walked.needs_bp || (walked.keeps_bp && outer_needs_bp);
  frames_[frame_count_++] = {walked.state, needs_bp, node, words};
}

}  // namespace dlhook::inline unwind
