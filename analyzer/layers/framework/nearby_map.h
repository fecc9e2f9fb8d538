// Values by scope, of which hardly any are out of order, and which are asked for nearly in order: a hash table of a long
// run's scopes takes more memory, and each look-up waits for it.
#ifndef DLHOOK_ANALYZER_LAYERS_FRAMEWORK_NEARBY_MAP_H_
#define DLHOOK_ANALYZER_LAYERS_FRAMEWORK_NEARBY_MAP_H_

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline framework {

template <typename Value>
class NearbyMap {
 public:
  using Entry = std::pair<ScopeIndex, Value>;

  void Add(ScopeIndex scope, Value value) { entries_.emplace_back(scope, value); }
  // To be called once, when all have been added.
  void Seal() {
    const auto is_before = [](const Entry& a, const Entry& b) { return a.first < b.first; };
    if (!std::is_sorted(entries_.begin(), entries_.end(), is_before)) {
      std::stable_sort(entries_.begin(), entries_.end(), is_before);
    }
  }
  // Those of a scope, in the order in which they were added.
  absl::Span<const Entry> Of(ScopeIndex scope) const {
    size_t first = last_ - std::min(last_, kNearby), end = std::min(last_ + kNearby, entries_.size());
    if (first < end && entries_[first].first >= scope) first = 0;
    if (first < end && entries_[end - 1].first < scope) end = entries_.size();
    const auto begin = entries_.begin();
    const auto is_before = [](const Entry& entry, ScopeIndex wanted) { return entry.first < wanted; };
    const auto at = std::lower_bound(begin + static_cast<std::ptrdiff_t>(first),
                                     begin + static_cast<std::ptrdiff_t>(end), scope, is_before);
    last_ = static_cast<size_t>(at - begin);
    size_t count = 0;
    while (last_ + count < entries_.size() && entries_[last_ + count].first == scope) ++count;
    return absl::MakeConstSpan(entries_).subspan(last_, count);
  }

 private:
  static constexpr size_t kNearby = 32;

  std::vector<Entry> entries_;
  mutable size_t last_ = 0;  // the one found last
};

}  // namespace dlhook::analyzer::framework

#endif  // DLHOOK_ANALYZER_LAYERS_FRAMEWORK_NEARBY_MAP_H_
