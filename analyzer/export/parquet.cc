// The tables of the SQLite database as Parquet files, written by pyarrow in a child process: Debian has no library of Arrow for C++,
// and who reads Parquet has Python's. Raw tables that belong to processes are divided by them: raw_calls/process=0/part-0.parquet.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/export/exporter.h"

extern char** environ;
// parquet_py.S
extern "C" const char dlhook_parquet_py[];

namespace dlhook::analyzer::inline exports {
namespace {

// How a child ended, and the last line that it wrote.
struct Ended {
  int status = 0;
  std::string last_line;
};

// `take`: each line that it writes.
absl::StatusOr<Ended> Run(const std::vector<std::string>& words, const std::function<void(const std::string&)>& take) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "no pipe for a child process");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  Ended ended;
  std::string line;
  char piece[4096];
  for (ssize_t count = 0; error == 0 && (count = read(ends[0], piece, sizeof(piece))) != 0;) {
    if (count < 0 && errno != EINTR) break;
    for (ssize_t i = 0; i < count; ++i) {
      if (piece[i] != '\n') line += piece[i];
      if (piece[i] != '\n' || line.empty()) continue;
      take(line);
      ended.last_line = std::exchange(line, "");
    }
  }
  close(ends[0]);
  if (error != 0) return absl::ErrnoToStatus(error, absl::StrCat("cannot run ", words[0]));
  while (waitpid(child, &ended.status, 0) < 0 && errno == EINTR) {
  }
  return ended;
}

absl::Status Convert(const Timeline& run, const std::string& python, const std::string& database,
                     const std::string& folder) {
  const absl::StatusOr<Ended> ended =
      Run({python, "-B", "-c", dlhook_parquet_py, database, folder}, [&](const std::string& line) {
        const std::vector<std::string> numbers = absl::StrSplit(line, ' ');
        uint64_t done = 0, all = 0;
        const bool is_progress =
            numbers.size() == 2 && absl::SimpleAtoi(numbers[0], &done) && absl::SimpleAtoi(numbers[1], &all);
        if (is_progress && run.progress) run.progress(done, all);
      });
  if (!ended.ok()) return absl::Status(ended.status().code(), absl::StrCat("parquet: ", ended.status().message()));
  if (WIFEXITED(ended->status) && WEXITSTATUS(ended->status) == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("parquet: ", python, ": ", ended->last_line));
}

}  // namespace

absl::Status ExportParquet(const Timeline& run, const std::vector<Table>& tables, const ExportOptions& options,
                           const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", error.message()));
  const std::string database = absl::StrCat(path, "/run.sqlite");
  if (absl::Status status = ExportSqlite(run, tables, options, database); !status.ok()) return status;
  if (absl::Status status = Convert(run, options.python, database, path); !status.ok()) return status;
  std::filesystem::remove(database, error);
  return absl::OkStatus();
}

}  // namespace dlhook::analyzer::exports
