// Values that come again and again in the same order, as what a step does: numbers for them, and a column of them.
#pragma once

#include <array>

#include "analyzer/model/compact_column.h"

namespace dlhook::analyzer::inline model {

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
class RecurringColumn {
 public:
  using value_type = Value;

  size_t size() const { return index_.size(); }
  bool empty() const { return index_.empty(); }
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

  using const_iterator = ColumnIterator<RecurringColumn>;
  const_iterator begin() const { return {this, 0}; }
  const_iterator end() const { return {this, size()}; }

 private:
  RecurringKeys<Value> values_;
  CompactColumn<uint32_t, int8_t, AsNumber> index_;
};

}  // namespace dlhook::analyzer::model
