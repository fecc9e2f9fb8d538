// All tables as Parquet files, written by pyarrow in a child process: Debian has no library of Arrow for C++, and who reads Parquet
// has Python's. The child gets columns as Arrow has them in memory, through a socket (parquet.py: how), and makes no object of a
// value. Arrow's own stream format would need its metadata as flatbuffers, some ten thousand lines of others' code, for what a line
// of JSON says. Raw tables that belong to processes are divided by them: raw_calls/process=0/part-0.parquet.
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/base/casts.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/export/exporter.h"
#include "analyzer/export/table_rows.h"
#include "analyzer/render/escape.h"
#include "nlohmann/json.hpp"

extern char** environ;
// parquet_py.S
extern "C" const char dlhook_parquet_py[];

namespace dlhook::analyzer::inline exports {
namespace {

constexpr size_t kBatchRows = 1 << 17;

// A child process with one end of a socket as its standard input, output and error output.
class Child {
 public:
  explicit Child(const std::vector<std::string>& words) {
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      error_ = errno;
      return;
    }
    socket_ = ends[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      posix_spawn_file_actions_adddup2(&actions, ends[1], file);
    }
    error_ = posix_spawnp(&child_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (socket_ >= 0) close(socket_);
  }

  // False: it takes no more.
  bool Send(absl::string_view bytes) {
    while (error_ == 0 && takes_ && !bytes.empty()) {
      const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      takes_ = sent >= 0;
      if (takes_) bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return error_ == 0 && takes_;
  }

  // Waits for its end. An error has the last line that it wrote.
  absl::Status Finish(const std::string& name) {
    if (error_ != 0) return absl::ErrnoToStatus(error_, absl::StrCat("parquet: cannot run ", name));
    shutdown(socket_, SHUT_WR);
    std::string told;
    char piece[4096];
    for (ssize_t count = 0; (count = read(socket_, piece, sizeof(piece))) != 0;) {
      if (count > 0) {
        told.append(piece, static_cast<size_t>(count));
      } else if (errno != EINTR) {
        break;
      }
    }
    int status = 0;
    while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
    const std::vector<std::string> lines = absl::StrSplit(told, '\n', absl::SkipEmpty());
    return absl::UnavailableError(absl::StrCat("parquet: ", name, ": ", lines.empty() ? "killed" : lines.back()));
  }

 private:
  int socket_ = -1;
  int error_ = 0;
  pid_t child_ = 0;
  bool takes_ = true;
};

class ArrowRows : public TableRows {
 public:
  ArrowRows(const TraceModel& model, Child& child, const std::string& name, const std::vector<Column>& columns)
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
    column.values.push_back(column.is_text ? static_cast<int64_t>(column.texts.size()) : value);
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
      if (column.is_text && column.values.size() > rows_)
        column.values.back() = static_cast<int64_t>(column.texts.size());
      column.values.erase(column.values.begin(), column.values.begin() + static_cast<ptrdiff_t>(rows_));
      column.known.erase(column.known.begin(), column.known.begin() + static_cast<ptrdiff_t>(rows_));
    }
    if (child_.Send(batch.dump() + "\n")) child_.Send(buffers);
    rows_ = 0;
  }

  const TraceModel& model_;
  Child& child_;
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
  Child child({options.python, "-B", "-c", dlhook_parquet_py, path, absl::StrCat(kSchemaVersion)});
  WriteAllTables(run, tables, {}, [&](const std::string& name, const std::vector<Column>& columns, bool /*has_id*/) {
    return std::make_unique<ArrowRows>(run.model, child, name, columns);
  });
  return child.Finish(options.python);
}

}  // namespace dlhook::analyzer::exports
