// `dlhook top`: the answer about a run that goes on, again and again.
#include <errno.h>
#include <langinfo.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <clocale>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "analyzer/answer/live.h"
#include "analyzer/cli/commands.h"
#include "analyzer/cli/ignored.h"
#include "analyzer/cli/live_terminal.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/report.h"
#include "analyzer/cli/run_peaks.h"
#include "analyzer/cli/symbol_options.h"
#include "analyzer/cli/tables.h"
#include "analyzer/model/recent_run.h"
#include "analyzer/symbols/add_symbols.h"
#include "analyzer/table/human.h"
#include "preload/format/clock.h"

namespace dlhook::analyzer::inline cli {
namespace {

constexpr std::chrono::milliseconds kRefresh(1000);
constexpr int kBusyParts = 4;  // of the time, one is for reading at most: the program needs the processors
constexpr uint64_t kMostBytes = 16 << 20;
constexpr int kNice = 10;

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

  // Reads what was added; false: there is nothing to show yet, text() says why.
  bool Refresh() {
    if (absl::Status status = run_.Read(); !status.ok()) {
      text_ = std::string(status.message());
      return false;
    }
    if (run_.calls() != shown_calls_) Analyze();
    text_ = screen_;
    return true;
  }

  const std::string& text() const { return text_; }

 private:
  void Analyze() {
    const bool is_first = history_.size() == 0;
    if (is_first) Analyze(kWindows[kWholeWindow], false);  // for what was before
    for (;; ++window_) {
      const size_t steps = Analyze(kWindows[window_], true);
      if (steps >= kManySteps && window_ > 0) --window_;
      if (steps >= kEnoughSteps || window_ == kWholeWindow) break;
    }
    shown_calls_ = run_.calls();
  }

  // Returns the number of steps in it.
  size_t Analyze(const Window& window, bool shows) {
    TraceModel model = run_.Last(window.seconds, window.bytes);
    AddSymbols(SymbolOptionsFor(path_), &model);
    const absl::StatusOr<Peaks> peaks = FindPeaks(model, std::nullopt);
    const RunAnalysis analysis(&model, {}, peaks.ok() ? *peaks : Peaks());
    const StepFacts facts(model, analysis.options());
    AddSteps(facts, &history_);
    size_t steps = 0;
    for (const StepTrack& track : analysis.layers().steps()) steps += track.steps.size();
    if (!shows) return steps;
    const absl::StatusOr<std::string> screen = MakeLiveScreen(facts, history_, {StateSentence(facts)}, options_);
    screen_ = screen.ok() ? *screen : absl::StrCat(screen.status().message(), "\n");
    return steps;
  }

  std::string StateSentence(const StepFacts& facts) const {
    const std::string calls = absl::StrCat(run_.calls(), " calls and ranges are recorded");
    if (!facts.HasSteps()) return absl::StrCat(calls, ".");
    return absl::StrCat(calls, ", ", facts.model().read_spans.empty() ? "" : "about ", AboutSteps(facts, run_.calls()),
                        " ", facts.StepNoun(), "s.");
  }

  const std::string path_;
  LiveOptions options_;
  RecentRun run_;
  StepHistory history_;
  size_t window_ = 0;
  int64_t shown_calls_ = -1;
  std::string screen_;
  std::string text_;
};

bool IsUnicode() {
  setlocale(LC_CTYPE, "");
  const bool is_unicode = absl::string_view(nl_langinfo(CODESET)) == "UTF-8";
  setlocale(LC_CTYPE, "C");
  return is_unicode;
}

int Fail(const absl::Status& status) {
  PrintError(absl::StrCat("top: ", status.message()));
  return kExitBadInput;
}

void Watch(Live* live) {
  LiveTerminal terminal;
  for (;;) {
    const auto begin = std::chrono::steady_clock::now();
    live->SetWidth(OutputWidth());
    live->Refresh();
    terminal.Draw(live->text(), "q quits");
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
    if (terminal.Wait(std::max(kRefresh, kBusyParts * took)) == LiveTerminal::Event::kQuit) return;
  }
}

int RunTop(const Args& args) {
  const bool once = args.Has("once");
  if (!once && !LiveTerminal::IsThere()) {
    return Fail(
        absl::FailedPreconditionError("needs a terminal whose cursor can be moved; --once prints the screen once"));
  }
  absl::StatusOr<std::vector<std::string>> ignored = ReadIgnored(args);
  if (!ignored.ok()) return Fail(ignored.status());
  const absl::StatusOr<bool> color = ReadColorFlag(args, STDOUT_FILENO);
  if (!color.ok()) return Fail(color.status());
  const absl::StatusOr<std::string> path = args.operands().empty() ? LatestRun(".") : args.operands().front();
  if (!path.ok()) return Fail(path.status());
  setpriority(PRIO_PROCESS, 0, kNice);
  Live live(*path, {.width = static_cast<size_t>(OutputWidth()),
                    .color = *color,
                    .unicode = IsUnicode(),
                    .ignored_findings = *std::move(ignored)});
  if (once) {
    if (!live.Refresh()) return Fail(absl::NotFoundError(live.text()));
    return PrintOutput(live.text());
  }
  Watch(&live);
  return kExitOk;
}

std::string Details() {
  return "The newest part of a run that goes on, read again each second: the step time now and\n"
         "before, where a step goes, the heaviest layers, findings. q quits; the program goes on.\n";
}

}  // namespace

Command TopCommand() {
  Command command = {
      .name = "top",
      .summary = "a run that goes on, on the terminal, refreshed each second",
      .operands = "[RUN]",
      .flags = {{"once", "", "print the screen once: for scripts"}, ColorFlag()},
      .examples = {{"dlhook top", "the latest run here"}, {"dlhook top RUN --once", "how it goes just now, as text"}},
      .min_operands = 0,
      .max_operands = 1,
      .details = Details,
      .run = RunTop};
  const std::vector<Flag> ignore_flags = IgnoreFlags();
  command.flags.insert(command.flags.end() - 1, ignore_flags.begin(), ignore_flags.end());
  return command;
}

}  // namespace dlhook::analyzer::cli
