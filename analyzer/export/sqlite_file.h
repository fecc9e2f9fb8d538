// A database file being written by SQLite, from nothing. The first error stays; what is done after it has no effect.
#ifndef DLHOOK_ANALYZER_EXPORT_SQLITE_FILE_H_
#define DLHOOK_ANALYZER_EXPORT_SQLITE_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "analyzer/export/table_rows.h"

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

class SqliteRows : public TableRows {
 public:
  SqliteRows(SqliteFile& file, absl::string_view table, size_t columns);
  ~SqliteRows() override;
  SqliteRows(const SqliteRows&) = delete;
  SqliteRows& operator=(const SqliteRows&) = delete;

  TableRows& Integer(int64_t value) override;
  TableRows& Real(double value) override;
  TableRows& Text(absl::string_view value) override;
  TableRows& Null() override;
  void End() override;

 private:
  SqliteFile& file_;
  sqlite3_stmt* insert_ = nullptr;
  int cell_ = 0;
};

}  // namespace dlhook::analyzer::exports

#endif  // DLHOOK_ANALYZER_EXPORT_SQLITE_FILE_H_
