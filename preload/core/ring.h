// The producer's side of a ring (see session.h). The consumer's side is drain/drain.cc.
// Thread: the one that owns the slot. No locks, no system calls; a full ring refuses.
#ifndef DLHOOK_PRELOAD_CORE_RING_H_
#define DLHOOK_PRELOAD_CORE_RING_H_

#include <atomic>
#include <cstdint>

#include "preload/core/record.h"
#include "preload/core/session.h"

namespace dlhook {

struct RingProducer {
  Slot* slot;
  char* data;
  uint64_t bytes;        // power of two; 0 in a wiped state: every reservation is refused
  uint64_t head;         // next free byte, as committed
  uint64_t cached_tail;  // the drain's, as last seen
  // Between Reserve and Commit, an address in the reserver's stack frame, else 0: the record of a signal handler that
  // interrupts it is refused. Taken before anything is looked at, or a handler in between would be given the same
  // place.
  uintptr_t busy;

  void Start(Slot* new_slot, char* new_data) {
    slot = new_slot;
    data = new_data;
    bytes = slot->bytes.load(std::memory_order_relaxed);
    head = slot->head.load(std::memory_order_relaxed);
    cached_tail = slot->tail.load(std::memory_order_acquire);
    busy = 0;
  }

  // Room for a record of `words` words, or null. Not visible to the drain before Commit. `frame`: an address in the
  // stack frame that will commit; without one the place is never taken for left.
  RecordHeader* Reserve(uint32_t words, uintptr_t frame = UINTPTR_MAX) {
    if (__builtin_expect(busy != 0, 0)) return nullptr;
    Take(frame);
    RecordHeader* record = Place(words);
    if (__builtin_expect(record == nullptr, 0)) Release();
    return record;
  }

  // The same after a look at the drain's progress, and with a skip over an end of the ring that is too short.
  RecordHeader* ReserveAfterLook(uint32_t words, uintptr_t frame = UINTPTR_MAX) {
    if (busy != 0 || bytes == 0) return nullptr;
    Take(frame);
    cached_tail = slot->tail.load(std::memory_order_acquire);
    SkipShortEnd(uint64_t{words} * 8);
    RecordHeader* record = Place(words);
    if (record == nullptr) Release();
    return record;
  }

  void Commit(const RecordHeader* record) {
    head += uint64_t{record->words} * 8;
    slot->head.store(head, std::memory_order_release);
    Release();
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
  RecordHeader* Place(uint32_t words) const {
    uint64_t wanted = uint64_t{words} * 8;
    uint64_t offset = head & (bytes - 1);
    bool fits = offset + wanted <= bytes && head + wanted - cached_tail <= bytes;
    return __builtin_expect(fits, 1) ? reinterpret_cast<RecordHeader*>(data + offset) : nullptr;
  }

  void SkipShortEnd(uint64_t wanted) {
    uint64_t offset = head & (bytes - 1);
    uint64_t rest = bytes - offset;
    if (wanted <= rest || head + rest + wanted - cached_tail > bytes) return;
    auto pad = reinterpret_cast<RecordHeader*>(data + offset);
    *pad = {static_cast<uint16_t>(rest / 8), RecordType::kPad, 0, 0, 0, 0};
    head += rest;
    slot->head.store(head, std::memory_order_release);
  }
};

}  // namespace dlhook

#endif  // DLHOOK_PRELOAD_CORE_RING_H_
