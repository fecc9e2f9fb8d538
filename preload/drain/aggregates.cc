// Aggregation in the drain.
#include "preload/drain/aggregates.h"

#include "preload/drain/drain.h"

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

// Calls that their threads kept as totals (format/call_totals.h), in the drain. Trusts nothing in the mapping:
// everything is copied before it is read.

// From a ring: its size has been checked.
void Drain::Take(uint32_t, const CallTotalsRecord* record) {
  alignas(8) char copy[kMostTotalsBytes];
  size_t bytes = uint64_t{record->header.words} * 8;
  if (bytes < sizeof *record + sizeof(RecordHeader) || bytes > sizeof copy) return;
  memcpy(copy, record, bytes);
  auto totals = reinterpret_cast<const CallTotalsRecord*>(copy);
  auto first = reinterpret_cast<const RecordHeader*>(totals + 1);
  size_t room = bytes - sizeof *totals;
  if (totals->sums.count == 0) return;
  if (IsCall(first->type)) {
    bool fits = sizeof(CallRecord) + 8u * first->shape_words <= room;
    if (fits) AddTotals(OpAt(totals->end_ticks, *reinterpret_cast<const CallRecord*>(first)), *totals);
    return;
  }
  auto line = reinterpret_cast<const TapLineRecord*>(first);
  if (first->type != RecordType::kTapLine || room < sizeof *line || line->text_bytes > room - sizeof *line) return;
  if (line->source >= kMaxTapSources) return;
  TapLine parsed = ParseTapLine(reinterpret_cast<const char*>(line + 1), line->text_bytes, nullptr);
  if (parsed.is_call) AddTotals(TapOpAt(totals->end_ticks, *line, parsed), *totals);
}

void Drain::AddTotals(uint32_t op, const CallTotalsRecord& record) {
  const CallSums& sums = record.sums;
  state_.calls += sums.count;
  if (record.end_ticks > state_.last_record_ticks) state_.last_record_ticks = record.end_ticks;
  if (!KeepsDetail(record.end_ticks)) {
    if (!KeepsShape(record.end_ticks)) state_.left_out_shapes += sums.count;
    if (aggregates_.full()) FlushAggregates(record.end_ticks, true);
    return aggregates_.Add(record.thread_id, op, sums, record.end_ticks);
  }
  FlushBatch();  // the op's definition
  unwritten_calls_ += sums.count;
  WriteAggregatePacket({record.thread_id, op, record.start_ticks, record.end_ticks, TotalsCause::kRingFull}, sums,
                       &out_);
}

// `head`: of the slot's ring; what was handed over up to there has been taken.
void Drain::TakeTotalsTable(const TotalsTable* table, uint64_t table_bytes, uint64_t head) {
  uint64_t used = table->used.load(std::memory_order_acquire);
  uint64_t changed = table->changed.load(std::memory_order_acquire);
  if (used > table_bytes) return;
  for (uint64_t at = sizeof *table; at + sizeof(TotalsEntry) <= used;) {
    alignas(8) char copy[kMostTotalsBytes + sizeof(uint64_t)];
    auto entry = reinterpret_cast<TotalsEntry*>(copy);
    const char* place = reinterpret_cast<const char*>(table) + at;
    memcpy(copy, place, sizeof *entry);
    uint64_t bytes = sizeof entry->handed_over + uint64_t{entry->record.header.words} * 8;
    if (bytes < sizeof *entry + sizeof(RecordHeader) || bytes > sizeof copy || bytes > used - at) return;
    memcpy(copy + sizeof *entry, place + sizeof *entry, bytes - sizeof *entry);
    if (at == changed) UndoChange(*table, &entry->record);
    bool is_handed_over = entry->handed_over != 0 && entry->handed_over <= head;
    if (!is_handed_over) Take(0, &entry->record);
    at += bytes;
  }
}

void Drain::TakeLeftTotals() {
  if (state_.finished != 0) return;
  uint64_t bytes = __atomic_load_n(&session_->chunk_bytes, __ATOMIC_RELAXED);
  uint64_t offset = __atomic_load_n(&session_->chunks_offset, __ATOMIC_RELAXED);
  if (bytes < sizeof(TotalsTable) || bytes > mapping_bytes_ || offset > mapping_bytes_) return;
  for (uint32_t i = 0; i < kMaxChunks; ++i) {
    uint32_t slot = session_->chunks[i].owner.load(std::memory_order_acquire) - kTotalsOwner - 1;
    if (slot >= kMaxSlots) continue;
    Segment memory = MemoryAt(offset + i * bytes, bytes);
    if (memory.data == nullptr) continue;
    TakeTotalsTable(reinterpret_cast<const TotalsTable*>(memory.data), bytes,
                    session_->slots[slot].head.load(std::memory_order_acquire));
  }
}

}  // namespace dlhook::inline drain
