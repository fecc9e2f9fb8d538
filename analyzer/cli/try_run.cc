// fork, signals, /proc. The processes: the command itself; below it one that does all the work, in a process group of its own;
// below that, for each run, a launcher that records as `dlhook run` does, in a session of its own, and the program, in a process
// group of its own. The first two adopt what loses its parent (PR_SET_CHILD_SUBREAPER).
#include "analyzer/cli/try_run.h"

#include <sys/prctl.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/time/time.h"
#include "analyzer/calibrate/this_machine.h"
#include "analyzer/cli/collector.h"
#include "analyzer/cli/launch.h"
#include "analyzer/io/left_rings.h"
#include "analyzer/io/ring_file.h"

namespace dlhook::analyzer::inline cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
constexpr seconds kGraceOfSignal(5);       // for a program to end by each signal
constexpr milliseconds kGraceInVain(500);  // where it did not help before
constexpr seconds kGraceOfChildren(2);     // for what it leaves: helpers that remove what they shared
constexpr milliseconds kLookEvery(500);
constexpr double kLeastNs = 1e9, kMostNs = 20e9;  // of steady steps
constexpr int64_t kLeastSteps = 5;
constexpr timespec kTryNap = {0, 50 * 1000 * 1000};

Asked g_asked_of_try = Asked::kNothing;

sigset_t WatchedSignals() { return SignalSet({SIGINT, SIGTERM, SIGHUP, SIGCHLD}); }

// Sleeps a moment, and notes what was asked meanwhile.
void NapOfTry(const timespec& nap = kTryNap) {
  const sigset_t signals = WatchedSignals();
  const int signal = sigtimedwait(&signals, nullptr, &nap);
  if (signal == SIGINT) g_asked_of_try = std::max(g_asked_of_try, Asked::kReport);
  if (signal == SIGTERM || signal == SIGHUP) g_asked_of_try = Asked::kEnd;
}

// Processes below this one that have not ended.
std::vector<pid_t> Descendants() {
  std::map<pid_t, pid_t> parents;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
    const std::string stat = ReadSmallFile(absl::StrCat("/proc/", pid, "/stat"));
    const std::vector<std::string> words = absl::StrSplit(stat.substr(std::min(stat.rfind(')') + 1, stat.size())), ' ');
    pid_t parent = 0;  // " S 4711 ..."
    if (words.size() > 2 && words[1] != "Z" && absl::SimpleAtoi(words[2], &parent)) parents[pid] = parent;
  }
  std::vector<pid_t> found;
  for (const auto& [pid, parent] : parents) {
    pid_t above = parent;
    for (size_t depth = 0; above > 1 && above != getpid() && depth < parents.size(); ++depth) {
      const auto next = parents.find(above);
      above = next == parents.end() ? 0 : next->second;
    }
    if (above == getpid()) found.push_back(pid);
  }
  return found;
}

void Reap() {
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

// Everything below this process, whatever its group and session.
void EndDescendants(TryClock::duration grace) {
  const TryClock::time_point end = TryClock::now() + grace;
  for (std::vector<pid_t> rest; Reap(), !(rest = Descendants()).empty();) {
    if (TryClock::now() >= end) {
      for (pid_t pid : rest) kill(pid, SIGKILL);
    }
    nanosleep(&kTryNap, nullptr);
  }
}

void CleanUp(const std::string& folder, absl::FunctionRef<void()> undo) {
  EndDescendants(seconds(0));
  undo();
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  RemoveOrphanedRings();  // of the runs that were there
}

// What `pipe` carries: the program's process, then its wait status.
struct Launched {
  int pid = 0;
  int wait_status = 0;
};

[[noreturn]] void Launch(const TryOptions& options, const Variation& variation, const std::string& run,
                         const std::string& output, const std::string& workdir, const TryHooks& hooks, int pipe) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  const sigset_t signals = WatchedSignals();
  sigprocmask(SIG_UNBLOCK, &signals, nullptr);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) ::signal(signal, SIG_DFL);
  setsid();
  RedirectTo(output);
  if (!workdir.empty() && chdir(workdir.c_str()) == 0) setenv("PWD", workdir.c_str(), 1);
  for (const auto& [name, value] : variation.environment) setenv(name.c_str(), value.c_str(), 1);
  Collector collector(run);
  const LaunchOptions launch = {.ends_with_launcher = true, .before_start = [&, pipe](pid_t program) {
                                  setpgid(program, program);  // signals to its group do not reach this process
                                  if (!variation.processors.empty()) RunOn(variation.processors, program);
                                  if (hooks.before_start) hooks.before_start(program);
                                  const int pid = program;
                                  if (write(pipe, &pid, sizeof pid) < 0) _exit(1);
                                }};
  const std::vector<std::string>& words = variation.words.empty() ? options.words : variation.words;
  const absl::StatusOr<pid_t> program =
      StartProgram(options.program, words, PreloadVariables(options.shim, run), launch);
  if (!program.ok()) _exit(1);
  const int status = CollectUntilEnd(*program, &collector);
  _exit(write(pipe, &status, sizeof status) == sizeof status ? 0 : 1);
}

// What the thread of the steps did in them, the much longer ones included: without the time in which it had no processor these
// are no accidents. Without steps: the first thread, in all its life.
void AddStates(const TraceModel& model, const ComparedSteps& steps, TryTime* time) {
  const std::vector<ThreadStates> threads = ReadThreadStates(model);
  std::map<const ThreadStates*, std::vector<Interval>> times;
  double count = 0;
  for (const std::vector<StepTrack>* tracks : {&steps.tracks, &steps.interrupted_tracks}) {
    for (const StepTrack& track : *tracks) {
      std::vector<Interval>& of_thread = times[StatesOf(model, threads, track)];
      for (const Step& step : track.steps) of_thread.push_back({step.start_ns, step.end_ns});
      count += static_cast<double>(track.steps.size());
    }
  }
  if (times.contains(nullptr)) return;
  std::vector<Interval> all;
  for (const auto& [states, intervals] : times) all.insert(all.end(), intervals.begin(), intervals.end());
  const auto during = [&](const ThreadStates& states, std::vector<Interval> intervals) {
    StateSums sums;
    if (count == 0) return states.until.back();
    const IntervalSet stretches(std::move(intervals));
    for (const Interval& stretch : stretches.intervals()) sums.Add(states.In(stretch));
    return sums;
  };
  StateSums sums;
  for (const ThreadStates& states : threads) {
    const bool is_first = states.process == 0 && states.tid == model.processes.front().pid;
    if (count == 0 ? is_first : times.contains(&states)) {
      sums.Add(during(states, times[&states]));
    } else if (states.tid != 0) {
      time->others_queued_ns += static_cast<double>(during(states, all).queued_ns);
    } else {
      time->cpu_ns += static_cast<double>(during(states, all).running_ns);
    }
  }
  time->states_count = std::max(count, 1.0);
  time->cpu_ns /= time->states_count;
  time->others_queued_ns /= time->states_count;
  if (sums.IsTold()) time->states = sums;
}

// `model`: it has processes.
TryTime TimeOf(const TraceModel& model, const ComparedSteps& steps) {
  TryTime time = {.steps = steps.count(), .samples = steps.samples()};
  const ProcessInfo& process = model.processes.front();
  time.wall_ns = time.steps > 0 ? static_cast<double>(steps.total_ns()) / static_cast<double>(time.steps)
                                : static_cast<double>(process.end_ns - process.start_ns);
  AddStates(model, steps, &time);
  return time;
}

// Nothing: it can't be read, or nothing was recorded.
std::optional<TryReading> ReadingOf(const std::string& run, std::optional<StepKind> kind, bool is_over) {
  absl::StatusOr<LoadedRun> loaded = LoadRun(run, {.drain_leftover = is_over ? DrainLeftoverRings : nullptr});
  if (!loaded.ok() || loaded->model.processes.empty()) return std::nullopt;
  const RunAnalysis analysis(&loaded->model);
  const std::vector<StepTrack>& tracks = analysis.layers().steps();
  const ComparedSteps steps = kind ? ChooseSteps(tracks, *kind) : MainSteps(tracks);
  TryReading reading = {steps.kind, TimeOf(loaded->model, steps)};
  for (const LoadSample& load : loaded->model.loads)
    reading.peak_bytes = std::max(reading.peak_bytes, load.resident_bytes);
  return reading;
}

// Empty: it can't be copied.
std::string CopyOfWorkdir(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path copy = absl::StrCat(folder, "/workdir");
  fs::remove_all(copy, error);
  fs::create_directory(copy, error);
  for (const auto& entry : fs::directory_iterator(fs::current_path(error), error)) {
    if (fs::equivalent(entry.path(), folder, error)) continue;
    fs::copy(entry.path(), copy / entry.path().filename(),
             fs::copy_options::recursive | fs::copy_options::copy_symlinks, error);
    if (error) return "";
  }
  return copy.string();
}

// A run in the making.
class Trying {
 public:
  Trying(const TryOptions& options, std::optional<StepKind> kind, const TryHooks& hooks, TryRun* run)
      : options_(options), kind_(kind), hooks_(hooks), run_(*run) {}

  void Start(const Variation& variation, const std::string& workdir) {
    run_.run = MakeNewFolder(absl::StrCat(options_.folder, "/run"));
    output_ = absl::StrCat(run_.run, ".txt");
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    launcher_ = fork();
    if (launcher_ == 0) Launch(options_, variation, run_.run, output_, workdir, hooks_, ends[1]);
    close(ends[1]);
    pipe_ = ends[0];
    if (read(pipe_, &launched_.pid, sizeof launched_.pid) != sizeof launched_.pid) launched_.pid = 0;
  }

  // Where it takes long to see this, it is looked for more seldom: looking takes processor time from the program.
  void Watch(TryClock::time_point until) {
    TryClock::time_point next = TryClock::now() + kLookEvery;
    while (!IsOver()) {
      NapOfTry();
      if (hooks_.while_running) hooks_.while_running();
      const TryClock::time_point now = TryClock::now();
      if (g_asked_of_try != Asked::kNothing || now >= until) return;
      if (now < next) continue;
      const std::optional<TryReading> reading = ReadingOf(run_.run, kind_, false);
      if (reading && IsEnough(reading->time)) return;
      next = TryClock::now() + std::max<TryClock::duration>(kLookEvery, 4 * (TryClock::now() - now));
    }
  }

  // Politely, then firmly; a program that has ended by itself may have left others.
  void Stop() {
    bool is_in_vain = options_.ends_by != 0;
    for (int signal : {SIGINT, SIGTERM, SIGKILL}) {
      if (IsOver()) break;
      if (g_asked_of_try == Asked::kEnd && signal != SIGKILL) continue;
      is_in_vain &= signal != options_.ends_by;
      run_.ended_by = signal;
      if (launched_.pid > 0) kill(-launched_.pid, signal);
      const TryClock::time_point end = TryClock::now() + (is_in_vain ? kGraceInVain : milliseconds(kGraceOfSignal));
      while (!IsOver() && TryClock::now() < end) NapOfTry();
    }
    if (hooks_.when_over) hooks_.when_over();
    EndDescendants(g_asked_of_try == Asked::kEnd ? seconds(0) : kGraceOfChildren);
    launcher_ = 0;
  }

  void Read() {
    std::ifstream file(output_);
    run_.output = (std::ostringstream() << file.rdbuf()).str();
    const bool has_status =
        pipe_ >= 0 && read(pipe_, &launched_.wait_status, sizeof launched_.wait_status) == sizeof launched_.wait_status;
    close(pipe_);
    run_.ended_itself = run_.ended_by == 0;
    if (run_.ended_itself && (!has_status || launched_.wait_status != 0)) {
      const std::string last = LastLine(run_.output);
      run_.failure = absl::StrCat(
          has_status ? "it " + FailureOf(launched_.wait_status) : "it can't be started, or its launcher was killed",
          last.empty() ? "" : ": ", last);
    }
    const std::optional<TryReading> reading = ReadingOf(run_.run, kind_, true);
    static_cast<TryReading&>(run_) = reading.value_or(TryReading());
    if (!reading && run_.failure.empty()) run_.failure = "nothing was recorded of it";
  }

 private:
  bool IsOver() {
    if (launcher_ > 0 && waitpid(launcher_, nullptr, WNOHANG) == 0) return false;
    launcher_ = 0;
    return true;
  }

  // Steps that are short are many, so that looks from outside tell them apart; long ones are few.
  bool IsEnough(const TryTime& time) const {
    const double ns = static_cast<double>(time.steps) * time.wall_ns;
    return (time.steps >= options_.steps && ns >= kLeastNs) || (time.steps >= kLeastSteps && ns >= kMostNs);
  }

  const TryOptions& options_;
  const std::optional<StepKind> kind_;
  const TryHooks& hooks_;
  TryRun& run_;
  std::string output_;
  pid_t launcher_ = 0;
  int pipe_ = -1;
  Launched launched_;
};

}  // namespace

std::optional<double> TryTime::own_ns() const {
  if (!states) return std::nullopt;
  return static_cast<double>(states->wall_ns - states->queued_ns) / states_count;
}

std::string LastLine(const std::string& text) {
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n', absl::SkipWhitespace());
  return lines.empty() ? "" : std::string(lines.back());
}

Asked WasAsked() {
  NapOfTry({0, 0});
  return g_asked_of_try;
}

absl::StatusOr<TryFlags> ReadTryFlags(const Args& args, const char* standard_budget) {
  TryFlags flags = {.budget_text = args.Last("budget").value_or(standard_budget)};
  absl::Duration budget;
  if (!absl::ParseDuration(absl::StrReplaceAll(flags.budget_text, {{"min", "m"}}), &budget) ||
      budget <= absl::ZeroDuration() || budget > absl::Hours(24 * 30)) {
    return Unexpected("budget", "a time such as 90s, 10min or 1h", flags.budget_text);
  }
  flags.budget = absl::ToChronoNanoseconds(budget);
  ASSIGN_OR_RETURN(flags.output, ReadOutputFlags(args));
  return flags;
}

int WithKeeper(const std::string& folder, absl::FunctionRef<int()> work, absl::FunctionRef<void()> undo) {
  const pid_t keeper = getpid();
  const sigset_t signals = WatchedSignals();
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t worker = fork();
  if (worker == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    setpgid(0, 0);  // what is sent to the keeper's group is passed on by it
    if (getppid() != keeper) g_asked_of_try = Asked::kEnd;
    const int code = work();
    CleanUp(folder, undo);
    _exit(code);
  }
  int status = worker < 0 ? 1 << 8 : 0;
  int ending = 0;
  while (worker > 0 && waitpid(worker, &status, WNOHANG) == 0) {
    const int signal = sigtimedwait(&signals, nullptr, &kTryNap);
    if (signal <= 0 || signal == SIGCHLD) continue;
    kill(worker, signal);
    if (signal != SIGINT) ending = signal;
  }
  CleanUp(folder, undo);
  return EndAs(ending != 0 ? ending : status);
}

TryRun RunOnce(const TryOptions& options, const Variation& variation, std::optional<StepKind> kind,
               TryClock::time_point until, const TryHooks& hooks) {
  TryRun run;
  const TryClock::time_point start = TryClock::now();
  std::string workdir;
  if (options.copies_workdir && (workdir = CopyOfWorkdir(options.folder)).empty()) {
    run.failure = "the working folder can't be copied";
    return run;
  }
  Trying trying(options, kind, hooks, &run);
  trying.Start(variation, workdir);
  trying.Watch(until);
  trying.Stop();
  trying.Read();
  run.took = TryClock::now() - start;
  return run;
}

}  // namespace dlhook::analyzer::cli
