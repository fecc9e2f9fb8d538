// Writing through libsqlite3: see sqlite_file.h.
#include "analyzer/export/sqlite_file.h"

#include <sqlite3.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "analyzer/render/escape.h"

namespace dlhook::analyzer::inline exports {

SqliteFile::SqliteFile(const std::string& path) : path_(path) {
  Check(
      sqlite3_open_v2(path.c_str(), &file_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr));
  // A file that is not finished is thrown away: it needs no journal.
  Run("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; BEGIN");
}

SqliteFile::~SqliteFile() { sqlite3_close(file_); }

void SqliteFile::Run(const std::string& sql) {
  if (status_.ok()) Check(sqlite3_exec(file_, sql.c_str(), nullptr, nullptr, nullptr));
}

absl::Status SqliteFile::Finish() {
  Run("COMMIT");
  return status_;
}

void SqliteFile::Check(int code) {
  if (code == SQLITE_OK || code == SQLITE_DONE || !status_.ok()) return;
  status_ = absl::UnavailableError(absl::StrCat("cannot write ", path_, ": ", sqlite3_errmsg(file_)));
}

std::string SqlName(absl::string_view name) {
  return absl::StrCat("\"", absl::StrReplaceAll(VisibleText(name), {{"\"", "\"\""}}), "\"");
}

SqliteRows::SqliteRows(SqliteFile& file, absl::string_view table, size_t columns) : file_(file) {
  std::string sql = absl::StrCat("INSERT INTO ", SqlName(table), " VALUES (");
  for (size_t i = 0; i < columns; ++i) absl::StrAppend(&sql, i == 0 ? "?" : ", ?");
  sql += ")";
  if (!file_.status_.ok()) return;
  file_.Check(sqlite3_prepare_v2(file_.file_, sql.c_str(), -1, &insert_, nullptr));
}

SqliteRows::~SqliteRows() { sqlite3_finalize(insert_); }

TableRows& SqliteRows::Integer(int64_t value) {
  sqlite3_bind_int64(insert_, ++cell_, value);
  return *this;
}

TableRows& SqliteRows::Real(double value) {
  sqlite3_bind_double(insert_, ++cell_, value);
  return *this;
}

TableRows& SqliteRows::Text(absl::string_view value) {
  if (value.empty()) return Null();
  const std::string text = VisibleText(value);
  sqlite3_bind_text64(insert_, ++cell_, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  return *this;
}

TableRows& SqliteRows::Null() {
  sqlite3_bind_null(insert_, ++cell_);
  return *this;
}

void SqliteRows::End() {
  cell_ = 0;
  if (!file_.status_.ok()) return;
  file_.Check(sqlite3_step(insert_));
  sqlite3_reset(insert_);
}

}  // namespace dlhook::analyzer::exports
