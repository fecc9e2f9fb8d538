// The texts of cells: see table.h.
#include <mutex>

#include "absl/container/node_hash_set.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline table {

CellString::CellString(absl::string_view text) {
  static auto& mutex = *new std::mutex;
  static auto& texts = *new absl::node_hash_set<std::string>;
  const std::lock_guard lock(mutex);
  text_ = &*texts.emplace(text).first;
}

}  // namespace dlhook::analyzer::table
