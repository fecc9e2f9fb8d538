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

namespace dlhook::analyzer::inline exports {
namespace {

// Arguments: the database, the folder. One pass over each table in pieces; rows of a process are mostly in a row.
constexpr char kScript[] = R"py(
import sys
sys.path[:] = [path for path in sys.path if path]  # nothing of the working folder
import os, sqlite3
try:
    import pyarrow, pyarrow.parquet
except ImportError as error:
    sys.exit(f"{error}; pip install pyarrow, or name a Python that has it with --python")
database, folder = sqlite3.connect(sys.argv[1]), sys.argv[2]
TYPES = {"INTEGER": pyarrow.int64(), "REAL": pyarrow.float64(), "TEXT": pyarrow.string()}
explained = {(table, name): (unit or "", text or "") for table, name, unit, text in database.execute("SELECT * FROM columns")}
process_of = dict(database.execute("SELECT thread_id, process_id FROM raw_threads"))

class Files:
    def __init__(self, table, fields):
        self.table, self.writer, self.process, self.parts = table, None, None, {}
        names = [name for name, _ in fields]
        self.schema = pyarrow.schema([pyarrow.field(name, TYPES[kind], metadata=dict(zip(("unit", "explanation"),
            explained.get((table, name), ("", ""))))) for name, kind in fields])
        self.by = names.index("process_id") if "process_id" in names else names.index("thread_id") if "thread_id" in names else None
        self.by_thread = self.by is not None and "process_id" not in names
        if not table.startswith("raw_") or table in ("raw_processes", "raw_threads", "raw_steps"):
            self.by = None

    def process_of(self, row):
        return None if self.by is None else process_of[row[self.by]] if self.by_thread else row[self.by]

    def write(self, process, rows):
        if self.writer is None or process != self.process:
            self.close()
            self.process, part = process, self.parts.get(process, 0)
            self.parts[process] = part + 1
            path = f"{self.table}.parquet" if process is None else f"{self.table}/process={process}/part-{part}.parquet"
            path = os.path.join(folder, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self.writer = pyarrow.parquet.ParquetWriter(path, self.schema)
        columns = zip(*rows) if rows else [()] * len(self.schema)
        self.writer.write_table(pyarrow.table([pyarrow.array(column, field.type) for column, field in zip(columns, self.schema)],
                                              schema=self.schema))

    def close(self):
        if self.writer:
            self.writer.close()

def rows_of(table):
    return database.execute(f'SELECT max(rowid) FROM "{table}"').fetchone()[0] or 0

TABLES = [table for (table,) in database.execute("SELECT name FROM tables WHERE kind != 'view'")] + ["tables", "columns", "notes"]
done, all_rows = 0, sum(map(rows_of, TABLES))
for table in TABLES:
    files = Files(table, [(row[1], row[2]) for row in database.execute(f'PRAGMA table_info("{table}")')])
    cursor = database.execute(f'SELECT * FROM "{table}"')
    if files.by is None:
        files.write(None, [])
    while rows := cursor.fetchmany(1 << 16):
        print(done, all_rows, flush=True)
        done, begin = done + len(rows), 0
        for end in range(1, len(rows) + 1):
            if end == len(rows) or files.process_of(rows[end]) != files.process_of(rows[begin]):
                files.write(files.process_of(rows[begin]), rows[begin:end])
                begin = end
    files.close()
)py";

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
      Run({python, "-B", "-c", kScript, database, folder}, [&](const std::string& line) {
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
