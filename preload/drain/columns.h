// A message of columns while it is filled: the batches of proto/call.proto. Columns and the other fields go by their numbers.
// Thread: the drain's.
#pragma once

#include <bit>

#include "preload/format/packet_writer.h"

namespace dlhook::inline drain {

// `Rows`: fields::…::Rows. `kMostOfRow`: elements that a row adds to one column.
template <typename Rows, uint32_t kMaxRows = 1024, uint32_t kMostOfRow = 1>
class Columns {
 public:
  uint32_t rows() const { return rows_; }
  bool full() const { return rows_ == kMaxRows; }

  // Whether a row with this value of the message's first field (a thread, a source) can go into it.
  bool Takes(uint64_t key) const { return rows_ == 0 || (!full() && numbers_[1] == key); }
  // Adds a row of what these have. False if out of memory: it is not added.
  template <typename... Parts>
  bool Add(uint64_t key, const Parts&... parts) {
    if (!Open(key)) return false;
    EndRow(parts...);
    return true;
  }

  // Before the first row: empties all of it, and reserves memory for all rows, so that adding need not check.
  bool Open(uint64_t key) {
    if (rows_ > 0) return true;
    for (uint32_t field = 0; field < kEnd; ++field) {
      numbers_[field] = 0;
      columns_[field].Clear();
      if (IsColumn(field) && !columns_[field].Reserve(kMaxVarintBytes * kMaxRows * kMostOfRow)) return false;
    }
    numbers_[1] = key;
    return true;
  }

  // A field that is no column.
  void Set(uint32_t field, uint64_t value) { numbers_[field] = value; }
  // In the first row: what the differences in this column begin at.
  void Begin(uint32_t base, uint32_t column, uint64_t value) {
    if (rows_ == 0) numbers_[base] = numbers_[column] = value;
  }
  // Once a row, and in the order of rows.
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
  template <typename... Parts>
  void EndRow(const Parts&... parts) {
    (Rows::Put(parts, this), ...);
    ++rows_;
  }
  // Any number of elements.
  void Append(uint32_t column, uint64_t value) { columns_[column].AppendVarint(value); }
  void Drop(uint32_t column) { columns_[column].Clear(); }

  // Appends the packet to `out`, if there are rows, and forgets them.
  void Flush(Buffer* out) {
    if (rows_ == 0) return;
    PacketScope scope(out, Rows::kPacket);
    for (uint32_t field = 1; field < kEnd; ++field) {
      IsColumn(field) ? scope.writer.Packed(field, columns_[field]) : scope.writer.UInt(field, numbers_[field]);
    }
    rows_ = 0;
  }

 private:
  static constexpr uint32_t kMaxVarintBytes = 10;
  static constexpr uint32_t kEnd = 32 - std::countl_zero(Rows::kColumns);  // the last field is a column
  static constexpr bool IsColumn(uint32_t field) { return (Rows::kColumns >> field & 1) != 0; }

  uint32_t rows_ = 0;
  uint64_t numbers_[kEnd] = {};  // of a column: what the next difference is to
  Buffer columns_[kEnd];
};

}  // namespace dlhook::inline drain
