// `dlhook top`: the answer about a run that goes on, again and again.
#include <langinfo.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>

#include <clocale>

#include "analyzer/answer/live.h"
#include "analyzer/answer/sentences.h"
#include "analyzer/answer/standing.h"
#include "analyzer/cli/launch.h"
#include "analyzer/cli/live_processes.h"
#include "analyzer/cli/run_file.h"
#include "analyzer/cli/tables.h"
#include "analyzer/io/ring_file.h"
#include "analyzer/model/oddities.h"
#include "analyzer/reader/trace_tail.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/text_columns.h"
#include "analyzer/symbols/add_symbols.h"
#include "analyzer/table/table_ops.h"
#include "preload/format/clock.h"

namespace dlhook::analyzer::inline cli {
namespace {

constexpr std::chrono::milliseconds kRefresh(1000);
constexpr int kBusyParts = 4;  // of the time, one is for reading at most: the program needs the processors
constexpr uint64_t kMostBytes = 16 << 20;
constexpr int kNice = 10;
// A run hangs if it records nothing for so long: longer than garbage collections, checkpoints and waits for input
// usually take.
constexpr int64_t kSilentNs = 5'000'000'000;
constexpr double kSilentSteps = 10;
constexpr size_t kMostThreads = 4;

// How much of the newest part is read. Enough: with that many steps. The last one is taken as it is.
struct Window {
  int64_t seconds;
  uint64_t bytes;
};
constexpr Window kWindows[] = {{10, 1 << 20}, {60, 4 << 20}, {1'000'000, kMostBytes}};
constexpr size_t kWholeWindow = std::size(kWindows) - 1;
constexpr size_t kEnoughSteps = 20;
constexpr size_t kManySteps = 400;  // a smaller window will do next time

class Live {
 public:
  Live(std::string path, LiveOptions options)
      : path_(std::move(path)), options_(std::move(options)), run_(path_, kMostBytes) {}

  void SetWidth(int width) {
    if (options_.width != static_cast<size_t>(width)) shown_calls_ = -1;
    options_.width = static_cast<size_t>(width);
  }

  // Reads what was added. Not OK: there is nothing to show yet.
  absl::Status Refresh() {
    if (absl::Status status = run_.Read(); !status.ok()) {
      text_ = absl::StrCat(status.message(), "\nWaiting for it.\n");
      history_ = StepHistory();
      shown_calls_ = -1;
      return status;
    }
    if (run_.calls() != shown_calls_) Analyze();
    text_ = absl::StrCat(StateText(), below_);
    return absl::OkStatus();
  }

  const std::string& text() const { return text_; }
  // None of its processes lives.
  bool is_over() const { return is_over_; }

 private:
  void Analyze() {
    if (history_.size() == 0) Analyze(kWindows[kWholeWindow], false);  // for what was before
    for (;; ++window_) {
      const size_t steps = Analyze(kWindows[window_], true);
      if (steps < kEnoughSteps && window_ < kWholeWindow) continue;
      if (steps >= kManySteps && window_ > 0) --window_;
      break;
    }
    shown_calls_ = run_.calls();
  }

  // Returns the number of steps in it.
  size_t Analyze(const Window& window, bool shows) {
    TraceModel model = run_.Last(window.seconds, window.bytes);
    AddSymbols({.cache_folder = CacheFolder()}, &model);
    const absl::StatusOr<Peaks> peaks = FindPeaks(model, std::nullopt);
    const RunAnalysis analysis(&model, {}, peaks.ok() ? *peaks : Peaks());
    const StepFacts facts(model, analysis.options());
    AddSteps(facts, &history_);
    size_t steps = 0;
    for (const StepTrack& track : analysis.layers().steps()) steps += track.steps.size();
    if (!shows) return steps;
    const absl::StatusOr<std::string> screen = MakeLiveScreen(facts, history_, options_);
    above_ = WhatRan(facts);
    below_ = screen.ok() ? *screen : absl::StrCat(screen.status().message(), "\n");
    // Other oddities may come from what is not held of the run.
    newer_ = model.oddities.contains(kNewerForm) ? absl::StrCat("Found: ", kNewerForm, ".") : "";
    steps_ = "";
    if (facts.HasSteps()) {
      std::vector<int64_t> recorded;
      for (const TraceTail* trace : run_.traces()) {
        recorded.push_back(static_cast<int64_t>(trace->calls() + trace->scopes()));
      }
      steps_ = absl::StrCat(", ", model.read_spans.empty() ? "" : "about ", AboutSteps(facts, recorded), " ",
                            facts.StepNoun(), "s");
    }
    return steps;
  }

  std::string StateText() {
    std::vector<std::string> sentences = {above_,
                                          absl::StrCat(run_.calls(), " calls and ranges recorded", steps_, ".")};
    const std::vector<std::string> states = StateSentences();
    sentences.insert(sentences.end(), states.begin(), states.end());
    for (const std::string& damage : run_.damage()) sentences.push_back(damage);
    if (!newer_.empty()) sentences.push_back(newer_);
    std::string text;
    for (const std::string& sentence : sentences) {
      for (const std::string& line : Wrapped(VisibleText(sentence), std::max<size_t>(options_.width, 40))) {
        absl::StrAppend(&text, line, "\n");
      }
    }
    return text;
  }

  // Which processes ended, were killed, are paused, or hang.
  std::vector<std::string> StateSentences() {
    const auto now_ns = static_cast<int64_t>(ClockNanoseconds(CLOCK_MONOTONIC));
    const std::optional<StepTrend> trend = history_.Trend();
    const int64_t most_ns =
        std::max(kSilentNs, trend ? static_cast<int64_t>(kSilentSteps * trend->now_ns) : int64_t{0});
    std::vector<SilentProcess> silent;
    size_t ended = 0, killed = 0, elsewhere = 0, paused = 0, full = 0;
    int64_t silent_ns = INT64_MAX;
    const std::vector<const TraceTail*>& traces = run_.traces();
    for (size_t i = 0; i < traces.size(); ++i) {
      const LiveState state = StateOf(*traces[i]);
      ended += state == LiveState::kEnded ? 1 : 0;
      killed += state == LiveState::kKilled ? 1 : 0;
      elsewhere += state == LiveState::kElsewhere ? 1 : 0;
      if (state != LiveState::kRuns) continue;
      paused += traces[i]->is_recording() ? 0 : 1;
      full += traces[i]->has_reached_limit() ? 1 : 0;
      const int64_t last_ns = traces[i]->LastRecordNs();
      if (!traces[i]->is_recording() || last_ns == 0 || now_ns - last_ns < most_ns) continue;
      silent.push_back({.process = static_cast<ProcessIndex>(i)});
      silent_ns = std::min(silent_ns, now_ns - last_ns);
    }
    is_over_ = ended + killed == traces.size();
    std::vector<std::string> sentences;
    const auto add = [&](size_t count, absl::string_view one, absl::string_view several) {
      if (count == 0) return;
      sentences.push_back(absl::StrCat(
          traces.size() == 1 ? std::string("The process") : absl::StrCat(count, " of ", traces.size(), " processes"),
          " ", count == 1 ? one : several, "."));
    };
    add(ended, "has ended", "have ended");
    add(killed, "was killed, or executed another program", "were killed, or executed other programs");
    add(elsewhere, "cannot be observed from here (another machine or container): it may or may not be alive",
        "cannot be observed from here (other machines or containers): they may or may not be alive");
    add(paused, "is not being recorded (resume: dlhook ctl start)",
        "are not being recorded (resume: dlhook ctl start)");
    add(full, "has a trace that is bounded (DLHOOK_MAX_BYTES): single calls are kept in some steps only",
        "have traces that are bounded (DLHOOK_MAX_BYTES): single calls are kept in some steps only");
    if (silent.empty()) return sentences;
    sentences.push_back(absl::StrCat(
        "Nothing was recorded for ", HumanTime(static_cast<double>(silent_ns)),
        silent.size() == traces.size() ? "" : absl::StrCat(" by ", silent.size(), " of ", traces.size(), " processes"),
        ", but the program is alive. What its threads are blocked on:"));
    const std::vector<std::string> lines = StandingNow(&silent, now_ns);
    sentences.insert(sentences.end(), lines.begin(), lines.end());
    return sentences;
  }

  // Where the threads of processes stand that record nothing.
  std::vector<std::string> StandingNow(std::vector<SilentProcess>* silent, int64_t now_ns) {
    const auto recorded = [&] {
      std::vector<uint64_t> counts;
      for (const TraceTail* trace : run_.traces()) counts.push_back(trace->calls() + trace->scopes());
      return counts;
    };
    const std::vector<uint64_t> before = recorded();
    std::vector<Leftover> open(before.size());
    std::vector<std::string> lines;
    for (const SilentProcess& one : *silent) {
      absl::StatusOr<Leftover> its = DrainOpen(run_.traces()[one.process]->path());
      if (its.ok()) open[one.process] = *std::move(its);
      if (absl::IsFailedPrecondition(its.status())) lines.emplace_back(its.status().message());
    }
    // What ended before is in the files by now, and nothing that is in both.
    if (!run_.Read().ok() || recorded() != before) return {};
    for (SilentProcess& one : *silent) one.has_open = !open[one.process].packets.empty();
    const TraceModel model = run_.Last(kWindows[0].seconds, kWindows[0].bytes, open);
    const std::vector<std::string> standing =
        StandingLines(model, *silent, now_ns, kMostThreads, [&](uint32_t pid, uint32_t tid) {
          return ThreadNow{.state = ThreadState(pid, tid), .stack = stacks_.Of(pid, tid)};
        });
    lines.insert(lines.end(), standing.begin(), standing.end());
    return lines;
  }

  const std::string path_;
  LiveOptions options_;
  RecentRun run_;
  StepHistory history_;
  SleepingStacks stacks_;
  size_t window_ = 0;
  int64_t shown_calls_ = -1;
  bool is_over_ = false;
  std::string above_, steps_, newer_, below_;
  std::string text_;
};

// Plain ANSI sequences, which every terminal emulator, tmux and ssh understand. The other screen, without cursor, without wrapping of long lines; and back.
constexpr char kEnter[] = "\033[?1049h\033[?25l\033[?7l";
constexpr char kLeave[] = "\033[?7h\033[?25h\033[?1049l";
constexpr char kHome[] = "\033[H";
constexpr char kEraseRestOfLine[] = "\033[K";
constexpr char kEraseBelow[] = "\033[J";
constexpr size_t kDefaultHeight = 24;

volatile sig_atomic_t g_quit_signal = 0;
volatile sig_atomic_t g_resized = 0;

void OnQuit(int signal) { g_quit_signal = signal; }
void OnResize(int) { g_resized = 1; }

bool TakeResized() {
  const bool is_resized = g_resized != 0;
  g_resized = 0;
  return is_resized;
}

void Write(absl::string_view text) { WriteOutput(text, OutputKind::kBytes).IgnoreError(); }

size_t Height() {
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : kDefaultHeight;
}

// A screen that is drawn again and again on a terminal, which is as it was before when it ends: by a key, a signal, or an error.
class LiveTerminal {
 public:
  LiveTerminal() {
    struct sigaction action = {};
    action.sa_handler = OnQuit;
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaction(signal, &action, nullptr);
    action.sa_handler = OnResize;
    sigaction(SIGWINCH, &action, nullptr);
    const sigset_t waited_for = SignalSet({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH});
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

  ~LiveTerminal() {
    Write(kLeave);
    if (has_keys_) tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  }
  LiveTerminal(const LiveTerminal&) = delete;
  LiveTerminal& operator=(const LiveTerminal&) = delete;

  // As many lines as there is room for; `last` is the bottom one. Each line replaces what stood there: nothing is cleared first, so nothing flickers.
  void Draw(absl::string_view text, absl::string_view last) {
    const size_t height = Height();
    std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
    while (!lines.empty() && lines.back().empty()) lines.pop_back();
    lines.resize(std::min(lines.size(), height - 1));
    std::string output = kHome;
    for (const absl::string_view line : lines) absl::StrAppend(&output, VisibleLines(line), kEraseRestOfLine, "\r\n");
    absl::StrAppend(&output, kEraseBelow, "\033[", height, ";1H", VisibleLines(last), kEraseRestOfLine);
    Write(output);
  }

  // Until `time` has passed or the window changes. False: the user presses q or Ctrl-C, or closes the terminal.
  bool Wait(std::chrono::milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    for (;;) {
      if (g_quit_signal != 0) return false;
      const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(end - std::chrono::steady_clock::now());
      if (left.count() <= 0 || TakeResized()) return true;
      const timespec rest = {left.count() / 1'000'000'000, left.count() % 1'000'000'000};
      pollfd keys = {.fd = has_keys_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0};
      if (ppoll(&keys, 1, &rest, &mask_) <= 0) continue;
      char key = 'q';  // also if the terminal is gone
      if (read(STDIN_FILENO, &key, 1) < 0 && errno == EINTR) continue;
      if (key == 'q' || key == 'Q' || key == '\003') return false;
    }
  }

 private:
  bool has_keys_ = false;
  termios before_ = {};
  sigset_t mask_ = {};  // while nothing is waited for, its complement's signals are blocked
};

bool IsUnicode() {
  setlocale(LC_CTYPE, "");
  const bool is_unicode = absl::string_view(nl_langinfo(CODESET)) == "UTF-8";
  setlocale(LC_CTYPE, "C");
  return is_unicode;
}

// Until the user quits. `launched`: its launcher is waited for. Returns its exit code, if it has ended.
std::optional<int> Watch(Live* live, const std::optional<BackgroundRun>& launched) {
  LiveTerminal terminal;
  std::set_new_handler(nullptr);  // out of memory, too, it is to be left as it was
  std::optional<int> exit_code;
  // The first reading, of what there is already, takes longer than those after it.
  for (int breaks = 0;; breaks = kBusyParts) {
    const auto begin = std::chrono::steady_clock::now();
    live->SetWidth(OutputWidth());
    const bool is_shown = live->Refresh().ok();
    int wait_status = 0;
    if (launched && !exit_code && waitpid(launched->launcher, &wait_status, WNOHANG) == launched->launcher) {
      exit_code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
    }
    std::string last = is_shown && live->is_over() ? "the run is over; q quits" : "q quits; the program keeps running";
    if (exit_code) last = absl::StrCat("the program has ended with exit code ", *exit_code, "; q quits");
    if (launched) absl::StrAppend(&last, "; its output: ", launched->output);
    terminal.Draw(live->text(), last);
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
    if (!terminal.Wait(std::max(kRefresh, breaks * std::min(took, kRefresh)))) return exit_code;
  }
}

absl::StatusOr<int> RunTop(const Args& args) {
  const bool once = args.Has("once");
  if (!once && !IsTerminal(STDOUT_FILENO)) {
    return absl::FailedPreconditionError("needs a terminal whose cursor can be moved; --once prints the screen once");
  }
  if (args.has_program() && once)
    return absl::InvalidArgumentError("--once shows a run that is being recorded; it starts no program");
  if (!args.has_program() && args.operands().size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected one run, found '", args.operands()[1], "' too; before the words of a program comes --"));
  }
  if (!args.has_program() && args.Has("output")) {
    return absl::InvalidArgumentError("-o names the folder for a program, which comes after --");
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> ignored, ReadIgnored(args));
  std::optional<BackgroundRun> launched;
  std::string path;
  if (args.has_program() && !args.operands().empty()) {
    ASSIGN_OR_RETURN(launched, StartInBackground(args));
    path = launched->run;
  } else if (args.operands().empty()) {
    ASSIGN_OR_RETURN(path, LatestRun("."));
  } else {
    path = args.operands().front();
  }
  setpriority(PRIO_PROCESS, 0, kNice);
  Live live(path, {.width = static_cast<size_t>(OutputWidth()),
                   .color = WantsColor(args),
                   .unicode = IsUnicode(),
                   .ignored_findings = ignored});
  if (once) {
    RETURN_IF_ERROR(live.Refresh());
    return PrintOutput(live.text());
  }
  const std::optional<int> exit_code = Watch(&live, launched);
  if (g_quit_signal != 0 && g_quit_signal != SIGINT) return 128 + g_quit_signal;
  if (live.is_over()) PrintOutput(live.text());
  if (launched && !exit_code) {
    PrintError(absl::StrCat("top: the program keeps running; dlhook top ", path,
                            " shows it again; its output: ", launched->output));
  }
  return exit_code.value_or(kExitOk);
}

}  // namespace

Command TopCommand() {
  return {.name = "top",
          .summary = "live view of a running program, updated every second",
          .operands = "[RUN | -- PROGRAM [WORD]...]",
          .flags = Joined(
              {{{"once", "", "print the screen once: for scripts"}, RunFolderFlag()}, IgnoreFlags(), {ColorFlag()}}),
          .examples = {{"dlhook top", "the latest run here"},
                       {"dlhook top -o first -- python train.py",
                        "starts it and records it into the folder first, as dlhook run does"},
                       {"dlhook top RUN --once", "the current state, once, as text"}},
          .operand_count = {0, SIZE_MAX},
          .details =
              "The newest part of a running program, read again every second: the current step time and\n"
              "its history, where a step goes, the heaviest layers, findings, and, if it hangs, what each\n"
              "thread is blocked on. RUN need not exist yet. q or Ctrl-C quits; the program keeps running.\n"
              "A program after -- is recorded, with its output in output.txt in the run's folder; if it\n"
              "has ended, its exit code is that of dlhook top.\n",
          .run = RunTop};
}

}  // namespace dlhook::analyzer::cli
