// The producer's side of a ring (see session.h). The consumer's side is drain/drain.cc.
// Thread: the one that owns the slot. No locks, no system calls; a full ring refuses.
#ifndef DLHOOK_PRELOAD_CORE_RING_H_
#define DLHOOK_PRELOAD_CORE_RING_H_

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
  uint32_t busy;         // between Reserve and Commit: a signal handler's record is refused

  void Start(Slot* new_slot, char* new_data) {
    slot = new_slot;
    data = new_data;
    bytes = slot->bytes.load(std::memory_order_relaxed);
    head = slot->head.load(std::memory_order_relaxed);
    cached_tail = slot->tail.load(std::memory_order_acquire);
    busy = 0;
  }

  // Room for a record of `words` words, or null. Not visible to the drain before Commit.
  RecordHeader* Reserve(uint32_t words) {
    uint64_t wanted = uint64_t{words} * 8;
    uint64_t offset = head & (bytes - 1);
    bool fits = offset + wanted <= bytes && head + wanted - cached_tail <= bytes;
    if (__builtin_expect(!fits || busy != 0, 0)) return nullptr;
    busy = 1;
    return reinterpret_cast<RecordHeader*>(data + offset);
  }

  // The same after a look at the drain's progress, and with a skip over an end of the ring that is too short.
  RecordHeader* ReserveAfterLook(uint32_t words) {
    if (busy != 0 || bytes == 0) return nullptr;
    cached_tail = slot->tail.load(std::memory_order_acquire);
    uint64_t wanted = uint64_t{words} * 8;
    uint64_t offset = head & (bytes - 1);
    uint64_t rest = bytes - offset;
    if (wanted > rest) {
      if (head + rest + wanted - cached_tail > bytes) return nullptr;
      auto pad = reinterpret_cast<RecordHeader*>(data + offset);
      *pad = {static_cast<uint16_t>(rest / 8), RecordType::kPad, 0, 0, 0, 0};
      head += rest;
      slot->head.store(head, std::memory_order_release);
    }
    return Reserve(words);
  }

  void Commit(const RecordHeader* record) {
    head += uint64_t{record->words} * 8;
    slot->head.store(head, std::memory_order_release);
    busy = 0;
  }

  void CountDropped() {
    slot->dropped.store(slot->dropped.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
};

}  // namespace dlhook

#endif  // DLHOOK_PRELOAD_CORE_RING_H_
