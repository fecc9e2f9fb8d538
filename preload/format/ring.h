// The producer's side of a ring (see session.h). The consumer's side is drain/drain.cc.
// Thread: the one that owns the slot. No locks, no system calls; a full ring refuses records (more room:
// full_ring.h).
#pragma once

#include "preload/base/frame_mark.h"
#include "preload/format/record.h"
#include "preload/format/session.h"

namespace dlhook::inline format {

struct RingProducer {
  Slot* slot;
  char* data;          // in the slot's own memory, or in the current chunk
  uint64_t bytes;      // power of two; 0 in wiped state: every reservation is refused
  uint64_t head;       // next free byte, as committed
  uint64_t start;      // where the chunk begins; 0: in the slot's own memory
  uint64_t room_end;   // space for calls up to here, as far as known
  bool refuses_calls;  // calls are kept as totals (full_ring.h); every commit goes to CommitNoticed (thread_state.h)
  // Between Reserve and Commit the place of the reserver's mark, else 0: the record of a signal handler that interrupts it
  // is refused. Set first of all, or a handler could be given the same place.
  uintptr_t busy;
  static constexpr uintptr_t kWithoutMark = 1;

  void Start(Slot* new_slot, char* new_data) {
    slot = new_slot;
    head = slot->head.load(std::memory_order_relaxed);
    busy = 0;
    RefuseCalls(false);
    MoveTo(new_data, slot->bytes.load(std::memory_order_relaxed), 0);
  }

  // Directs records there from now on. `new_start`: the head for a chunk, else 0.
  void MoveTo(char* new_data, uint64_t new_bytes, uint64_t new_start) {
    data = new_data;
    bytes = new_bytes;
    start = new_start;
    room_end = refuses_calls ? 0 : RoomEnd() - Kept();
  }

  // From now on only ReserveAfterLook finds space, and every commit is noticed. While `busy`: the record that a caller
  // has reserved must be committed the way it was reserved.
  void RefuseCalls(bool refuses) {
    refuses_calls = refuses;
    room_end = 0;  // as far as known
  }

  // Not yet taken by the drain.
  uint64_t Backlog() const { return head - slot->tail.load(std::memory_order_acquire); }

  // Reserves a record of `words` words; null if there is no room. Not visible to the drain before Commit. `mark`: in the
  // committing stack frame; without one the reservation is never considered abandoned.
  RecordHeader* Reserve(uint32_t words, FrameMark* mark = nullptr) {
    if (__builtin_expect(busy != 0, 0)) return nullptr;
    Take(mark);
    RecordHeader* record = Place(words, room_end);
    if (__builtin_expect(record == nullptr, 0)) Release();
    return record;
  }

  // The same after checking the drain's progress, skipping the end of the ring if it is too short. `may_use_kept`: not
  // a call.
  RecordHeader* ReserveAfterLook(uint32_t words, FrameMark* mark = nullptr, bool may_use_kept = false) {
    if (busy != 0 || bytes == 0) return nullptr;
    Take(mark);
    uint64_t end = RoomEnd() - (may_use_kept ? 0 : Kept());
    room_end = refuses_calls ? 0 : RoomEnd() - Kept();
    SkipShortEnd(uint64_t{words} * 8, end);
    RecordHeader* record = Place(words, end);
    if (record == nullptr) Release();
    return record;
  }

  void Commit(const RecordHeader* record) {
    Publish(record);
    Release();
  }

  void Publish(const RecordHeader* record) {
    head += uint64_t{record->words} * 8;
    slot->head.store(head, std::memory_order_release);
  }

  // A single instruction, because a signal handler may drop a record, too.
  void CountDropped() { slot->dropped.fetch_add(1, std::memory_order_relaxed); }

  void Take(FrameMark* mark) {
    uintptr_t place = mark == nullptr ? kWithoutMark : mark->Set();
    std::atomic_signal_fence(std::memory_order_seq_cst);
    busy = place;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }

  // Whether the reserver goes on later. Asked by the owner of `mark`, null: none.
  bool IsInUse(const FrameMark* mark) const {
    return busy != 0 && (busy == kWithoutMark || mark == nullptr || mark->SeesWorkAt(busy));
  }

  void Release() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    busy = 0;
  }

 private:
  uint64_t RoomEnd() const {
    uint64_t tail = slot->tail.load(std::memory_order_acquire);
    return (tail < start ? start : tail) + bytes;
  }

  // Space reserved for records about calls: scopes, ends of threads.
  uint64_t Kept() const { return bytes / 8; }

  RecordHeader* Place(uint32_t words, uint64_t end) const {
    uint64_t wanted = uint64_t{words} * 8;
    uint64_t offset = head & (bytes - 1);
    bool fits = offset + wanted <= bytes && head + wanted <= end;
    return __builtin_expect(fits, 1) ? reinterpret_cast<RecordHeader*>(data + offset) : nullptr;
  }

  void SkipShortEnd(uint64_t wanted, uint64_t end) {
    uint64_t offset = head & (bytes - 1);
    uint64_t rest = bytes - offset;
    if (wanted <= rest || head + rest + wanted > end) return;
    auto pad = reinterpret_cast<RecordHeader*>(data + offset);
    *pad = {static_cast<uint16_t>(rest / 8), RecordType::kPad, 0, 0, 0, 0};
    head += rest;
    slot->head.store(head, std::memory_order_release);
  }
};

}  // namespace dlhook::inline format
