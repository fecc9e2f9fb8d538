// Columns with a value for each of tens of millions of elements, in a fraction of the values' own size.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
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

// For values from 0 on: a byte holds the first 255.
struct AsNumber {
  static constexpr int64_t kFirst = -std::numeric_limits<int8_t>::max();
  template <typename Value>
  static int64_t Encode(size_t /*index*/, Value value) {
    return static_cast<int64_t>(value) + kFirst;
  }
  template <typename Value>
  static Value Decode(size_t /*index*/, int64_t code) {
    return static_cast<Value>(code - kFirst);
  }
};

// For indices of the column's own elements, never the element itself, that are mostly nearby: a scope's parent.
struct AsDistance {
  static int64_t Encode(size_t index, uint32_t value) {
    if (value == UINT32_MAX) return 0;
    const int64_t distance = static_cast<int64_t>(value) - static_cast<int64_t>(index);
    return distance == 0 ? INT64_MAX : distance;
  }
  template <typename Value>
  static Value Decode(size_t index, int64_t code) {
    return code == 0 ? UINT32_MAX : static_cast<Value>(static_cast<int64_t>(index) + code);
  }
};

// For a vector whose new elements have no value until they are set: what is filled from the back should not be touched
// before.
template <typename T>
struct Unset : std::allocator<T> {
  template <typename U>
  struct rebind {
    using other = Unset<U>;
  };
  template <typename U>
  void construct(U* place) {
    ::new (static_cast<void*>(place)) U;
  }
  template <typename U, typename... Arguments>
  void construct(U* place, Arguments&&... arguments) {
    ::new (static_cast<void*>(place)) U(std::forward<Arguments>(arguments)...);
  }
};

// Over the values of a column that has no elements to point to.
template <typename Column, typename Value>
class ColumnIterator {
 public:
  using value_type = Value;
  using difference_type = std::ptrdiff_t;
  using iterator_category = std::random_access_iterator_tag;
  using pointer = const value_type*;
  using reference = value_type;

  ColumnIterator() = default;
  ColumnIterator(const Column* column, size_t index) : column_(column), index_(index) {}
  value_type operator*() const { return (*column_)[index_]; }
  ColumnIterator& operator++() { return ++index_, *this; }
  ColumnIterator& operator--() { return --index_, *this; }
  ColumnIterator& operator+=(difference_type count) { return index_ += static_cast<size_t>(count), *this; }
  friend ColumnIterator operator+(ColumnIterator at, difference_type count) { return at += count; }
  friend difference_type operator-(const ColumnIterator& a, const ColumnIterator& b) {
    return static_cast<difference_type>(a.index_ - b.index_);
  }
  friend bool operator==(const ColumnIterator& a, const ColumnIterator& b) { return a.index_ == b.index_; }

 private:
  const Column* column_ = nullptr;
  size_t index_ = 0;
};

// What columns have by their size() and operator[].
template <typename Column, typename Value>
class ColumnBase {
 public:
  using value_type = Value;
  using const_iterator = ColumnIterator<Column, Value>;

  bool empty() const { return self().size() == 0; }
  const_iterator begin() const { return {&self(), 0}; }
  const_iterator end() const { return {&self(), self().size()}; }
  friend bool operator==(const Column& column, const std::vector<Value>& values) {
    return std::equal(column.begin(), column.end(), values.begin(), values.end());
  }

 private:
  const Column& self() const { return static_cast<const Column&>(*this); }
};

// All values in full.
template <typename Value>
struct FullColumn : std::vector<Value, Unset<Value>> {
  void Set(size_t index, Value value) { (*this)[index] = value; }
  void Resize(size_t count) { this->resize(count); }
};

// Values of which nearly all fit into a `Small`, a signed type. The others are kept apart; if there are too many of
// them, all are stored in two bytes instead of one, or in full.
template <typename Value, typename Small, typename Code = AsItIs>
class CompactColumn : public ColumnBase<CompactColumn<Value, Small, Code>, Value> {
 public:
  CompactColumn() = default;
  CompactColumn(size_t count, Value value) { Fill(count, value); }

  size_t size() const { return wide_.empty() ? small_.size() : wide_.size(); }
  size_t capacity() const { return wide_.empty() ? small_.capacity() : wide_.capacity(); }
  void reserve(size_t count) { wide_.empty() ? small_.reserve(count) : wide_.reserve(count); }

  // Inline everywhere: it is read some dozens of times per element.
  [[gnu::always_inline]] Value operator[](size_t index) const {
    const Small* const small = small_.data();  // null if all are in wide_
    if (small == nullptr) return wide_[index];
    if (small[index] == kApart) [[unlikely]]
      return Apart(index);
    return Code::template Decode<Value>(index, small[index]);
  }

  void Set(size_t index, Value value) {
    if (!wide_.empty()) return wide_.Set(index, value);
    const int64_t code = Code::Encode(index, value);
    if (code > kApart && code <= std::numeric_limits<Small>::max()) {
      small_[index] = static_cast<Small>(code);
      return;
    }
    small_[index] = kApart;
    apart_[index] = value;
    if (apart_.size() > kMostApart + small_.size() / kMostApartOf) Widen();
  }

  void push_back(Value value) {
    if (!wide_.empty()) return wide_.push_back(value);
    small_.push_back(kApart);
    Set(small_.size() - 1, value);
  }

  // As many elements; new ones are to be Set before they are read.
  void Resize(size_t count) {
    if (count < size()) absl::erase_if(apart_, [&](const auto& apart) { return apart.first >= count; });
    wide_.empty() ? small_.resize(count) : wide_.Resize(count);
  }

  // All elements anew. `value`: a small one whose code is the same for each element (kNone).
  void Fill(size_t count, Value value) {
    *this = CompactColumn();
    small_.assign(count, static_cast<Small>(Code::Encode(0, value)));
  }

 private:
  struct TwoBytes {  // not instantiated where it would be this type
    using Column = CompactColumn<Value, int16_t, Code>;
  };
  struct InFull {
    using Column = FullColumn<Value>;
  };
  using Wide = typename std::conditional_t<sizeof(Small) == 1, TwoBytes, InFull>::Column;

  static constexpr Small kApart = std::numeric_limits<Small>::min();
  static constexpr size_t kMostApart = 4096;
  static constexpr size_t kMostApartOf = 64;  // this part of the elements

  // One that is not set yet may look as if it was kept apart.
  [[gnu::noinline]] Value Apart(size_t index) const {
    const auto apart = apart_.find(index);
    return apart == apart_.end() ? Value() : apart->second;
  }

  void Widen() {
    Wide wide;
    wide.reserve(small_.capacity());
    wide.Resize(small_.size());
    for (size_t i = 0; i < small_.size(); ++i) {
      const bool is_set = small_[i] != kApart || apart_.contains(i);
      if (is_set) wide.Set(i, (*this)[i]);
    }
    *this = CompactColumn();
    wide_ = std::move(wide);
  }

  std::vector<Small, Unset<Small>> small_;
  absl::flat_hash_map<uint64_t, Value> apart_;  // by index
  Wide wide_;                                   // if it has values, nothing else has
};

// Values most of which are near the others nearby, or all bits set (kNone, -1): what `Small` holds is the distance from
// the first one of a block.
template <typename Value, typename Small>
class NearColumn : public ColumnBase<NearColumn<Value, Small>, Value> {
 public:
  size_t size() const { return distance_.size(); }
  size_t capacity() const { return distance_.capacity(); }
  void reserve(size_t count) { distance_.reserve(count); }

  [[gnu::always_inline]] Value operator[](size_t index) const {
    const int64_t distance = distance_[index];
    if (distance == kNothing) return kAllBits;
    return static_cast<Value>(static_cast<uint64_t>(base_[index / kBlock]) + static_cast<uint64_t>(distance));
  }
  void Set(size_t index, Value value) {
    if (value == kAllBits) return distance_.Set(index, kNothing);
    Value& base = base_[index / kBlock];
    if (base == kAllBits) base = value;
    // Times of a damaged trace may be so far apart that the difference wraps around.
    distance_.Set(index, static_cast<int64_t>(static_cast<uint64_t>(value) - static_cast<uint64_t>(base)));
  }
  void push_back(Value value) {
    Resize(size() + 1);
    Set(size() - 1, value);
  }
  // See CompactColumn.
  void Resize(size_t count) {
    distance_.Resize(count);
    base_.resize((count + kBlock - 1) / kBlock, kAllBits);
  }

 private:
  static constexpr size_t kBlock = 32;
  static constexpr Value kAllBits = static_cast<Value>(-1);
  static constexpr int64_t kNothing = std::numeric_limits<int64_t>::max();

  // The largest code of a `Small` stands for kNothing.
  struct AsNothing {
    static constexpr int64_t kLargest = std::numeric_limits<Small>::max();
    static int64_t Encode(size_t /*index*/, int64_t distance) {
      return distance == kNothing ? kLargest : distance + (distance >= kLargest ? 1 : 0);
    }
    template <typename>
    static int64_t Decode(size_t /*index*/, int64_t code) {
      return code == kLargest ? kNothing : code - (code > kLargest ? 1 : 0);
    }
  };

  std::vector<Value> base_;  // of each block the value that was set first; kAllBits: none yet
  CompactColumn<int64_t, Small, AsNothing> distance_;
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
  // As many elements; new ones get this value.
  void Resize(size_t count, uint32_t value) {
    while (!runs_.empty() && runs_.back().begin >= count) runs_.pop_back();
    if (count > size_ && (runs_.empty() || runs_.back().value != value)) runs_.push_back({size_, value});
    size_ = static_cast<uint32_t>(count);
  }
  // The elements [first, second) with this value.
  std::pair<uint32_t, uint32_t> RangeOf(uint32_t value) const {
    const auto run = absl::c_lower_bound(runs_, value, [](const Run& r, uint32_t v) { return r.value < v; });
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
    const auto after = absl::c_upper_bound(runs_, index, [](size_t i, const Run& run) { return i < run.begin; });
    return static_cast<size_t>(after - runs_.begin()) - 1;
  }

  std::vector<Run> runs_;
  uint32_t size_ = 0;
};

// Numbers for values that come again and again in the same order, as what a step does.
template <typename Key>
class RecurringKeys {
 public:
  // Equal keys have equal indices; new ones the next. Looks first at the key that followed the last two before: what
  // comes after a scope's own time is known from the scope that was inside.
  uint32_t IndexOf(const Key& key) {
    uint32_t& next = follows_[(before_last_ * 31 + last_) % follows_.size()];
    if (next >= keys_.size() || keys_[next] != key) {
      const auto [place, is_new] = known_.try_emplace(key, static_cast<uint32_t>(keys_.size()));
      next = place->second;
      if (is_new) keys_.push_back(key);
    }
    before_last_ = last_;
    return last_ = next;
  }
  const Key& operator[](uint32_t index) const { return keys_[index]; }
  size_t size() const { return keys_.size(); }

 private:
  std::vector<Key> keys_;
  std::array<uint32_t, 4096> follows_ = {};  // by the indices of two keys; others may have the same place
  absl::flat_hash_map<Key, uint32_t> known_;
  uint32_t before_last_ = 0;
  uint32_t last_ = 0;
};

// Values of which few are distinct: an element takes a byte or two.
template <typename Value>
class RecurringColumn : public ColumnBase<RecurringColumn<Value>, Value> {
 public:
  size_t size() const { return index_.size(); }
  size_t capacity() const { return index_.capacity(); }
  void reserve(size_t count) { index_.reserve(count); }
  [[gnu::always_inline]] const Value& operator[](size_t at) const { return values_[index_[at]]; }
  uint32_t IndexAt(size_t at) const { return index_[at]; }
  const RecurringKeys<Value>& values() const { return values_; }  // the distinct ones
  void Set(size_t at, const Value& value) { SetIndex(at, IndexOf(value)); }
  // The two halves of Set, for who knows the index of a value already.
  uint32_t IndexOf(const Value& value) { return values_.IndexOf(value); }
  void SetIndex(size_t at, uint32_t index) { index_.Set(at, index); }
  void push_back(const Value& value) { index_.push_back(values_.IndexOf(value)); }
  void Resize(size_t count) { index_.Resize(count); }  // see CompactColumn

 private:
  RecurringKeys<Value> values_;
  CompactColumn<uint32_t, int8_t, AsNumber> index_;
};

// Reserves room for `count` more in a column of the model.
template <typename Column>
void GrowFor(Column* column, size_t count) {
  const size_t needed = column->size() + count;
  if (needed > column->capacity()) column->reserve(std::max(needed, column->capacity() * 2));
}

}  // namespace dlhook::analyzer::model
