// A database file being written by SQLite, from nothing. The first error stays; what is done after it has no effect.
#ifndef DLHOOK_ANALYZER_EXPORT_SQLITE_FILE_H_
#define DLHOOK_ANALYZER_EXPORT_SQLITE_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

struct sqlite3;
struct sqlite3_stmt;

namespace dlhook::analyzer::inline exports {

class SqliteFile {
 public:
  explicit SqliteFile(const std::string& path);  // must not exist
  ~SqliteFile();
  SqliteFile(const SqliteFile&) = delete;
  SqliteFile& operator=(const SqliteFile&) = delete;

  void Run(const std::string& sql);
  absl::Status Finish();  // commits
  const absl::Status& status() const { return status_; }

 private:
  friend class SqliteRows;
  void Check(int code);

  const std::string path_;
  sqlite3* file_ = nullptr;
  absl::Status status_;
};

// An identifier as it stands in SQL.
std::string SqlName(absl::string_view name);

// The rows of a table, cell by cell in the order of its columns.
class SqliteRows {
 public:
  SqliteRows(SqliteFile& file, absl::string_view table, size_t columns);
  ~SqliteRows();
  SqliteRows(const SqliteRows&) = delete;
  SqliteRows& operator=(const SqliteRows&) = delete;

  SqliteRows& Integer(int64_t value);
  SqliteRows& Index(uint32_t value);  // kNone: NULL
  SqliteRows& Real(double value);
  SqliteRows& Text(absl::string_view value);  // control characters are spelled out; empty: NULL
  SqliteRows& Null();
  void End();

 private:
  SqliteFile& file_;
  sqlite3_stmt* insert_ = nullptr;
  int cell_ = 0;
};

}  // namespace dlhook::analyzer::exports

#endif  // DLHOOK_ANALYZER_EXPORT_SQLITE_FILE_H_
