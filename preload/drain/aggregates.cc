// Aggregation in the drain.
#include "preload/drain/aggregates.h"

namespace dlhook {
namespace {

void WriteHistogram(PacketWriter* writer, const uint64_t (&histogram)[65]) {
  uint32_t used = 65;
  while (used > 0 && histogram[used - 1] == 0) --used;
  Buffer column;
  for (uint32_t i = 0; i < used; ++i) column.AppendVarint(histogram[i]);
  writer->Packed(10, column);
}

}  // namespace

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
      row.min = UINT64_MAX;
    }
    if (row.thread_id == thread_id && row.op_iid == op_iid) return &row;
  }
}

void AggregateTable::Add(uint32_t thread_id, uint32_t op_iid, uint64_t duration, bool nested,
                         uint64_t end_ticks) {
  if (count_ == 0) window_start_ticks_ = end_ticks;
  Row* row = Find(thread_id, op_iid);
  if (row == nullptr) return;
  ++calls_;
  ++row->count;
  row->sum += duration;
  if (duration < row->min) row->min = duration;
  if (duration > row->max) row->max = duration;
  if (nested) {
    ++row->nested_count;
    row->nested_sum += duration;
  }
  ++row->histogram[duration == 0 ? 0 : 64 - __builtin_clzll(duration)];
}

void AggregateTable::Flush(uint64_t window_end_ticks, Buffer* out) {
  Row* rows = reinterpret_cast<Row*>(memory_.data());
  PacketWriter writer(out);
  for (uint32_t i = 0; i < kCapacity && count_ > 0; ++i) {
    Row& row = rows[i];
    if (row.op_iid == 0) continue;
    size_t packet = writer.Begin(1);
    size_t aggregate = writer.Begin(4);  // Packet.call_aggregate
    writer.UInt(1, row.thread_id);
    writer.UInt(2, row.op_iid);
    writer.UInt(4, window_start_ticks_);
    writer.UInt(5, window_end_ticks);
    writer.UInt(6, row.count);
    writer.UInt(7, row.sum);
    writer.UInt(8, row.min);
    writer.UInt(9, row.max);
    WriteHistogram(&writer, row.histogram);
    writer.UInt(11, row.nested_count);
    writer.UInt(12, row.nested_sum);
    writer.End(aggregate);
    writer.End(packet);
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

}  // namespace dlhook
