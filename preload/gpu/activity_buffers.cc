// See activity_buffers.h.
#include "preload/gpu/activity_buffers.h"
#include "preload/core/own_pages.h"

#include <errno.h>
#include <string.h>

namespace dlhook {
namespace {

// Under the lock.
uint32_t Pop(ActivityBuffers* pool, uint32_t* first) {
  uint32_t number = *first;
  if (number != 0) *first = pool->buffers[number - 1].next;
  return number;
}

uint32_t TakeFreeOrNew(ActivityBuffers* pool, uint32_t most) {
  SpinLockHolder holder(&pool->lock);
  uint32_t number = Pop(pool, &pool->free_first);
  if (number != 0 || pool->made >= most) return number;
  return ++pool->made;
}

void GiveBack(ActivityBuffers* pool, uint32_t number) {
  SpinLockHolder holder(&pool->lock);
  pool->buffers[number - 1].next = pool->free_first;
  pool->free_first = number;
}

// The number of the buffer at `data`, 0: none of ours. Without the lock: a buffer that CUPTI has does not change.
uint32_t NumberOf(const ActivityBuffers* pool, const uint8_t* data) {
  for (uint32_t i = 0; i < pool->made; ++i) {
    if (pool->buffers[i].data == data) return i + 1;
  }
  return 0;
}

}  // namespace

uint8_t* TakeActivityBuffer(ActivityBuffers* pool, uint64_t total) {
  uint64_t bytes = ActivityBufferBytes(total);
  uint64_t most = total / bytes < kMostActivityBuffers ? total / bytes : kMostActivityBuffers;
  uint32_t number = TakeFreeOrNew(pool, static_cast<uint32_t>(most));
  if (number == 0) return nullptr;
  ActivityBuffer* buffer = &pool->buffers[number - 1];
  if (buffer->data == nullptr) {
    int saved_errno = errno;
    void* pages = MapOwnPages(bytes);
    errno = saved_errno;
    if (pages == nullptr) {
      GiveBack(pool, number);
      return nullptr;
    }
    buffer->data = static_cast<uint8_t*>(pages);
  }
  pool->at_cupti.fetch_add(1, std::memory_order_relaxed);
  return buffer->data;
}

bool QueueActivityBuffer(ActivityBuffers* pool, uint8_t* data, size_t valid) {
  uint32_t number = data == nullptr ? 0 : NumberOf(pool, data);
  if (number == 0) return false;
  pool->at_cupti.fetch_sub(1, std::memory_order_relaxed);
  ActivityBuffer* buffer = &pool->buffers[number - 1];
  buffer->valid = valid;
  if (valid == 0) {
    GiveBack(pool, number);
    return false;
  }
  buffer->next = 0;
  SpinLockHolder holder(&pool->lock);
  if (pool->full_first == 0) {
    pool->full_first = number;
  } else {
    pool->buffers[pool->full_last - 1].next = number;
  }
  pool->full_last = number;
  return true;
}

bool HasFullBuffer(ActivityBuffers* pool) {
  SpinLockHolder holder(&pool->lock);
  return pool->full_first != 0;
}

ActivityBuffer* NextFullBuffer(ActivityBuffers* pool) {
  SpinLockHolder holder(&pool->lock);
  uint32_t number = Pop(pool, &pool->full_first);
  return number == 0 ? nullptr : &pool->buffers[number - 1];
}

void ReturnActivityBuffer(ActivityBuffers* pool, ActivityBuffer* buffer) {
  memset(buffer->data, 0, buffer->valid);
  GiveBack(pool, static_cast<uint32_t>(buffer - pool->buffers) + 1);
}

}  // namespace dlhook
