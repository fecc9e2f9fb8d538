// Numbers for keys that come again and again in the same order, as what a step does.
#ifndef DLHOOK_ANALYZER_MODEL_RECURRING_KEYS_H_
#define DLHOOK_ANALYZER_MODEL_RECURRING_KEYS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace dlhook::analyzer::inline model {

template <typename Key>
class RecurringKeys {
 public:
  // Equal keys have equal indices; new ones the next. Looks first at the key that followed the last one before.
  uint32_t IndexOf(const Key& key) {
    uint32_t next = followed_by_[last_];
    if (next == keys_.size() || keys_[next] != key) {
      const auto [place, is_new] = known_.try_emplace(key, static_cast<uint32_t>(keys_.size()));
      next = followed_by_[last_] = place->second;
      if (is_new) {
        keys_.push_back(key);
        followed_by_.push_back(0);
      }
    }
    return last_ = next;
  }
  const Key& operator[](uint32_t index) const { return keys_[index]; }
  size_t size() const { return keys_.size(); }

 private:
  std::vector<Key> keys_;
  std::vector<uint32_t> followed_by_ = {0};  // by index
  absl::flat_hash_map<Key, uint32_t> known_;
  uint32_t last_ = 0;
};

}  // namespace dlhook::analyzer::model

#endif  // DLHOOK_ANALYZER_MODEL_RECURRING_KEYS_H_
