// Writes results, messages and progress.
#pragma once

#include <unistd.h>

#include <chrono>

#include "absl/functional/function_ref.h"
#include "analyzer/cli/command.h"
#include "analyzer/render/renderer.h"

namespace dlhook::analyzer::inline cli {

// All output of dlhook passes through here. kText: lines, which are escaped (VisibleLines in analyzer/render/escape.h);
// kBytes: a binary format.
enum class OutputKind : uint8_t { kText, kBytes };

// Writes to stdout, or to `fd`. OutOfRange: the reader has closed the pipe, which is not an error.
absl::Status WriteOutput(absl::string_view output, OutputKind kind = OutputKind::kText, int fd = STDOUT_FILENO);

// WriteOutput as the last action of a command; returns the exit code.
int PrintOutput(absl::string_view output, OutputKind kind = OutputKind::kText);

// What the renderer has no place for goes to stderr, a line each; returns what it has.
std::string Rendered(const Renderer& renderer, const Report& report);

// Creates or overwrites a file; the second one with what `write` hands to its argument, piece by piece.
absl::Status WriteOutputFile(const std::string& path, absl::string_view output, OutputKind kind);
using TakeOutput = absl::FunctionRef<absl::Status(absl::string_view)>;
absl::Status WriteOutputFile(const std::string& path, OutputKind kind,
                             absl::FunctionRef<absl::Status(TakeOutput)> write);

// Writes a page to its file and says so on stdout; returns the exit code.
absl::StatusOr<int> PrintPage(const std::string& path, absl::string_view page);

// Prints one line "dlhook: MESSAGE" on stderr; `help`: lines below it.
void PrintError(absl::string_view message, absl::string_view help = "");

// How a command ends that can't do what it was called for: prints "dlhook: COMMAND: MESSAGE"; returns the exit code.
int Fail(absl::string_view command, absl::string_view message, int exit_code = kExitBadInput);
int Fail(absl::string_view command, const absl::Status& status, int exit_code = kExitBadInput);

constexpr size_t kTextLimit = 20;  // rows of a table that are still readable

// Columns of the terminal `fd`; if it is not one, COLUMNS, else 80.
int OutputWidth(int fd = STDOUT_FILENO);

bool IsTerminal(int fd);  // other than "dumb": its cursor can be moved
bool IsColorful(int fd);  // a terminal, and NO_COLOR is not set (no-color.org)
// --color auto, always or never, for stdout.
Flag ColorFlag();
bool WantsColor(const Args& args);

// "reading RUN: 40%" on stderr, if stderr is a terminal, once a command has taken a second. Erased at the end.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;
  // `start`: when the command began.
  explicit Progress(absl::string_view name, Clock::time_point start = Clock::now());
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // What is being done: "reading", "table layers of". To be told at least where a second may go by.
  void Show(absl::string_view what, uint64_t done, uint64_t all);
  void Show(absl::string_view what) { Show(what, 0, 0); }
  // Before anything else is written.
  void Clear();

 private:
  const std::string name_;
  const Clock::time_point start_;
  const bool is_terminal_;
  std::string shown_;
};

}  // namespace dlhook::analyzer::cli
