// Buffers that CUPTI fills with activities: a bounded pool of pages of our own, and the queue of those that are full.
// Thread: any; CUPTI's callbacks run on application threads, on its own and on ours. Holds a lock for a few
// instructions, under which nothing is called.
#ifndef DLHOOK_PRELOAD_GPU_ACTIVITY_BUFFERS_H_
#define DLHOOK_PRELOAD_GPU_ACTIVITY_BUFFERS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/base/spin_lock.h"

namespace dlhook::inline gpu {

constexpr uint32_t kMostActivityBuffers = 2048;

// Sizes for `total` bytes in all.
constexpr uint64_t ActivityBufferBytes(uint64_t total) {
  constexpr uint64_t kLeast = 256 << 10;
  constexpr uint64_t kMost = 8 << 20;
  uint64_t bytes = total / 32 / 4096 * 4096;
  return bytes < kLeast ? kLeast : bytes > kMost ? kMost : bytes;
}

// CUPTI keeps a buffer back that holds one incomplete record. So the first few that it gets take few records: as many as
// come in a part of a second, or as these are under way already. They do not count for the total.
enum class BufferKind : uint32_t { kWhole, kFewRecords, kScratch };
constexpr uint32_t kBufferKinds = 3;
constexpr size_t kFewRecordsBytes = 256 << 10;
constexpr uint32_t kFewRecordsBuffers = 32;
constexpr size_t kScratchBytes = 16 << 10;

struct ActivityBuffer {
  uint8_t* data;
  size_t valid;   // bytes that CUPTI has filled
  uint32_t next;  // in its list, + 1; 0: the last one
  BufferKind kind;
};

// All zero: no buffer yet. Buffers stay mapped: CUPTI may still write into one after it was stopped.
struct ActivityBuffers {
  SpinLock lock;
  uint32_t made;  // places that have pages, or once were to
  uint32_t made_of_kind[kBufferKinds];
  uint32_t free_first[kBufferKinds];
  uint32_t full_first;
  uint32_t full_last;
  std::atomic<uint32_t> at_cupti;  // handed out and not back; no scratch pages
  std::atomic<uint32_t> with_few;  // of few records, not free
  std::atomic<uint32_t> filled;    // that came back with something since AdaptRecords
  std::atomic<uint32_t> records;   // that the first one of few takes; 0: the least
  ActivityBuffer buffers[kMostActivityBuffers];
};

// What CUPTI is given: empty, all zero.
struct BufferGift {
  uint8_t* data;  // null: `total` bytes are in use
  size_t bytes;
  size_t most_records;  // 0: as many as fit
};
BufferGift TakeActivityBuffer(ActivityBuffers* pool, uint64_t total);
// For requests that may not be refused: a page that no other request has; what is written there is lost.
BufferGift TakeScratch(ActivityBuffers* pool);

// To be called every second: from how many came back, how many records the next ones take.
void AdaptRecords(ActivityBuffers* pool);

// True: it was a scratch page, and `count` (of what is in it) has been called.
bool ReturnScratch(ActivityBuffers* pool, uint8_t* data, size_t valid, void (*count)(uint8_t* data, size_t valid));

// CUPTI is done with it. True: it holds something and is in the queue now.
bool QueueActivityBuffer(ActivityBuffers* pool, uint8_t* data, size_t valid);

// The buffer that was queued first; null: none. Its owner gives it back, with what was filled zeroed.
ActivityBuffer* NextFullBuffer(ActivityBuffers* pool);
bool HasFullBuffer(ActivityBuffers* pool);
void ReturnActivityBuffer(ActivityBuffers* pool, ActivityBuffer* buffer);

}  // namespace dlhook::inline gpu

#endif  // DLHOOK_PRELOAD_GPU_ACTIVITY_BUFFERS_H_
