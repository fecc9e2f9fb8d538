// Uses write(2): stdio would hide a closed pipe until the end.
#include "analyzer/cli/output.h"

#include <fcntl.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "analyzer/render/escape.h"
#include "analyzer/render/text_columns.h"
#include "analyzer/table/table_ops.h"

namespace dlhook::analyzer::inline cli {
namespace {

constexpr std::chrono::seconds kBeforeProgress(1);
constexpr size_t kMostOfName = 40;
constexpr char kEraseRest[] = "\033[K";  // of a terminal's line
constexpr int kDefaultWidth = 80;

// Returns errno, or 0 if everything was written.
int WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(fd, bytes.data(), bytes.size());
    if (count >= 0) {
      bytes.remove_prefix(count);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

int WriteAll(int fd, absl::string_view output, OutputKind kind) {
  return kind == OutputKind::kText ? WriteAll(fd, VisibleLines(output)) : WriteAll(fd, output);
}

}  // namespace

// SIGPIPE is left unchanged (`run` passes it on to its program): by default it ends dlhook silently, and if it is
// ignored, write() reports an error.
absl::Status WriteOutput(absl::string_view output, OutputKind kind, int fd) {
  const int error = WriteAll(fd, output, kind);
  if (error == 0) return absl::OkStatus();
  if (error == EPIPE) return absl::OutOfRangeError("the output was closed");
  return absl::ErrnoToStatus(error, "cannot write the output");
}

int PrintOutput(absl::string_view output, OutputKind kind) {
  const absl::Status status = WriteOutput(output, kind);
  if (status.ok() || absl::IsOutOfRange(status)) return kExitOk;
  PrintError(status.message());
  return kExitBadInput;
}

absl::Status WriteOutputFile(const std::string& path, absl::string_view output, OutputKind kind) {
  return WriteOutputFile(path, kind, [&](TakeOutput take) { return take(output); });
}

absl::Status WriteOutputFile(const std::string& path, OutputKind kind,
                             absl::FunctionRef<absl::Status(TakeOutput)> write) {
  const auto status_of = [&](int error) {
    if (error == 0) return absl::OkStatus();
    return absl::ErrnoToStatus(error, absl::StrCat("cannot write ", path));
  };
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return status_of(errno);
  absl::Status status = write([&](absl::string_view output) { return status_of(WriteAll(fd, output, kind)); });
  if (close(fd) != 0 && status.ok()) status = status_of(errno);
  return status;
}

absl::StatusOr<int> PrintPage(const std::string& path, absl::string_view page) {
  if (path == "-") return PrintOutput(page, OutputKind::kBytes);
  RETURN_IF_ERROR(WriteOutputFile(path, page, OutputKind::kBytes));
  const std::string size = HumanCell(std::ssize(page), "bytes");
  return PrintOutput(absl::StrCat(path, ": ", size, "; a browser opens it.\n"));
}

int Fail(absl::string_view command, absl::string_view message, int exit_code) {
  PrintError(absl::StrCat(command, ": ", message));
  return exit_code;
}

int Fail(absl::string_view command, const absl::Status& status, int exit_code) {
  return Fail(command, status.message(), exit_code);
}

void PrintError(absl::string_view message, absl::string_view help) {
  // If stderr is unavailable, the message is lost.
  WriteOutput(absl::StrCat("dlhook: ", VisibleText(message), "\n", help), OutputKind::kText, STDERR_FILENO)
      .IgnoreError();
}

std::string Rendered(const Renderer& renderer, const Report& report) {
  if (renderer.notes != nullptr) {
    for (const std::string& note : renderer.notes(report)) PrintError(note);
  }
  return renderer.render(report);
}

int OutputWidth(int fd) {
  winsize size = {};
  if (isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  int columns = 0;  // the convention of shells and other tools for output that goes elsewhere
  const char* variable = std::getenv("COLUMNS");
  if (variable != nullptr && absl::SimpleAtoi(variable, &columns) && columns > 0) return columns;
  return kDefaultWidth;
}

Flag ColorFlag() { return {"color", "auto|always|never", "auto: on a terminal, unless NO_COLOR is set"}; }

bool IsTerminal(int fd) {
  const char* const type = std::getenv("TERM");
  return isatty(fd) != 0 && type != nullptr && *type != '\0' && std::strcmp(type, "dumb") != 0;
}

bool IsColorful(int fd) {
  const char* const no_color = std::getenv("NO_COLOR");
  return IsTerminal(fd) && (no_color == nullptr || *no_color == '\0');
}

bool WantsColor(const Args& args) {
  const std::string when = args.Last("color").value_or("auto");
  return when == "auto" ? IsColorful(STDOUT_FILENO) : when == "always";
}

Progress::Progress(absl::string_view name, Clock::time_point start)
    : name_(Shortened(VisibleText(name), kMostOfName)), start_(start), is_terminal_(isatty(STDERR_FILENO) != 0) {}

void Progress::Show(absl::string_view what, uint64_t done, uint64_t all) {
  if (!is_terminal_ || Clock::now() - start_ < kBeforeProgress) return;
  std::string text = absl::StrCat(what, " ", name_);
  if (all > 0) {
    absl::StrAppend(&text, ": ", static_cast<int>(100.0 * static_cast<double>(done) / static_cast<double>(all)), "%");
  }
  if (text == shown_) return;
  WriteAll(STDERR_FILENO, absl::StrCat("\r", text, kEraseRest));
  shown_ = std::move(text);
}

void Progress::Clear() {
  if (!shown_.empty()) WriteAll(STDERR_FILENO, absl::StrCat("\r", kEraseRest));
  shown_.clear();
}

}  // namespace dlhook::analyzer::cli
