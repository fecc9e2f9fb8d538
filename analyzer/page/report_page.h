// The page of a run: `dlhook report RUN --html FILE`.
#pragma once

#include <string>
#include <vector>

#include "analyzer/table/table.h"
#include "analyzer/work/step_facts.h"

namespace dlhook::analyzer::inline page {

// `tables`: the report's. At most 5 MB: of larger runs, tables hold their heaviest rows, timelines the longest calls, and the
// page says what is left out.
std::string ReportPage(const StepFacts& facts, const std::vector<Table>& tables);

}  // namespace dlhook::analyzer::page
