// What scopes look like: a run has tens of millions of them, but a step some hundred that recur in each.
#ifndef DLHOOK_ANALYZER_TIME_SCOPE_PATHS_H_
#define DLHOOK_ANALYZER_TIME_SCOPE_PATHS_H_

#include <cstdint>
#include <utility>

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline time {

using PathIndex = uint32_t;
constexpr PathIndex kNoScopes = kNone;

// A scope's look, and that of the scopes around it.
struct ScopePath {
  PathIndex parent = kNoScopes;
  ScopeLook look = {};
  friend bool operator==(const ScopePath&, const ScopePath&) = default;
  template <typename H>
  friend H AbslHashValue(H hash, const ScopePath& path) {
    return H::combine(std::move(hash), path.parent, path.look);
  }
};

}  // namespace dlhook::analyzer::time

#endif  // DLHOOK_ANALYZER_TIME_SCOPE_PATHS_H_
