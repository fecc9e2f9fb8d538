// stdout by write(2): stdio would hide a closed pipe until the end.
#include "analyzer/cli/output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace dlhook::analyzer {
namespace {

constexpr uint64_t kLargeRunBytes = 64 << 20;  // read in about a second
constexpr int kDefaultWidth = 80;

}  // namespace

// SIGPIPE is left as it is (`run` hands it on to its program): by default it ends dlhook without a
// word, and where it is ignored, write() says so.
absl::Status WriteOutput(absl::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(STDOUT_FILENO, text.data(), text.size());
    if (count >= 0) {
      text.remove_prefix(count);
    } else if (errno == EPIPE) {
      return absl::OutOfRangeError("the output was closed");
    } else if (errno != EINTR) {
      return absl::ErrnoToStatus(errno,
                                 absl::StrCat("cannot write the output: ", std::strerror(errno)));
    }
  }
  return absl::OkStatus();
}

int PrintOutput(absl::string_view text) {
  const absl::Status status = WriteOutput(text);
  if (status.ok() || absl::IsOutOfRange(status)) return kExitOk;
  PrintError(status.message());
  return kExitBadInput;
}

void PrintError(absl::string_view message) {
  const std::string line =
      absl::StrCat("dlhook: ", message, absl::EndsWith(message, "\n") ? "" : "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

int OutputWidth(int fd) {
  winsize size = {};
  if (isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return size.ws_col;
  int columns = 0;  // as shells and other tools have it, for output that goes elsewhere
  const char* variable = std::getenv("COLUMNS");
  if (variable != nullptr && absl::SimpleAtoi(variable, &columns) && columns > 0) return columns;
  return kDefaultWidth;
}

Flag ColorFlag() { return {"color", "WHEN", "auto (on a terminal, unless NO_COLOR is set), always or never"}; }

bool IsColorful(int fd) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  if (no_color != nullptr && *no_color != '\0') return false;
  return isatty(fd) != 0 && terminal != nullptr && *terminal != '\0' && std::strcmp(terminal, "dumb") != 0;
}

absl::StatusOr<bool> ReadColorFlag(const Args& args, int fd) {
  const std::string when = args.Last("color").value_or("auto");
  if (when == "always") return true;
  if (when == "never") return false;
  if (when == "auto") return IsColorful(fd);
  return absl::InvalidArgumentError(absl::StrCat("--color expects auto, always or never, found '", when, "'"));
}

ReadingProgress::ReadingProgress(std::string name)
    : name_(std::move(name)), is_terminal_(isatty(STDERR_FILENO) != 0) {}

void ReadingProgress::Update(uint64_t done, uint64_t all) {
  if (!is_terminal_ || all < kLargeRunBytes) return;
  const int percent =
      static_cast<int>(100.0 * static_cast<double>(done) / static_cast<double>(all));
  if (percent == shown_percent_) return;
  shown_percent_ = percent;
  std::fprintf(stderr, "\rreading %s: %d%%", name_.c_str(), percent);
}

ReadingProgress::~ReadingProgress() {
  if (shown_percent_ >= 0) std::fprintf(stderr, "\r\033[K");
}

}  // namespace dlhook::analyzer
