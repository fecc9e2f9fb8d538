// Buffers that CUPTI fills with activities: a bounded pool of our own pages, and the queue of full buffers.
// Thread: any; CUPTI's callbacks run on application threads, on its own and on ours. Holds a lock for a few
// instructions, during which nothing is called.
#pragma once

#include <algorithm>

#include "preload/abi/cupti_abi.h"
#include "preload/base/spin_lock.h"
#include "preload/format/gpu_records.h"
#include "preload/format/record.h"

namespace dlhook::inline gpu {

constexpr uint32_t kMostActivityBuffers = 2048;

// Sizes for a total of `total` bytes.
constexpr uint64_t ActivityBufferBytes(uint64_t total) {
  constexpr uint64_t kLeast = 256 << 10;
  constexpr uint64_t kMost = 8 << 20;
  return std::clamp(total / 32 / 4096 * 4096, kLeast, kMost);
}

// CUPTI does not return a buffer that contains an incomplete record. So its first few buffers take few records,
// depending on how many complete per second and how many are in use. They do not count towards the total.
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

// All zero: no buffer yet. Buffers stay mapped, because CUPTI may still write into one after it was stopped.
struct ActivityBuffers {
  SpinLock lock;
  uint32_t made;  // buffers with pages, or being allocated
  uint32_t made_of_kind[kBufferKinds];
  uint32_t free_first[kBufferKinds];
  uint32_t full_first;
  uint32_t full_last;
  std::atomic<uint32_t> at_cupti;  // handed out and not returned, without scratch pages
  std::atomic<uint32_t> with_few;  // few-record buffers in use
  std::atomic<uint32_t> filled;    // returned non-empty since AdaptRecords
  std::atomic<uint32_t> records;   // for the first few-record buffer; 0: the minimum
  ActivityBuffer buffers[kMostActivityBuffers];
};

// A buffer for CUPTI: empty, all zero.
struct BufferGift {
  uint8_t* data;  // null: `total` bytes are in use
  size_t bytes;
  size_t most_records;  // 0: as many as fit
};
BufferGift TakeActivityBuffer(ActivityBuffers* pool, uint64_t total);
// For requests that must not be refused: a page that no other request has, whose contents are lost.
BufferGift TakeScratch(ActivityBuffers* pool);

// Call every second: adapts the size of few-record buffers to the number returned.
void AdaptRecords(ActivityBuffers* pool);

// CUPTI has returned it, with `valid` bytes: into the queue, unless it is empty, or a scratch page, whose records are counted.
// False: it is none of the pool's. Needs no lock while CUPTI has it.
using CountRecords = void (*)(uint8_t* data, size_t valid);
bool TakeBackBuffer(ActivityBuffers* pool, uint8_t* data, size_t valid, CountRecords count_lost);

// The oldest queued buffer; null: none. The caller returns it, with the filled part zeroed.
ActivityBuffer* NextFullBuffer(ActivityBuffers* pool);
bool HasFullBuffer(ActivityBuffers* pool);
void ReturnActivityBuffer(ActivityBuffers* pool, ActivityBuffer* buffer);

// The meaning of a CUPTI record, which the pure functions below convert.
enum class ActivityUse : uint32_t {
  kActivity,      // GPU work, or the cost of measuring it
  kWithoutTimes,  // GPU work at an unknown time
  kDevice,        // cupti::DeviceRecord
  kLink,          // cupti::ExternalCorrelationRecord
  kNotNeeded,     // comes with the others
  kUnknown,
};

// `version`: CUPTI's. `kernel_name`: CUPTI's pointer, null if not a kernel. Sets `activity` if it returns kActivity,
// except its `kernel`.
ActivityUse ReadActivity(const void* record, uint32_t version, int64_t clock_offset_ns, GpuActivityRecord* activity,
                         const char** kernel_name);

// Does not set the name, nor fields that the record lacks.
void ReadDevice(const cupti::DeviceRecord& record, uint32_t version, GpuDeviceRecord* device);

}  // namespace dlhook::inline gpu
