// Tables cut to what a page has room for.
#ifndef DLHOOK_ANALYZER_PAGE_FIT_ROWS_H_
#define DLHOOK_ANALYZER_PAGE_FIT_ROWS_H_

#include <cstddef>

#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline page {

// Keeps at most `most` rows, in their order: of a table with times per row the longest, of one over time every n-th and the
// longest, else the first. A note says so.
void FitRows(size_t most, Table* table);

}  // namespace dlhook::analyzer::page

#endif  // DLHOOK_ANALYZER_PAGE_FIT_ROWS_H_
