// Values that only some calls of a thread have (a status, operands, a Python stack), looked up by sequence number.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace dlhook::analyzer::inline reader {

// Sequence numbers are added and looked up almost in order, so a sorted array with a cursor is faster and smaller than
// a hash table.
template <typename Value>
class BySequence {
 public:
  // If a number has several values, the first counts.
  void Add(uint64_t sequence, Value value) {
    is_sorted_ = is_sorted_ && (entries_.empty() || entries_.back().first <= sequence);
    entries_.emplace_back(sequence, value);
  }
  bool empty() const { return entries_.empty(); }

  // After the last Add, before the first Find.
  void Sort() {
    if (is_sorted_) return;
    std::stable_sort(entries_.begin(), entries_.end(), IsBefore);
    is_sorted_ = true;
  }

  // Null: none.
  const Value* Find(uint64_t sequence) {
    const bool is_after_last = next_ == 0 || entries_[next_ - 1].first < sequence;
    const bool is_before_next = next_ == entries_.size() || sequence <= entries_[next_].first;
    if (!is_after_last || !is_before_next) {
      const std::pair<uint64_t, Value> key(sequence, Value());
      next_ = static_cast<size_t>(std::lower_bound(entries_.begin(), entries_.end(), key, IsBefore) - entries_.begin());
    }
    if (next_ == entries_.size() || entries_[next_].first != sequence) return nullptr;
    return &entries_[next_++].second;
  }

 private:
  static bool IsBefore(const std::pair<uint64_t, Value>& a, const std::pair<uint64_t, Value>& b) {
    return a.first < b.first;
  }

  std::vector<std::pair<uint64_t, Value>> entries_;
  bool is_sorted_ = true;
  size_t next_ = 0;  // the entry after the one found last
};

}  // namespace dlhook::analyzer::reader
