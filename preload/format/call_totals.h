// Totals of many calls of one op, and the tables in which a thread keeps them while its ring accepts no calls
// (runtime/full_ring.h). A table fills a chunk of the session's mapping, where a drain finds it after the process was
// killed.
// Thread: written by the slot's thread. No locks: an unfinished change left by a kill is detectable
// (TotalsTable::changed).
#ifndef DLHOOK_PRELOAD_FORMAT_CALL_TOTALS_H_
#define DLHOOK_PRELOAD_FORMAT_CALL_TOTALS_H_

#include <atomic>
#include <cstdint>

#include "preload/format/record.h"
#include "preload/format/session.h"

namespace dlhook::inline format {

// Durations, in the unit of the op's time source.
struct CallSums {
  uint64_t count, sum, min, max, nested_count, nested_sum;

  void Add(uint64_t duration, bool is_nested) {
    if (count == 0 || duration < min) min = duration;
    if (duration > max) max = duration;
    ++count;
    sum += duration;
    nested_count += is_nested;
    nested_sum += is_nested ? duration : 0;
  }
};

struct CallTotals {
  static constexpr uint32_t kBuckets = 65;
  CallSums sums;
  uint64_t histogram[kBuckets];  // trace::CallAggregate

  static uint32_t Bucket(uint64_t duration) {
    return duration == 0 ? 0 : 64 - static_cast<uint32_t>(__builtin_clzll(duration));
  }
  void Add(uint64_t duration, bool is_nested) {
    sums.Add(duration, is_nested);
    ++histogram[Bucket(duration)];
  }
  void Merge(const CallTotals& other) {
    sums.min = sums.count == 0 || other.sums.min < sums.min ? other.sums.min : sums.min;
    sums.max = other.sums.max > sums.max ? other.sums.max : sums.max;
    sums.count += other.sums.count;
    sums.sum += other.sums.sum;
    sums.nested_count += other.sums.nested_count;
    sums.nested_sum += other.sums.nested_sum;
    for (uint32_t i = 0; i < kBuckets; ++i) histogram[i] += other.histogram[i];
  }
};

// RecordType::kCallTotals. Followed by the first of the calls, without operand addresses, which identifies the op.
struct CallTotalsRecord {
  RecordHeader header;
  uint32_t thread_id;
  uint32_t reserved;
  uint64_t start_ticks;
  uint64_t end_ticks;
  CallTotals totals;
};
constexpr size_t kMostTotalsBytes = sizeof(CallTotalsRecord) + kMaxRecordBytes;

struct TotalsEntry {
  uint64_t handed_over;  // the ring's head after this was written into it; 0: not tried since the last call
  CallTotalsRecord record;
};

struct TotalsTable {
  static constexpr uint32_t kPlaces = 512;

  std::atomic<uint32_t> used;     // bytes from the start of the table to the end of the entries
  std::atomic<uint32_t> changed;  // offset of the entry being changed; `before` (next) has its previous value. 0: none
  CallSums sums_before;
  uint64_t end_ticks_before;
  uint64_t bucket;
  uint64_t bucket_before;
  uint16_t places[kPlaces];  // by hash: offset of the entry / 8; 0: free
};
static_assert(sizeof(TotalsTable) % 8 == 0);

// At the end of a table: a call that has ended and has not been added yet.
constexpr uint64_t kStagingBytes = kMaxRecordBytes;

// In Chunk.owner, in addition to slot + 1: the chunk holds a table.
constexpr uint32_t kTotalsOwner = 1u << 16;

// Reverts an unfinished change.
inline void UndoChange(const TotalsTable& table, CallTotalsRecord* record) {
  record->totals.sums = table.sums_before;
  record->end_ticks = table.end_ticks_before;
  if (table.bucket < CallTotals::kBuckets) record->totals.histogram[table.bucket] = table.bucket_before;
}

}  // namespace dlhook::inline format

#endif  // DLHOOK_PRELOAD_FORMAT_CALL_TOTALS_H_
