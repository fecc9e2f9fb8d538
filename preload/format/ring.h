// The producer's side of a ring (see session.h). The consumer's side is drain/drain.cc.
// Thread: the one that owns the slot. No locks, no system calls; a full ring refuses (more room: ring_growth.h).
#ifndef DLHOOK_PRELOAD_FORMAT_RING_H_
#define DLHOOK_PRELOAD_FORMAT_RING_H_

#include <atomic>
#include <cstdint>

#include "preload/format/record.h"
#include "preload/format/session.h"

namespace dlhook::inline format {

struct RingProducer {
  Slot* slot;
  char* data;          // of the slot's own memory, or of the chunk that is written now
  uint64_t bytes;      // power of two; 0 in a wiped state: every reservation is refused
  uint64_t head;       // next free byte, as committed
  uint64_t start;      // where the chunk begins; 0: in the slot's own memory
  uint64_t room_end;   // up to here there is room for calls, as far as known
  uint64_t notice_at;  // a commit that reaches this position is CommitNoticed's business (thread_state.h)
  bool refuses_calls;  // they are kept as totals (full_ring.h)
  // Between Reserve and Commit, an address in the reserver's stack frame, else 0: the record of a signal handler that
  // interrupts it is refused. Taken before anything is looked at, or a handler in between would be given the same
  // place.
  uintptr_t busy;

  void Start(Slot* new_slot, char* new_data) {
    slot = new_slot;
    head = slot->head.load(std::memory_order_relaxed);
    busy = 0;
    RefuseCalls(false);
    MoveTo(new_data, slot->bytes.load(std::memory_order_relaxed), 0);
  }

  // Records go there from now on. `new_start`: the head where it is a chunk, else 0.
  void MoveTo(char* new_data, uint64_t new_bytes, uint64_t new_start) {
    data = new_data;
    bytes = new_bytes;
    start = new_start;
    room_end = refuses_calls ? 0 : RoomEnd() - Kept();
  }

  // From now on only ReserveAfterLook finds room, and every commit is noticed.
  void RefuseCalls(bool refuses) {
    refuses_calls = refuses;
    notice_at = refuses ? 0 : UINT64_MAX;
    room_end = 0;  // as far as known
  }

  // Not yet taken by the drain.
  uint64_t Backlog() const { return head - slot->tail.load(std::memory_order_acquire); }

  // Room for a record of `words` words, or null. Not visible to the drain before Commit. `frame`: an address in the
  // stack frame that will commit; without one the place is never taken for left.
  RecordHeader* Reserve(uint32_t words, uintptr_t frame = UINTPTR_MAX) {
    if (__builtin_expect(busy != 0, 0)) return nullptr;
    Take(frame);
    RecordHeader* record = Place(words, room_end);
    if (__builtin_expect(record == nullptr, 0)) Release();
    return record;
  }

  // The same after a look at the drain's progress, and with a skip over an end of the ring that is too short. `may_use_kept`:
  // no call.
  RecordHeader* ReserveAfterLook(uint32_t words, uintptr_t frame = UINTPTR_MAX, bool may_use_kept = false) {
    if (busy != 0 || bytes == 0) return nullptr;
    Take(frame);
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

  // In one instruction: a handler may drop one, too.
  void CountDropped() { slot->dropped.fetch_add(1, std::memory_order_relaxed); }

  void Take(uintptr_t frame) {
    busy = frame;
    std::atomic_signal_fence(std::memory_order_seq_cst);
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

  // Room that calls leave to what is told of them: scopes, ends of threads.
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

#endif  // DLHOOK_PRELOAD_FORMAT_RING_H_
