// See live_terminal.h. Plain ANSI sequences, which every terminal emulator, tmux and ssh understand.
#include "analyzer/cli/live_terminal.h"

#include <errno.h>
#include <poll.h>
#include <sys/ioctl.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/cli/output.h"
#include "analyzer/render/escape.h"

namespace dlhook::analyzer::inline cli {
namespace {

// The other screen, without cursor, without wrapping of long lines; and back.
constexpr char kEnter[] = "\033[?1049h\033[?25l\033[?7l";
constexpr char kLeave[] = "\033[?7h\033[?25h\033[?1049l";
constexpr char kHome[] = "\033[H";
constexpr char kEraseRestOfLine[] = "\033[K";
constexpr char kEraseBelow[] = "\033[J";
constexpr size_t kDefaultHeight = 24;
constexpr int kQuitSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

volatile sig_atomic_t g_quit_signal = 0;
volatile sig_atomic_t g_resized = 0;

void OnQuit(int signal) { g_quit_signal = signal; }
void OnResize(int) { g_resized = 1; }
void Write(absl::string_view text) { WriteOutput(text, OutputKind::kBytes).IgnoreError(); }

size_t Height() {
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : kDefaultHeight;
}

}  // namespace

LiveTerminal::LiveTerminal() {
  sigset_t waited_for;
  sigemptyset(&waited_for);
  struct sigaction action = {};
  action.sa_handler = OnQuit;
  for (const int signal : kQuitSignals) {
    sigaction(signal, &action, nullptr);
    sigaddset(&waited_for, signal);
  }
  action.sa_handler = OnResize;
  sigaction(SIGWINCH, &action, nullptr);
  sigaddset(&waited_for, SIGWINCH);
  sigprocmask(SIG_BLOCK, &waited_for, &mask_);
  if (isatty(STDIN_FILENO) != 0 && tcgetattr(STDIN_FILENO, &before_) == 0) {
    has_keys_ = true;
    termios keys = before_;
    keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    keys.c_cc[VSUSP] = _POSIX_VDISABLE;  // a stopped program would leave its screen behind
    tcsetattr(STDIN_FILENO, TCSADRAIN, &keys);
  }
  Write(kEnter);
}

LiveTerminal::~LiveTerminal() {
  Write(kLeave);
  if (has_keys_) tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
}

int LiveTerminal::signal() { return g_quit_signal; }

// Each line replaces what stood there: nothing is cleared first, so nothing flickers.
void LiveTerminal::Draw(absl::string_view text, absl::string_view last) {
  const size_t height = Height();
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  lines.resize(std::min(lines.size(), height - 1));
  std::string output = kHome;
  for (const absl::string_view line : lines) absl::StrAppend(&output, VisibleLines(line), kEraseRestOfLine, "\r\n");
  absl::StrAppend(&output, kEraseBelow, "\033[", height, ";1H", VisibleLines(last), kEraseRestOfLine);
  Write(output);
}

LiveTerminal::Event LiveTerminal::Wait(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  for (;;) {
    if (g_quit_signal != 0) return Event::kQuit;
    if (g_resized != 0) {
      g_resized = 0;
      return Event::kResized;
    }
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return Event::kTime;
    const timespec rest = {left.count() / 1'000'000'000, left.count() % 1'000'000'000};
    pollfd keys = {.fd = has_keys_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0};
    if (ppoll(&keys, 1, &rest, &mask_) <= 0) continue;
    char key = 'q';  // also if the terminal is gone
    if (read(STDIN_FILENO, &key, 1) < 0 && errno == EINTR) continue;
    if (key == 'q' || key == 'Q' || key == '\003') return Event::kQuit;
  }
}

}  // namespace dlhook::analyzer::cli
