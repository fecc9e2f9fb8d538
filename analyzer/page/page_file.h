// A self-contained page: what web/ was built to, with data in it, cut to what a page has room for.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>

#include "analyzer/render/renderer.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline page {

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

}  // namespace dlhook::analyzer::page
