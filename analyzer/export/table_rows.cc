// What takes the tables of an export: see raw_tables.h.

#include "analyzer/export/raw_tables.h"
#include "analyzer/tables/columns.h"

namespace dlhook::analyzer::inline exports {
namespace {

void AddCell(const Cell& cell, TableRows& rows) {
  if (const auto* text = std::get_if<CellString>(&cell)) {
    rows.Text(text->str());
  } else if (const auto* integer = std::get_if<int64_t>(&cell)) {
    rows.Integer(*integer);
  } else if (const auto* real = std::get_if<double>(&cell)) {
    rows.Real(*real);
  } else {
    rows.Null();
  }
}

}  // namespace

void WriteAllTables(const Timeline& run, const std::vector<Table>& tables,
                    const std::vector<std::pair<std::string, std::string>>& views, const StartTable& start) {
  for (const Table& table : tables) {
    const auto rows = start(table.name, table.columns, false);
    for (const Row& row : table.rows) {
      for (const Cell& cell : row) AddCell(cell, *rows);
      rows->End();
    }
  }
  for (const RawTable& table : RawTables()) table.fill(run, *start(table.name, table.columns, table.has_id));
  {
    const auto rows = start(
        "tables",
        {TextColumn("name", ""), TextColumn("kind", ""), TextColumn("title", ""), NumberColumn("schema_version", "")},
        true);
    for (const Table& table : tables) rows->Text(table.name).Text("report").Text(table.title).Null().End();
    for (const RawTable& table : RawTables())
      rows->Text(table.name).Text("raw").Text(table.title).Integer(kSchemaVersion).End();
    for (const auto& [name, title] : views) rows->Text(name).Text("view").Text(title).Null().End();
  }
  {
    const auto rows = start(
        "columns",
        {TextColumn("table_name", ""), TextColumn("name", ""), TextColumn("unit", ""), TextColumn("explanation", "")},
        false);
    const auto describe = [&](const auto& table) {
      for (const Column& column : table.columns)
        rows->Text(table.name).Text(column.name).Text(column.unit).Text(column.explanation).End();
    };
    for (const Table& table : tables) describe(table);
    for (const RawTable& table : RawTables()) describe(table);
  }
  const auto rows = start("notes", {TextColumn("table_name", ""), TextColumn("note", "")}, false);
  for (const Table& table : tables) {
    for (const std::string& note : table.notes) rows->Text(table.name).Text(note).End();
  }
}

}  // namespace dlhook::analyzer::exports
