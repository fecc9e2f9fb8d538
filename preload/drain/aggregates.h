// Totals of calls to be written (trace::CallAggregate): those kept by the recorded threads themselves, and those per
// (thread, op) after DLHOOK_MAX_BYTES is reached.
// Thread: the drain's. Bounded: a full table must be flushed.
#pragma once

#include "preload/format/call_totals.h"
#include "preload/format/packet_writer.h"

namespace dlhook::inline drain {

using TotalsCause = fields::CallAggregate::Cause;

struct Aggregate {
  uint32_t thread_id;
  uint32_t op_iid;
  uint64_t window_start_ticks;
  uint64_t window_end_ticks;
  TotalsCause cause;
};
void WriteAggregatePacket(const Aggregate& aggregate, const CallSums& sums, Buffer* out);

class AggregateTable {
 public:
  static constexpr uint32_t kCapacity = 2048;

  bool full() const { return count_ > kCapacity * 3 / 4; }
  bool empty() const { return count_ == 0; }
  uint32_t rows() const { return count_; }
  uint64_t calls() const { return calls_; }  // represented by the rows

  void Add(uint32_t thread_id, uint32_t op_iid, const CallSums& sums, uint64_t end_ticks);
  // Appends one packet per row and empties the table.
  void Flush(uint64_t window_end_ticks, Buffer* out);
  // Empties the table because its op ids are no longer valid.
  void Drop();

 private:
  struct Row {
    uint32_t thread_id;
    uint32_t op_iid;  // 0: free
    CallSums sums;
  };

  Row* Find(uint32_t thread_id, uint32_t op_iid);

  Buffer memory_;
  uint32_t count_ = 0;  // rows
  uint64_t calls_ = 0;
  uint64_t window_start_ticks_ = 0;
};

}  // namespace dlhook::inline drain
