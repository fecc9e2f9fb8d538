// A run as an SQLite database: the tables of the report as they are, the raw tables, views that join these, and tables that
// describe all of them. docs/exports.md documents it.
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/export/exporter.h"
#include "analyzer/export/raw_tables.h"
#include "analyzer/export/sqlite_file.h"

namespace dlhook::analyzer::inline exports {
namespace {

struct View {
  const char* name;
  const char* title;
  const char* select;
};

constexpr View kViews[] = {
    {"calls", "Library calls with what they refer to",
     "SELECT c.call_id, t.process_id, t.name AS thread, c.step_id, c.start_ns, c.duration_ns, c.self_ns, o.label, "
     "o.op, "
     "o.function, o.problem, o.algorithm, o.implementation, o.flops, o.bytes, l.name AS layer, c.direction, "
     "s.name AS scope, c.status, c.line FROM raw_calls c JOIN raw_threads t USING (thread_id) JOIN raw_ops o USING "
     "(op_id) "
     "LEFT JOIN raw_layers l USING (layer_id) LEFT JOIN raw_scopes s ON s.scope_id = c.scope_id"},
    {"scopes", "Framework ops, backward nodes and ranges with what they refer to",
     "SELECT s.scope_id, t.process_id, t.name AS thread, s.start_ns, s.duration_ns, s.name, s.kind, "
     "l.name AS layer, s.direction, s.line FROM raw_scopes s JOIN raw_threads t USING (thread_id) "
     "LEFT JOIN raw_layers l USING (layer_id)"},
    {"gpu_activities", "Work of GPUs with what it refers to",
     "SELECT g.activity_id, g.process_id, g.device, g.stream, g.kind, g.kernel, g.start_ns, g.end_ns, "
     "g.end_ns - g.start_ns AS duration_ns, g.bytes, g.copy_direction, o.label AS launched_by, g.step_id, "
     "l.name AS layer, g.direction FROM raw_gpu_activities g LEFT JOIN raw_calls c ON c.call_id = g.launch_call_id "
     "LEFT JOIN raw_ops o USING (op_id) LEFT JOIN raw_layers l ON l.layer_id = g.layer_id"},
    {"activities", "Who did what when, with names: share_ns adds up to the wall time of each process",
     "SELECT a.process_id, t.name AS thread, a.step_id, p.kind AS step, p.steady, a.phase, a.activity, "
     "coalesce(o.op, s.name, a.line) AS what, l.name AS layer, a.direction, a.start_ns, a.end_ns, a.share_ns "
     "FROM raw_time a LEFT JOIN raw_threads t USING (thread_id) LEFT JOIN raw_steps p ON p.step_id = a.step_id "
     "LEFT JOIN raw_calls c ON c.call_id = a.call_id LEFT JOIN raw_ops o USING (op_id) "
     "LEFT JOIN raw_scopes s ON s.scope_id = a.scope_id LEFT JOIN raw_layers l ON l.layer_id = a.layer_id"},
};

const char* SqlType(ColumnType type) {
  switch (type) {
    case ColumnType::kText:
      return "TEXT";
    case ColumnType::kInteger:
      return "INTEGER";
    case ColumnType::kReal:
      return "REAL";
  }
  return "";
}

class SqliteWriter {
 public:
  SqliteWriter(const Timeline& run, SqliteFile& file) : run_(run), file_(file) {
    file_.Run(
        "CREATE TABLE tables (name TEXT PRIMARY KEY, kind TEXT, title TEXT);"
        "CREATE TABLE columns (table_name TEXT, name TEXT, unit TEXT, explanation TEXT);"
        "CREATE TABLE notes (table_name TEXT, note TEXT)");
  }

  void AddReportTable(const Table& table) {
    Create("report", table.name, table.title, table.columns, false);
    SqliteRows rows(file_, table.name, table.columns.size());
    for (const Row& row : table.rows) {
      for (const Cell& cell : row) AddCell(cell, rows);
      rows.End();
    }
    SqliteRows notes(file_, "notes", 2);
    for (const std::string& note : table.notes) notes.Text(table.name).Text(note).End();
  }

  void AddRawTable(const RawTable& table) {
    Create("raw", table.name, table.title, table.columns, table.has_id);
    SqliteRows rows(file_, table.name, table.columns.size());
    table.fill(run_, rows);
  }

  void AddViews() {
    for (const View& view : kViews) {
      file_.Run(absl::StrCat("CREATE VIEW ", view.name, " AS ", view.select));
      SqliteRows(file_, "tables", 3).Text(view.name).Text("view").Text(view.title).End();
    }
  }

 private:
  void Create(absl::string_view kind, const std::string& name, const std::string& title,
              const std::vector<Column>& columns, bool has_id) {
    std::string sql = absl::StrCat("CREATE TABLE ", SqlName(name), " (");
    SqliteRows described(file_, "columns", 4);
    for (const Column& column : columns) {
      const bool is_first = &column == columns.data();
      absl::StrAppend(&sql, is_first ? "" : ", ", SqlName(column.name), " ", SqlType(column.type),
                      is_first && has_id ? " PRIMARY KEY" : "");
      described.Text(name).Text(column.name).Text(column.unit).Text(column.explanation).End();
    }
    file_.Run(sql + ")");
    SqliteRows(file_, "tables", 3).Text(name).Text(kind).Text(title).End();
  }

  static void AddCell(const Cell& cell, SqliteRows& rows) {
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

  const Timeline& run_;
  SqliteFile& file_;
};

}  // namespace

absl::Status ExportSqlite(const Timeline& run, const std::vector<Table>& tables, const ExportOptions& /*options*/,
                          const std::string& path) {
  SqliteFile file(path);
  SqliteWriter writer(run, file);
  for (const Table& table : tables) writer.AddReportTable(table);
  for (const RawTable& table : RawTables()) writer.AddRawTable(table);
  writer.AddViews();
  return file.Finish();
}

}  // namespace dlhook::analyzer::exports
