// The page of a run: `dlhook report RUN --html FILE`.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "analyzer/profile/profile.h"
#include "analyzer/render/renderer.h"
#include "analyzer/table/table.h"
#include "analyzer/work/step_facts.h"

namespace dlhook::analyzer::inline page {

// A self-contained page: what web/ was built to, with data in it, cut to what a page has room for.

// What a page holds at most.
struct Room {
  size_t rows, slices, nodes;
};

// The tables of `report`, and beside them what `more` makes for a room. At most 5 MB: of larger runs less and less, until it
// fits, and the page says so.
std::string PageFile(const Report& report, const std::function<nlohmann::ordered_json(const Room&)>& more);

// The page of several runs: `dlhook diff … --html FILE`, `dlhook scaling … --html FILE`. `kind`: "diff" or "scaling".
std::string ComparisonPage(const std::string& kind, const std::string& title, const Report& report);

// Keeps at most `most` rows, in their order: of a table with times per row the longest, of one over time every n-th and the
// longest, else the first. A note says so.
void FitRows(size_t most, Table* table);

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
//               "tracks": [{"group", "name", "start": [], "duration": [], "depth": [], "text": [], "layer": [],
//                           "direction": []}]}]}
// Times are in nanoseconds since the run (tracks: since the window) began; layer -1: none.
nlohmann::ordered_json Timelines(const StepFacts& facts, size_t most_slices);

}  // namespace dlhook::analyzer::page
