// What scopes look like: a run has tens of millions of them, but a step some hundred that recur in each.
#pragma once

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
