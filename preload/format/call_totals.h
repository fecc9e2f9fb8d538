// Totals of many calls of one op, and the tables in which a thread keeps them while its ring accepts no calls
// (runtime/full_ring.h). A table fills a chunk of the session's mapping, where a drain finds it after the process was
// killed.
// Thread: written by the slot's thread. No locks: an unfinished change left by a kill is detectable
// (TotalsTable::changed).
#pragma once

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
  void Merge(const CallSums& other) {
    min = count == 0 || other.min < min ? other.min : min;
    max = other.max > max ? other.max : max;
    count += other.count;
    sum += other.sum;
    nested_count += other.nested_count;
    nested_sum += other.nested_sum;
  }
};

// RecordType::kCallTotals. Followed by the first of the calls, without operand addresses, which identifies the op.
struct CallTotalsRecord {
  RecordHeader header;
  uint32_t thread_id;
  uint32_t reserved;
  uint64_t start_ticks;
  uint64_t end_ticks;
  CallSums sums;
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
  uint16_t places[kPlaces];  // by hash: offset of the entry / 8; 0: free
};
static_assert(sizeof(TotalsTable) % 8 == 0);

// At the end of a table: a call that has ended and has not been added yet.
constexpr uint64_t kStagingBytes = kMaxRecordBytes;

// In Chunk.owner, in addition to slot + 1: the chunk holds a table.
constexpr uint32_t kTotalsOwner = 1u << 16;

// Reverts an unfinished change.
inline void UndoChange(const TotalsTable& table, CallTotalsRecord* record) {
  record->sums = table.sums_before;
  record->end_ticks = table.end_ticks_before;
}

}  // namespace dlhook::inline format
