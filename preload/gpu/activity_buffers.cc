#include "preload/gpu/activity_buffers.h"

#include <string.h>

#include "preload/base/own_pages.h"

namespace dlhook::inline gpu {
namespace {

constexpr uint32_t kFewestRecords = 16;
constexpr uint32_t kRecordsOfWhole = 1024;  // buffers of more records count as whole
constexpr uint32_t kManyBuffers = 8;        // per second

// Under the lock.
uint32_t Pop(ActivityBuffers* pool, uint32_t* first) {
  uint32_t number = *first;
  if (number != 0) *first = pool->buffers[number - 1].next;
  return number;
}

// 0: `most` of this kind are in use.
uint32_t TakeFreeOrNew(ActivityBuffers* pool, BufferKind kind, uint64_t most) {
  auto index = static_cast<uint32_t>(kind);
  SpinLockHolder holder(&pool->lock);
  uint32_t number = Pop(pool, &pool->free_first[index]);
  if (number != 0 || pool->made_of_kind[index] >= most || pool->made == kMostActivityBuffers) return number;
  ++pool->made_of_kind[index];
  pool->buffers[pool->made].kind = kind;
  return ++pool->made;
}

void GiveBack(ActivityBuffers* pool, uint32_t number) {
  ActivityBuffer* buffer = &pool->buffers[number - 1];
  if (buffer->kind == BufferKind::kFewRecords) pool->with_few.fetch_sub(1, std::memory_order_relaxed);
  SpinLockHolder holder(&pool->lock);
  uint32_t* first = &pool->free_first[static_cast<uint32_t>(buffer->kind)];
  buffer->next = *first;
  *first = number;
}

// Its pages; null: none available.
uint8_t* Take(ActivityBuffers* pool, BufferKind kind, uint64_t most, size_t bytes) {
  uint32_t number = TakeFreeOrNew(pool, kind, most);
  if (number == 0) return nullptr;
  if (kind == BufferKind::kFewRecords) pool->with_few.fetch_add(1, std::memory_order_relaxed);
  ActivityBuffer* buffer = &pool->buffers[number - 1];
  if (buffer->data == nullptr) {
    int saved_errno = errno;
    buffer->data = static_cast<uint8_t*>(MapOwnPages(bytes));
    errno = saved_errno;
  }
  if (buffer->data == nullptr) GiveBack(pool, number);
  return buffer->data;
}

// The number of the buffer at `data`, 0: none of the pool's. Needs no lock: a buffer that CUPTI has does not change.
uint32_t NumberOf(const ActivityBuffers* pool, const uint8_t* data) {
  for (uint32_t i = 0; data != nullptr && i < pool->made; ++i) {
    if (pool->buffers[i].data == data) return i + 1;
  }
  return 0;
}

bool IsScratch(const ActivityBuffers& pool, uint32_t number) {
  return number != 0 && pool.buffers[number - 1].kind == BufferKind::kScratch;
}

// The number of records it may take: four times as many for each quarter of the buffers in use.
size_t FewRecords(const ActivityBuffers& pool) {
  uint32_t records = pool.records.load(std::memory_order_relaxed);
  uint32_t quarter = pool.with_few.load(std::memory_order_relaxed) * 4 / kFewRecordsBuffers;
  size_t few = size_t{records < kFewestRecords ? kFewestRecords : records} << (2 * quarter);
  return few < kRecordsOfWhole ? few : kRecordsOfWhole;
}

}  // namespace

BufferGift TakeActivityBuffer(ActivityBuffers* pool, uint64_t total) {
  BufferGift gift = {nullptr, kFewRecordsBytes, FewRecords(*pool)};
  if (pool->records.load(std::memory_order_relaxed) < kRecordsOfWhole) {
    gift.data = Take(pool, BufferKind::kFewRecords, kFewRecordsBuffers, gift.bytes);
  }
  if (gift.data == nullptr) {
    gift = {nullptr, ActivityBufferBytes(total), 0};
    uint64_t most = total / gift.bytes < kMostActivityBuffers / 2 ? total / gift.bytes : kMostActivityBuffers / 2;
    gift.data = Take(pool, BufferKind::kWhole, most, gift.bytes);
  }
  if (gift.data != nullptr) pool->at_cupti.fetch_add(1, std::memory_order_relaxed);
  return gift;
}

BufferGift TakeScratch(ActivityBuffers* pool) {
  return {Take(pool, BufferKind::kScratch, kMostActivityBuffers, kScratchBytes), kScratchBytes, 0};
}

bool IsOfPool(const ActivityBuffers& pool, const uint8_t* data) { return NumberOf(&pool, data) != 0; }

void AdaptRecords(ActivityBuffers* pool) {
  uint32_t filled = pool->filled.exchange(0, std::memory_order_relaxed);
  uint32_t records = pool->records.load(std::memory_order_relaxed);
  if (records < kFewestRecords) records = kFewestRecords;
  if (filled > kManyBuffers && records < kRecordsOfWhole) records *= 4;
  if (filled == 0 && pool->at_cupti.load(std::memory_order_relaxed) != 0) records /= 4;
  pool->records.store(records, std::memory_order_relaxed);
}

bool ReturnScratch(ActivityBuffers* pool, uint8_t* data, size_t valid, void (*count)(uint8_t* data, size_t valid)) {
  uint32_t number = NumberOf(pool, data);
  if (!IsScratch(*pool, number)) return false;
  count(data, valid);
  memset(data, 0, valid);
  GiveBack(pool, number);
  return true;
}

bool QueueActivityBuffer(ActivityBuffers* pool, uint8_t* data, size_t valid) {
  uint32_t number = NumberOf(pool, data);
  if (number == 0 || IsScratch(*pool, number)) return false;
  pool->at_cupti.fetch_sub(1, std::memory_order_relaxed);
  ActivityBuffer* buffer = &pool->buffers[number - 1];
  buffer->valid = valid;
  if (valid == 0) {
    GiveBack(pool, number);
    return false;
  }
  buffer->next = 0;
  pool->filled.fetch_add(1, std::memory_order_relaxed);
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

}  // namespace dlhook::inline gpu
