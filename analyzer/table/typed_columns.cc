// Lists of columns, and the texts of cells.
#include "analyzer/table/typed_columns.h"

#include <mutex>

#include "absl/container/node_hash_set.h"
#include "absl/strings/str_join.h"

namespace dlhook::analyzer::inline table {
namespace {

auto Named(std::vector<AnyColumn>& columns, absl::string_view name) {
  return std::find_if(columns.begin(), columns.end(),
                      [name](const AnyColumn& column) { return column.column.name == name; });
}

}  // namespace

CellString::CellString(absl::string_view text) {
  static auto& mutex = *new std::mutex;
  static auto& texts = *new absl::node_hash_set<std::string>;
  const std::lock_guard lock(mutex);
  text_ = &*texts.emplace(text).first;
}

Cell ToCell(const std::set<std::string>& words) { return absl::StrJoin(words, ", "); }

Column* AnyColumns::Find(absl::string_view name) {
  const auto at = Named(columns_, name);
  return at == columns_.end() ? nullptr : &at->column;
}

void AnyColumns::Add(const AnyColumn& column) { columns_.push_back(column); }

void AnyColumns::Insert(absl::string_view after, const AnyColumns& more) {
  const auto at = Named(columns_, after);
  columns_.insert(at == columns_.end() ? at : at + 1, more.columns_.begin(), more.columns_.end());
}

void AddRow(const AnyColumns& columns, const void* item, Table* table) {
  Row& row = table->rows.emplace_back();
  row.reserve(columns.all().size());
  for (const AnyColumn& column : columns.all()) row.push_back(column.cell(item));
}

Table NewTable(std::string name, std::string title, const AnyColumns& columns, const std::vector<const void*>& items) {
  Table table;
  table.name = std::move(name);
  table.title = std::move(title);
  for (const AnyColumn& column : columns.all()) table.columns.push_back(column.column);
  for (const void* item : items) AddRow(columns, item, &table);
  return table;
}

}  // namespace dlhook::analyzer::table
