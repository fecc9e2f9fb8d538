// The page of several runs: `dlhook diff … --html FILE`, `dlhook scaling … --html FILE`.
#ifndef DLHOOK_ANALYZER_PAGE_COMPARISON_PAGE_H_
#define DLHOOK_ANALYZER_PAGE_COMPARISON_PAGE_H_

#include <string>

#include "analyzer/render/renderer.h"

namespace dlhook::analyzer::inline page {

// `kind`: "diff" or "scaling". At most 5 MB: large tables hold the rows that changed most, and the page says so.
std::string ComparisonPage(const std::string& kind, const std::string& title, const Report& report);

}  // namespace dlhook::analyzer::page

#endif  // DLHOOK_ANALYZER_PAGE_COMPARISON_PAGE_H_
