// The stacks of a run as a tree, for web/src/flame.js.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>

#include "analyzer/profile/profile.h"

namespace dlhook::analyzer::inline page {

// {"functions": [[name, kind, object, file]], "left_out": N, "parent": [], "function": [], "line": [], "total": [], "self": []}
// with the root first, parents before children, times in ns. The `most_nodes` heaviest, others are in their parents' totals.
nlohmann::ordered_json CallTree(const Profile& profile, size_t most_nodes);

}  // namespace dlhook::analyzer::page
