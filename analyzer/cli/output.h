// Where results, messages and progress go.
#ifndef DLHOOK_ANALYZER_CLI_OUTPUT_H_
#define DLHOOK_ANALYZER_CLI_OUTPUT_H_

#include <unistd.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "analyzer/cli/command.h"

namespace dlhook::analyzer::inline cli {

// All that dlhook writes for people and other programs passes here. kText: lines, which are made harmless (VisibleLines in
// analyzer/render/escape.h); kBytes: of a format that is no text.
enum class OutputKind : uint8_t { kText, kBytes };

// Writes to stdout, or to `fd`. OutOfRange: nobody reads any more (a closed pipe), which is no error of anyone's.
absl::Status WriteOutput(absl::string_view output, OutputKind kind = OutputKind::kText, int fd = STDOUT_FILENO);

// WriteOutput as the last thing that a command does; returns the exit code.
int PrintOutput(absl::string_view output, OutputKind kind = OutputKind::kText);

// Writes a new file, or over an old one.
absl::Status WriteOutputFile(const std::string& path, absl::string_view output, OutputKind kind);

// One message on stderr, a line with "dlhook: " before it; `help`: lines below it.
void PrintError(absl::string_view message, absl::string_view help = "");

// Columns of the terminal that `fd` is; where it is none COLUMNS, else 80.
int OutputWidth(int fd = STDOUT_FILENO);

// --color auto, always or never.
Flag ColorFlag();
// auto: where `fd` is a terminal that is not "dumb", unless NO_COLOR is set (no-color.org).
bool IsColorful(int fd);
absl::StatusOr<bool> ReadColorFlag(const Args& args, int fd);

// "reading RUN: 40%" on stderr while a large run is read, if that is a terminal. Taken away at the
// end.
class ReadingProgress {
 public:
  explicit ReadingProgress(absl::string_view name);
  ~ReadingProgress();

  void Update(uint64_t done, uint64_t all);

 private:
  std::string name_;
  bool is_terminal_;
  int shown_percent_ = -1;
};

}  // namespace dlhook::analyzer::cli

#endif  // DLHOOK_ANALYZER_CLI_OUTPUT_H_
