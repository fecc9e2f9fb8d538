// Aggregation in the drain.
#include "preload/drain/aggregates.h"

namespace dlhook::inline drain {

void WriteAggregatePacket(const Aggregate& aggregate, const CallSums& sums, Buffer* out) {
  PacketScope scope(out, fields::Packet::kCallAggregate);
  fields::CallAggregate::Write(aggregate, &scope.writer);
  fields::CallAggregate::Write(sums, &scope.writer);
}

AggregateTable::Row* AggregateTable::Find(uint32_t thread_id, uint32_t op_iid) {
  if (memory_.size() == 0) memory_.Resize(sizeof(Row) * kCapacity);  // fresh pages are zero
  Row* rows = reinterpret_cast<Row*>(memory_.data());
  if (rows == nullptr) return nullptr;
  for (uint32_t i = thread_id * 0x9e3779b1u + op_iid;; ++i) {
    Row& row = rows[i & (kCapacity - 1)];
    if (row.op_iid == 0) {
      ++count_;
      row.thread_id = thread_id;
      row.op_iid = op_iid;
    }
    if (row.thread_id == thread_id && row.op_iid == op_iid) return &row;
  }
}

void AggregateTable::Add(uint32_t thread_id, uint32_t op_iid, const CallSums& sums, uint64_t end_ticks) {
  if (count_ == 0) window_start_ticks_ = end_ticks;
  Row* row = Find(thread_id, op_iid);
  if (row == nullptr) return;
  calls_ += sums.count;
  row->sums.Merge(sums);
}

void AggregateTable::Flush(uint64_t window_end_ticks, Buffer* out) {
  Row* rows = reinterpret_cast<Row*>(memory_.data());
  for (uint32_t i = 0; i < kCapacity && count_ > 0; ++i) {
    Row& row = rows[i];
    if (row.op_iid == 0) continue;
    WriteAggregatePacket({row.thread_id, row.op_iid, window_start_ticks_, window_end_ticks, TotalsCause::kTraceLimit},
                         row.sums, out);
    row = {};
    --count_;
  }
  calls_ = 0;
}

void AggregateTable::Drop() {
  if (memory_.size() > 0) memset(memory_.data(), 0, memory_.size());
  count_ = 0;
  calls_ = 0;
}

}  // namespace dlhook::inline drain
