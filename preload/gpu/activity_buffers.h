// Buffers that CUPTI fills with activities: a bounded pool of pages of our own, and the queue of those that are full.
// Thread: any; CUPTI's callbacks run on application threads, on its own and on ours. Holds a lock for a few
// instructions, under which nothing is called.
#ifndef DLHOOK_PRELOAD_GPU_ACTIVITY_BUFFERS_H_
#define DLHOOK_PRELOAD_GPU_ACTIVITY_BUFFERS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/core/spin_lock.h"

namespace dlhook {

constexpr uint32_t kMostActivityBuffers = 2048;

// Sizes for `total` bytes in all.
constexpr uint64_t ActivityBufferBytes(uint64_t total) {
  constexpr uint64_t kLeast = 256 << 10;
  constexpr uint64_t kMost = 8 << 20;
  uint64_t bytes = total / 32 / 4096 * 4096;
  return bytes < kLeast ? kLeast : bytes > kMost ? kMost : bytes;
}

struct ActivityBuffer {
  uint8_t* data;
  size_t valid;  // bytes that CUPTI has filled
  uint32_t next;  // in its list, + 1; 0: the last one
};

// All zero: no buffer yet. Buffers stay mapped: CUPTI may still write into one after it was stopped.
struct ActivityBuffers {
  SpinLock lock;
  uint32_t made;  // buffers that have pages, or once were to
  uint32_t free_first;
  uint32_t full_first;
  uint32_t full_last;
  std::atomic<uint32_t> at_cupti;  // handed out and not back
  ActivityBuffer buffers[kMostActivityBuffers];
};

// An empty buffer, all zero; null where `total` bytes are in use.
uint8_t* TakeActivityBuffer(ActivityBuffers* pool, uint64_t total);

// CUPTI is done with it. True: it holds something and is in the queue now.
bool QueueActivityBuffer(ActivityBuffers* pool, uint8_t* data, size_t valid);

// The buffer that was queued first; null: none. Its owner gives it back, with what was filled zeroed.
ActivityBuffer* NextFullBuffer(ActivityBuffers* pool);
bool HasFullBuffer(ActivityBuffers* pool);
void ReturnActivityBuffer(ActivityBuffers* pool, ActivityBuffer* buffer);

}  // namespace dlhook

#endif  // DLHOOK_PRELOAD_GPU_ACTIVITY_BUFFERS_H_
