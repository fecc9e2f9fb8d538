// Columns of tables whose rows are divided by looks at threads (time/state_looks.h).
#ifndef DLHOOK_ANALYZER_TABLES_LOOK_COLUMNS_H_
#define DLHOOK_ANALYZER_TABLES_LOOK_COLUMNS_H_

#include <cstdint>
#include <string>

#include "analyzer/table/typed_columns.h"
#include "analyzer/time/state_looks.h"

namespace dlhook::analyzer::inline tables {

struct LookRow {
  const LookSums& looks;
  int64_t total_ns;
  int64_t steps;
};

TypedColumns<LookRow> LookColumns();
std::string LookNote();

}  // namespace dlhook::analyzer::tables

#endif  // DLHOOK_ANALYZER_TABLES_LOOK_COLUMNS_H_
