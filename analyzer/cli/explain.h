// `dlhook report --explain`: the columns, from the tables of an empty run, and the words of docs/glossary.md.
#pragma once

#include "absl/status/statusor.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline cli {

// One of each kind, with columns and without rows.
absl::StatusOr<std::vector<Table>> EmptyTables();

// `name`: a column, TABLE.COLUMN, a table (all its columns), a word of the glossary, or "all". Lines of at most `width`.
// InvalidArgument suggests what was probably meant.
absl::StatusOr<std::string> Explain(const std::vector<Table>& tables, const std::string& name, int width, bool color);

}  // namespace dlhook::analyzer::cli
