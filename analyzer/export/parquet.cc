// All tables as Parquet files, written by pyarrow in a child process: Debian has no library of Arrow for C++, and who reads Parquet
// has Python's. The child gets columns as Arrow has them in memory, through a socket (parquet.py: how), and makes no object of a
// value. Arrow's own stream format would need its metadata as flatbuffers, some ten thousand lines of others' code, for what a line
// of JSON says. Raw tables that belong to processes are divided by them: raw_calls/process=0/part-0.parquet.

#include <filesystem>
#include <system_error>

#include "absl/base/casts.h"
#include "analyzer/export/exporter.h"
#include "analyzer/export/raw_tables.h"
#include "analyzer/io/child_process.h"
#include "analyzer/render/escape.h"
#include "nlohmann/json.hpp"

// parquet_py.S
extern "C" const char dlhook_parquet_py[];

namespace dlhook::analyzer::inline exports {
namespace {

constexpr size_t kBatchRows = 1 << 17;

class ArrowRows : public TableRows {
 public:
  ArrowRows(const TraceModel& model, ChildProcess& child, const std::string& name, const std::vector<Column>& columns)
      : model_(model), child_(child), columns_(columns.size()) {
    static constexpr const char* kTypes[] = {"text", "integer", "real"};
    Json begin = {{"table", name}, {"columns", Json::array()}};
    const bool is_divided =
        absl::StartsWith(name, "raw_") && name != "raw_processes" && name != "raw_threads" && name != "raw_steps";
    for (size_t i = 0; i < columns.size(); ++i) {
      const Column& column = columns[i];
      begin["columns"].push_back(
          {column.name, kTypes[static_cast<size_t>(column.type)], column.unit, column.explanation});
      columns_[i].is_text = column.type == ColumnType::kText;
      if (!is_divided || (column.name != "process_id" && (column.name != "thread_id" || by_process_))) continue;
      by_process_ = column.name == "process_id";
      by_ = i;
    }
    child_.Send(begin.dump() + "\n");
  }
  ~ArrowRows() override {
    if (rows_ > 0 || by_ == kNoColumn) Flush();
  }

  TableRows& Integer(int64_t value) override {
    if (cell_ == by_) process_ = by_process_ ? value : model_.threads[static_cast<size_t>(value)].process;
    return Add(value, true);
  }
  TableRows& Real(double value) override { return Add(absl::bit_cast<int64_t>(value), true); }
  TableRows& Text(absl::string_view value) override {
    if (value.empty()) return Null();
    columns_[cell_].texts += VisibleText(value);
    return Add(0, true);
  }
  TableRows& Null() override { return Add(0, false); }
  void End() override {
    cell_ = 0;
    if (rows_ > 0 && (rows_ == kBatchRows || process_ != of_rows_)) Flush();
    of_rows_ = process_;
    ++rows_;
  }

 private:
  using Json = nlohmann::json;
  static constexpr size_t kNoColumn = SIZE_MAX;
  struct Values {
    bool is_text = false;
    std::vector<int64_t> values;  // of a text where it ends in `texts`
    std::string texts;
    std::vector<bool> known;
  };

  TableRows& Add(int64_t value, bool is_known) {
    Values& column = columns_[cell_++];
    column.values.push_back(column.is_text ? std::ssize(column.texts) : value);
    column.known.push_back(is_known);
    return *this;
  }

  // rows_ of them, which a row of the next batch may follow.
  void Flush() {
    Json batch = {{"process", by_ == kNoColumn ? Json() : Json(of_rows_)}, {"rows", rows_}, {"sizes", Json::array()}};
    std::string buffers;
    const auto add = [&](const void* data, size_t size) {
      buffers.append(static_cast<const char*>(data), size);
      batch["sizes"].back().push_back(size);
    };
    for (Values& column : columns_) {
      batch["sizes"].push_back(Json::array());
      std::string bits((rows_ + 7) / 8, '\0');
      for (size_t i = 0; i < rows_; ++i) bits[i / 8] = static_cast<char>(bits[i / 8] | int{column.known[i]} << i % 8);
      add(bits.data(), bits.size());
      if (column.is_text) {
        std::vector<int32_t> ends = {0};
        ends.insert(ends.end(), column.values.begin(), column.values.begin() + static_cast<ptrdiff_t>(rows_));
        add(ends.data(), ends.size() * sizeof(int32_t));
        add(column.texts.data(), static_cast<size_t>(ends.back()));
        column.texts.erase(0, static_cast<size_t>(ends.back()));
      } else {
        add(column.values.data(), rows_ * sizeof(int64_t));
      }
      if (column.is_text && column.values.size() > rows_) column.values.back() = std::ssize(column.texts);
      column.values.erase(column.values.begin(), column.values.begin() + static_cast<ptrdiff_t>(rows_));
      column.known.erase(column.known.begin(), column.known.begin() + static_cast<ptrdiff_t>(rows_));
    }
    if (child_.Send(batch.dump() + "\n")) child_.Send(buffers);
    rows_ = 0;
  }

  const TraceModel& model_;
  ChildProcess& child_;
  std::vector<Values> columns_;
  size_t by_ = kNoColumn;    // tells the process
  bool by_process_ = false;  // itself; else its thread
  size_t cell_ = 0;
  size_t rows_ = 0;
  int64_t process_ = 0;  // of the last row …
  int64_t of_rows_ = 0;  // … and of those before it
};

}  // namespace

absl::Status ExportParquet(const Timeline& run, const std::vector<Table>& tables, const ExportOptions& options,
                           const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", error.message()));
  ChildProcess child(options.python,
                     {options.python, "-B", "-c", dlhook_parquet_py, path, absl::StrCat(kSchemaVersion)});
  WriteAllTables(run, tables, {}, [&](const std::string& name, const std::vector<Column>& columns, bool /*has_id*/) {
    return std::make_unique<ArrowRows>(run.model, child, name, columns);
  });
  const absl::Status status = child.Finish();
  return status.ok() ? status : absl::Status(status.code(), absl::StrCat("parquet: ", status.message()));
}

}  // namespace dlhook::analyzer::exports
