// Columns with a value for each of tens of millions of elements, in a fraction of the values' own size.
#ifndef DLHOOK_ANALYZER_MODEL_COMPACT_COLUMN_H_
#define DLHOOK_ANALYZER_MODEL_COMPACT_COLUMN_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace dlhook::analyzer::inline model {

// How a value becomes a small number, and back. All bits set (kNone, -1) is small, too.
struct AsItIs {
  template <typename Value>
  static int64_t Encode(size_t /*index*/, Value value) {
    return static_cast<std::make_signed_t<Value>>(value);
  }
  template <typename Value>
  static Value Decode(size_t /*index*/, int64_t code) {
    return static_cast<Value>(code);
  }
};

// For indices of the column's own elements that are mostly nearby: a scope's parent.
struct AsDistance {
  static constexpr int64_t kNoElement = std::numeric_limits<int16_t>::max();
  static int64_t Encode(size_t index, uint32_t value) {
    if (value == UINT32_MAX) return kNoElement;
    const int64_t distance = static_cast<int64_t>(value) - static_cast<int64_t>(index);
    return distance == kNoElement ? INT64_MAX : distance;
  }
  template <typename Value>
  static Value Decode(size_t index, int64_t code) {
    return code == kNoElement ? UINT32_MAX : static_cast<Value>(static_cast<int64_t>(index) + code);
  }
};

// Values of which nearly all fit into a `Small`, a signed type. The others are kept apart; if there are too many of
// them, all are stored in full.
template <typename Value, typename Small, typename Code = AsItIs>
class CompactColumn {
 public:
  using value_type = Value;

  CompactColumn() = default;
  CompactColumn(size_t count, Value value) { Fill(count, value); }

  size_t size() const { return full_.empty() ? small_.size() : full_.size(); }
  bool empty() const { return size() == 0; }
  size_t capacity() const { return full_.empty() ? small_.capacity() : full_.capacity(); }
  void reserve(size_t count) { full_.empty() ? small_.reserve(count) : full_.reserve(count); }

  Value operator[](size_t index) const {
    if (!full_.empty()) return full_[index];
    const Small small = small_[index];
    if (small == kApart) return apart_.find(index)->second;
    return Code::template Decode<Value>(index, small);
  }

  void Set(size_t index, Value value) {
    if (!full_.empty()) {
      full_[index] = value;
      return;
    }
    const int64_t code = Code::Encode(index, value);
    if (code > kApart && code <= std::numeric_limits<Small>::max()) {
      small_[index] = static_cast<Small>(code);
      return;
    }
    small_[index] = kApart;
    apart_[index] = value;
    if (apart_.size() > kMostApart + small_.size() / kMostApartOf) StoreInFull();
  }

  void push_back(Value value) {
    if (!full_.empty()) {
      full_.push_back(value);
      return;
    }
    small_.push_back(kApart);
    Set(small_.size() - 1, value);
  }

  // All elements anew. `value`: a small one whose code is the same for each element (kNone).
  void Fill(size_t count, Value value) {
    *this = CompactColumn();
    small_.assign(count, static_cast<Small>(Code::Encode(0, value)));
  }

  class Iterator {
   public:
    using value_type = Value;
    using difference_type = std::ptrdiff_t;
    Iterator(const CompactColumn* column, size_t index) : column_(column), index_(index) {}
    Value operator*() const { return (*column_)[index_]; }
    Iterator& operator++() { return ++index_, *this; }
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.index_ == b.index_; }

   private:
    const CompactColumn* column_;
    size_t index_;
  };
  using const_iterator = Iterator;
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size()}; }

  friend bool operator==(const CompactColumn& column, const std::vector<Value>& values) {
    if (column.size() != values.size()) return false;
    for (size_t i = 0; i < values.size(); ++i) {
      if (column[i] != values[i]) return false;
    }
    return true;
  }

 private:
  static constexpr Small kApart = std::numeric_limits<Small>::min();
  static constexpr size_t kMostApart = 4096;
  static constexpr size_t kMostApartOf = 64;  // this part of the elements

  void StoreInFull() {
    std::vector<Value> full;
    full.reserve(small_.capacity());
    for (size_t i = 0; i < small_.size(); ++i) full.push_back((*this)[i]);
    *this = CompactColumn();
    full_ = std::move(full);
  }

  std::vector<Small> small_;
  absl::flat_hash_map<uint64_t, Value> apart_;  // by index
  std::vector<Value> full_;                     // if it has values, nothing else has
};

// Ascending values, each of them for many elements in a row: the thread of a scope.
class RunColumn {
 public:
  size_t size() const { return size_; }
  uint32_t operator[](size_t index) const { return runs_[RunOf(index)].value; }
  void push_back(uint32_t value) {
    if (runs_.empty() || runs_.back().value != value) runs_.push_back({size_, value});
    ++size_;
  }
  // The elements [first, second) with this value.
  std::pair<uint32_t, uint32_t> RangeOf(uint32_t value) const {
    const auto run =
        std::lower_bound(runs_.begin(), runs_.end(), value, [](const Run& r, uint32_t v) { return r.value < v; });
    if (run == runs_.end() || run->value != value) return {0, 0};
    return {run->begin, run + 1 == runs_.end() ? size_ : (run + 1)->begin};
  }

 private:
  struct Run {
    uint32_t begin = 0;
    uint32_t value = 0;
  };
  size_t RunOf(size_t index) const {
    if (runs_.size() == 1) return 0;
    const auto after =
        std::upper_bound(runs_.begin(), runs_.end(), index, [](size_t i, const Run& run) { return i < run.begin; });
    return static_cast<size_t>(after - runs_.begin()) - 1;
  }

  std::vector<Run> runs_;
  uint32_t size_ = 0;
};

}  // namespace dlhook::analyzer::model

#endif  // DLHOOK_ANALYZER_MODEL_COMPACT_COLUMN_H_
