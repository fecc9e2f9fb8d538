// The stack of a thread's last capture. The next one usually differs only at its inner end: if a frame's state and
// every word read from there outwards are unchanged, so is the rest of the stack, because a walk depends on nothing
// else.
// Thread: the one whose stack it is; in memory that is initially zero.
#pragma once

#include "preload/unwind/stack_walk.h"

namespace dlhook::inline unwind {

class LastStack {
 public:
  void Forget() { frame_count_ = 0; }

  // Compares the words. `stack_pointer`: nothing below it is read; the stored words are in the thread's own stack.
  void Verify(uint64_t stack_pointer) {
    uint32_t words = frame_count_ == 0 ? 0 : frames_[frame_count_ - 1].words;
    uint32_t i = 0;
    while (i < words && words_[i].place >= stack_pointer &&
           *reinterpret_cast<const uint64_t*>(words_[i].place) == words_[i].value) {
      ++i;
    }
    valid_words_ = i;
    candidate_ = frame_count_;
  }

  // After Verify, for states from the inside outwards: is this one unchanged, and all outside of it?
  bool Knows(const FrameState& state) {
    while (candidate_ > 0 &&
           (frames_[candidate_ - 1].state.sp < state.sp || frames_[candidate_ - 1].words > valid_words_)) {
      --candidate_;
    }
    if (candidate_ == 0) return false;
    const Frame& frame = frames_[candidate_ - 1];
    return frame.state.sp == state.sp && frame.state.address == state.address &&
           (!frame.needs_bp || frame.state.bp == state.bp) && frame.state.is_interrupted == state.is_interrupted;
  }

  // After Knows returned true: the number of frames from that one outwards, and its node.
  uint32_t joined_count() const { return candidate_; }
  uint32_t joined_node() const { return frames_[candidate_ - 1].node; }

  // Keeps the joined frames (those of Knows; `joined` false: none); Push then adds further ones, outer ones first.
  void Cut(bool joined) { frame_count_ = joined ? candidate_ : 0; }
  void Push(const WalkedFrame& walked, const FrameState& outside, bool is_end, uint32_t node) {
    const Frame* outer = frame_count_ == 0 ? nullptr : &frames_[frame_count_ - 1];
    uint32_t words = outer == nullptr ? 0 : outer->words;
    bool outer_needs_bp = !is_end && outer != nullptr && outer->needs_bp;
    if (walked.return_place != 0) words_[words++] = {walked.return_place, outside.address};
    if (walked.cfa_place != 0) words_[words++] = {walked.cfa_place, outside.sp};
    if (walked.bp_place != 0 && outer_needs_bp) words_[words++] = {walked.bp_place, outside.bp};
    bool needs_bp = walked.needs_bp || (walked.keeps_bp && outer_needs_bp);
    frames_[frame_count_++] = {walked.state, needs_bp, node, words};
  }

 private:
  struct Frame {
    FrameState state;
    bool needs_bp;  // what is outside depends on rbp
    uint32_t node;
    uint32_t words;  // from here outwards: words_[0] to words_[words - 1]
  };
  struct Word {
    uint64_t place;
    uint64_t value;
  };

  uint32_t frame_count_;
  uint32_t valid_words_;
  uint32_t candidate_;              // frames that may still be joined
  Frame frames_[kMaxNativeFrames];  // the outermost first
  Word words_[3 * kMaxNativeFrames];
};

}  // namespace dlhook::inline unwind
