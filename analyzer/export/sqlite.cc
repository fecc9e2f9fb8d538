// A run as an SQLite database: the tables of the report as they are, the raw tables, views that join these, and tables that
// describe all of them. docs/exports.md documents it.
#include <sqlite3.h>

#include "analyzer/export/exporter.h"
#include "analyzer/export/raw_tables.h"
#include "analyzer/render/escape.h"

namespace dlhook::analyzer::inline exports {
namespace {

class SqliteFile {
 public:
  explicit SqliteFile(const std::string& path) : path_(path) {  // must not exist
    Check(sqlite3_open_v2(path.c_str(), &file_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                          nullptr));
    // A file that is not finished is thrown away: it needs no journal.
    Run("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; BEGIN");
  }
  ~SqliteFile() { sqlite3_close(file_); }
  SqliteFile(const SqliteFile&) = delete;
  SqliteFile& operator=(const SqliteFile&) = delete;

  void Run(const std::string& sql) {
    if (status_.ok()) Check(sqlite3_exec(file_, sql.c_str(), nullptr, nullptr, nullptr));
  }

  absl::Status Finish() {
    Run("COMMIT");
    return status_;
  }

 private:
  friend class SqliteRows;

  void Check(int code) {
    if (code == SQLITE_OK || code == SQLITE_DONE || !status_.ok()) return;
    status_ = absl::UnavailableError(absl::StrCat("cannot write ", path_, ": ", sqlite3_errmsg(file_)));
  }

  const std::string path_;
  sqlite3* file_ = nullptr;
  absl::Status status_;
};

// An identifier as it stands in SQL.
std::string SqlName(absl::string_view name) {
  return absl::StrCat("\"", absl::StrReplaceAll(VisibleText(name), {{"\"", "\"\""}}), "\"");
}

class SqliteRows : public TableRows {
 public:
  SqliteRows(SqliteFile& file, absl::string_view table, size_t columns) : file_(file) {
    const std::string values = absl::StrJoin(std::vector<const char*>(columns, "?"), ", ");
    const std::string sql = absl::StrCat("INSERT INTO ", SqlName(table), " VALUES (", values, ")");
    if (file_.status_.ok()) file_.Check(sqlite3_prepare_v2(file_.file_, sql.c_str(), -1, &insert_, nullptr));
  }
  ~SqliteRows() override { sqlite3_finalize(insert_); }
  SqliteRows(const SqliteRows&) = delete;
  SqliteRows& operator=(const SqliteRows&) = delete;

  TableRows& Integer(int64_t value) override {
    sqlite3_bind_int64(insert_, ++cell_, value);
    return *this;
  }

  TableRows& Real(double value) override {
    sqlite3_bind_double(insert_, ++cell_, value);
    return *this;
  }

  TableRows& Text(absl::string_view value) override {
    if (value.empty()) return Null();
    const std::string text = VisibleText(value);
    sqlite3_bind_text64(insert_, ++cell_, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
    return *this;
  }

  TableRows& Null() override {
    sqlite3_bind_null(insert_, ++cell_);
    return *this;
  }

  void End() override {
    cell_ = 0;
    if (!file_.status_.ok()) return;
    file_.Check(sqlite3_step(insert_));
    sqlite3_reset(insert_);
  }

 private:
  SqliteFile& file_;
  sqlite3_stmt* insert_ = nullptr;
  int cell_ = 0;
};

struct View {
  const char* name;
  const char* title;
  const char* select;
};

constexpr View kViews[] = {
    {"calls", "Library calls with what they refer to",
     "SELECT c.call_id, t.process_id, t.name AS thread, c.step_id, c.start_ns, c.duration_ns, c.self_ns, o.label, "
     "o.op, o.function, o.problem, o.algorithm, o.implementation, o.flops, o.bytes, l.name AS layer, c.direction, "
     "s.name AS scope, c.status, c.line FROM raw_calls c JOIN raw_threads t USING (thread_id) JOIN raw_ops o USING "
     "(op_id) LEFT JOIN raw_layers l USING (layer_id) LEFT JOIN raw_scopes s ON s.scope_id = c.scope_id"},
    {"scopes", "Framework ops, backward nodes and ranges with what they refer to",
     "SELECT s.scope_id, t.process_id, t.name AS thread, s.start_ns, s.duration_ns, s.name, s.kind, l.name AS layer, "
     "s.direction, s.line FROM raw_scopes s JOIN raw_threads t USING (thread_id) LEFT JOIN raw_layers l USING "
     "(layer_id)"},
    {"gpu_activities", "Work of GPUs with what it refers to",
     "SELECT g.activity_id, g.process_id, g.device, g.stream, g.kind, g.kernel, g.start_ns, g.end_ns, g.end_ns - "
     "g.start_ns AS duration_ns, g.bytes, g.copy_direction, o.label AS launched_by, g.step_id, l.name AS layer, "
     "g.direction FROM raw_gpu_activities g LEFT JOIN raw_calls c ON c.call_id = g.launch_call_id LEFT JOIN raw_ops o "
     "USING (op_id) LEFT JOIN raw_layers l ON l.layer_id = g.layer_id"},
    {"activities", "Who did what when, with names: share_ns adds up to the wall time of each process",
     "SELECT a.process_id, t.name AS thread, a.step_id, p.kind AS step, p.steady, a.phase, a.activity, coalesce(o.op, "
     "s.name, a.line) AS what, l.name AS layer, a.direction, a.start_ns, a.end_ns, a.share_ns FROM raw_time a LEFT "
     "JOIN raw_threads t USING (thread_id) LEFT JOIN raw_steps p ON p.step_id = a.step_id LEFT JOIN raw_calls c ON "
     "c.call_id = a.call_id LEFT JOIN raw_ops o USING (op_id) LEFT JOIN raw_scopes s ON s.scope_id = a.scope_id LEFT "
     "JOIN raw_layers l ON l.layer_id = a.layer_id"},
};

// What is asked for one by one: the rows of a step, and what is inside a call or a scope.
constexpr const char* kIndexed[][2] = {{"raw_calls", "step_id"},
                                       {"raw_calls", "scope_id"},
                                       {"raw_calls", "parent_call_id"},
                                       {"raw_scopes", "parent_scope_id"},
                                       {"raw_gpu_activities", "step_id"},
                                       {"raw_gpu_activities", "launch_call_id"},
                                       {"raw_time", "step_id"}};

std::unique_ptr<TableRows> Create(SqliteFile& file, const std::string& name, const std::vector<Column>& columns,
                                  bool has_id) {
  std::string sql = absl::StrCat("CREATE TABLE ", SqlName(name), " (");
  for (const Column& column : columns) {
    const bool is_first = &column == columns.data();
    const ColumnType type = column.type;
    absl::StrAppend(&sql, is_first ? "" : ", ", SqlName(column.name),
                    type == ColumnType::kText      ? " TEXT"
                    : type == ColumnType::kInteger ? " INTEGER"
                                                   : " REAL",
                    is_first && has_id ? " PRIMARY KEY" : "");
  }
  file.Run(sql + ")");
  return std::make_unique<SqliteRows>(file, name, columns.size());
}

}  // namespace

absl::Status ExportSqlite(const Timeline& run, const std::vector<Table>& tables, const ExportOptions& /*options*/,
                          const std::string& path) {
  SqliteFile file(path);
  std::vector<std::pair<std::string, std::string>> views;
  for (const View& view : kViews) views.emplace_back(view.name, view.title);
  WriteAllTables(run, tables, views, [&](const auto&... table) { return Create(file, table...); });
  for (const View& view : kViews) file.Run(absl::StrCat("CREATE VIEW ", view.name, " AS ", view.select));
  for (const auto& [table, column] : kIndexed) {
    file.Run(absl::StrCat("CREATE INDEX ", table, "_", column, " ON ", table, " (", column, ")"));
  }
  return file.Finish();
}

}  // namespace dlhook::analyzer::exports
