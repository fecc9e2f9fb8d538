// A message of columns while it is filled: the batches of proto/call.proto. Columns and the other fields go by their numbers.
// Thread: the drain's.
#pragma once

#include <bit>

#include "preload/format/packet_writer.h"

namespace dlhook::inline drain {

// `kPacket`: the message's field in Packet. `kRepeated`: a bit for each column (fields::…::kRepeated). `kMostOfRow`: elements
// that a row adds to one column.
template <uint32_t kPacket, uint32_t kRepeated, uint32_t kMaxRows, uint32_t kMostOfRow = 1>
class Columns {
 public:
  uint32_t rows() const { return rows_; }
  bool full() const { return rows_ == kMaxRows; }

  // Empties all of it. Reserves memory for all rows, so that adding need not check; false if out of memory.
  bool Start() {
    rows_ = 0;
    for (uint32_t field = 0; field < kEnd; ++field) {
      numbers_[field] = 0;
      columns_[field].Clear();
      if (IsColumn(field) && !columns_[field].Reserve(kMaxVarintBytes * kMaxRows * kMostOfRow)) return false;
    }
    return true;
  }

  // A field that is no column.
  void Set(uint32_t field, uint64_t value) { numbers_[field] = value; }
  // The value that the next difference in this column is to.
  void SetBase(uint32_t column, uint64_t value) { numbers_[column] = value; }

  // Once a row, before EndRow, and in the order of rows.
  void Put(uint32_t column, uint64_t value) { columns_[column].AppendVarintUnchecked(value); }
  void PutSigned(uint32_t column, int64_t value) { Put(column, ZigZag(value)); }
  // The difference to the previous row's.
  void PutDelta(uint32_t column, uint64_t value) {
    PutSigned(column, static_cast<int64_t>(value - numbers_[column]));
    numbers_[column] = value;
  }
  // Of a column that stays empty until a value is not 0.
  void PutRare(uint32_t column, uint64_t value) {
    Buffer& bytes = columns_[column];
    if (value == 0 && bytes.size() == 0) return;
    for (uint32_t i = bytes.size() == 0 ? rows_ : 0; i > 0; --i) bytes.AppendVarintUnchecked(0);
    bytes.AppendVarintUnchecked(value);
  }
  // Any number of elements.
  void Append(uint32_t column, uint64_t value) { columns_[column].AppendVarint(value); }
  void EndRow() { ++rows_; }
  void Drop(uint32_t column) { columns_[column].Clear(); }

  // Appends the packet to `out` and forgets the rows.
  void Flush(Buffer* out) {
    PacketScope scope(out, kPacket);
    for (uint32_t field = 1; field < kEnd; ++field) {
      IsColumn(field) ? scope.writer.Packed(field, columns_[field]) : scope.writer.UInt(field, numbers_[field]);
    }
    rows_ = 0;
  }

 private:
  static constexpr uint32_t kMaxVarintBytes = 10;
  static constexpr uint32_t kEnd = 32 - std::countl_zero(kRepeated);  // the last field is a column
  static constexpr bool IsColumn(uint32_t field) { return (kRepeated >> field & 1) != 0; }

  uint32_t rows_ = 0;
  uint64_t numbers_[kEnd] = {};  // of a column: what the next difference is to
  Buffer columns_[kEnd];
};

}  // namespace dlhook::inline drain
