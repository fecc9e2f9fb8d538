// The page of a run: `dlhook report RUN --html FILE`.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "analyzer/profile/profile.h"
#include "analyzer/table/table.h"
#include "analyzer/work/step_facts.h"

namespace dlhook::analyzer::inline page {

// `tables`: the report's. At most 5 MB: of larger runs, tables hold their heaviest rows, timelines the longest calls, and the
// page says what is left out.
std::string ReportPage(const StepFacts& facts, const std::vector<Table>& tables);

// What threads and GPU streams did in a few steps, slice by slice, for web/src/timeline.js.

// A steady step of median length, the slowest and the first one, then others as far as together they have `most_slices`; without
// steps the whole run. All processes are shown in the time of that step. Of each at most `most_slices`, the longest; how many are
// left out is told.
//
// {"names": [[name, class, details]], "layers": [name], "directions": [name],
//  "windows": [{"id", "title", "start", "length", "left_out", "shorter_than", "tracks_left_out",
//               "tracks": [{"group", "name", "gpu", "start": [], "duration": [], "depth": [], "text": [], "layer": [],
//                           "direction": []}]}]}
// Times are in nanoseconds since the run (tracks: since the window) began; layer -1: none.
nlohmann::ordered_json Timelines(const StepFacts& facts, size_t most_slices);

}  // namespace dlhook::analyzer::page
