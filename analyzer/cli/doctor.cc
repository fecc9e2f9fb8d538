// `dlhook doctor`: what works here and, with a program, what of it is seen and what is not. Everything is tried.
// Single-threaded: ptrace, the drain and the looks alternate.
#include <stdlib.h>
#include <sys/wait.h>

#include <filesystem>

#include "absl/cleanup/cleanup.h"
#include "analyzer/cli/collector.h"
#include "analyzer/cli/launch.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/run_file.h"
#include "analyzer/doctor/machine.h"
#include "analyzer/doctor/program_report.h"
#include "analyzer/doctor/tracer.h"
#include "analyzer/io/left_rings.h"
#include "analyzer/io/ring_file.h"
#include "analyzer/reader/load_run.h"
#include "preload/format/folders.h"

namespace dlhook::analyzer::inline cli {
namespace {

// Runs a program under dlhook for the doctor: recorded as by `dlhook run`, traced, and examined when its processes end.
struct TrialOptions {
  std::string program;  // path
  std::vector<std::string> words;
  std::string shim;
  std::string folder;  // for its traces
  int seconds = 0;     // it is terminated after this time; 0: no limit
};

constexpr long kNapNs = 8 * 1000 * 1000;
constexpr std::chrono::seconds kTrialGrace(3);  // between SIGTERM and SIGKILL

using Clock = std::chrono::steady_clock;

class Trialist {
 public:
  explicit Trialist(const TrialOptions& options)
      : options_(options),
        collector_(options.folder),
        tracer_({[this](pid_t process) { OnExec(process); },
                 [this](pid_t process, pid_t thread) { Look(process, thread); }}) {}

  // The trial without its model. The program's stdout goes to stderr. The status is execve's if it fails.
  absl::StatusOr<Trial> Run() {
    trial_.words = options_.words;
    const LaunchOptions launch = {.stdout_to_stderr = true, .before_start = [this](pid_t program) {
                                    const absl::Status status = tracer_.Attach(program);
                                    if (!status.ok()) trial_.why_not_followed = std::string(status.message());
                                    // After the fork, so that the program does not inherit it.
                                    sigprocmask(SIG_BLOCK, &child_signal_, nullptr);
                                  }};
    std::vector<std::string> variables = PreloadVariables(options_.shim, options_.folder);
    variables.push_back(absl::StrCat("DLHOOK_SAMPLE=", 1'000'000'000 / kSampleNs));
    ASSIGN_OR_RETURN(const pid_t program, StartProgram(options_.program, options_.words, variables, launch));
    RemoveOrphanedRings();
    Wait(program);
    LookAtAll();  // processes that the program left running
    tracer_.Detach();
    collector_.Finish();
    trial_.wait_status = tracer_.wait_status();
    for (auto& [process, look] : looks_) trial_.looks.push_back(std::move(look));
    for (const auto& [process, reason] : refused_) {
      if (!looks_.contains(process)) trial_.why_not_followed = reason;
    }
    return std::move(trial_);
  }

 private:
  void OnExec(pid_t process) {
    looks_.erase(process);
    std::error_code error;
    const std::string path = std::filesystem::read_symlink(absl::StrCat("/proc/", process, "/exe"), error).string();
    const absl::Status status = CheckPreloadable(path);
    if (error || status.ok()) return;
    trial_.obstacles.push_back(
        {ObstacleId(status), Level::kNote, path,
         absl::StrCat("was started by the program and cannot be observed: ", status.message(), "."),
         "If it does the work to be profiled, start another build of it."});
  }

  // A look that finds nothing (normal if a process is just ending) does not replace one that did.
  bool Look(pid_t process, pid_t thread) {
    absl::StatusOr<ProcessLook> look = LookInto(process, thread, options_.shim);
    if (!look.ok() && absl::IsPermissionDenied(look.status())) refused_[process] = std::string(look.status().message());
    if (!look.ok() || look->objects.empty()) return false;
    looks_[process] = *std::move(look);
    return true;
  }

  // By the first of a process's threads that still has its memory.
  void LookAtAll() {
    std::set<pid_t> seen;
    for (const auto& [thread, process] : tracer_.threads()) {
      if (process > 0 && !seen.contains(process) && Look(process, thread)) seen.insert(process);
    }
  }

  void Wait(pid_t program) {
    const Clock::time_point start = Clock::now();
    while (tracer_.Step()) {
      collector_.Step();
      if (options_.seconds > 0 && Clock::now() - start > std::chrono::seconds(options_.seconds)) return End(program);
      Nap();
    }
  }

  // Everything that the program started, in the order of process ids: children may outlive it.
  void End(pid_t program) {
    trial_.was_ended = true;
    LookAtAll();
    kill(program, SIGTERM);
    const Clock::time_point start = Clock::now();
    bool lives = true;
    while ((lives = tracer_.Step()) && Clock::now() - start < kTrialGrace) {
      collector_.Step();
      Nap();
    }
    for (const auto& [thread, process] : tracer_.threads()) {
      if (process > 0) kill(process, SIGKILL);
    }
    if (lives) kill(program, SIGKILL);
    while (lives && (lives = tracer_.Step())) Nap();
  }

  void Nap() const {
    const timespec nap = {0, kNapNs};
    sigtimedwait(&child_signal_, nullptr, &nap);
  }

  const TrialOptions& options_;
  Collector collector_;
  Tracer tracer_;
  Trial trial_;
  std::map<pid_t, ProcessLook> looks_;
  std::map<pid_t, std::string> refused_;  // why a process could not be looked into
  const sigset_t child_signal_ = SignalSet({SIGCHLD});
};

constexpr int kStandardSeconds = 60;

std::string EndLabel(const Trial& trial, int seconds) {
  if (trial.was_ended) {
    return absl::StrCat("by dlhook doctor after ", seconds, " s: what it does later is not known (--seconds)");
  }
  if (WIFSIGNALED(trial.wait_status)) return absl::StrCat("signal ", WTERMSIG(trial.wait_status));
  return absl::StrCat("exit code ", WEXITSTATUS(trial.wait_status));
}

// Traces without a call: they have samples only.
void Discard(const RunPlace& place, const std::vector<ProcessInfo>& processes) {
  std::error_code error;
  for (const ProcessInfo& process : processes) {
    std::filesystem::remove(process.path, error);
    std::filesystem::remove_all(absl::StrCat(absl::StripSuffix(process.path, kTraceSuffix), kJitFolderSuffix), error);
  }
  place.file->RemoveIfLast();
  rmdir(place.path.c_str());  // if it is empty
}

absl::StatusOr<ProgramReport> DescribeProgram(const Args& args, int seconds, const std::string& shim) {
  const std::vector<std::string>& words = args.operands();
  ASSIGN_OR_RETURN(const std::string program, FindProgram(words.front()));
  const absl::Status status = CheckPreloadable(program);
  if (absl::IsNotFound(status)) return status;
  if (!status.ok()) {  // a finding, not an error
    const char* const advice =
        "Profile a build of it that is linked dynamically, for this machine, and starts as an ordinary user's program.";
    return ProgramReport{.words = words,
                         .end = "not started",
                         .findings = {{ObstacleId(status), Level::kProblem, words.front(),
                                       absl::StrCat(status.message(), "."), advice}}};
  }
  ASSIGN_OR_RETURN(const RunPlace place, MakeRunPlace(args, words.front()));
  const TrialOptions options = {
      .program = program, .words = words, .shim = shim, .folder = place.path, .seconds = seconds};
  absl::StatusOr<Trial> trial = Trialist(options).Run();
  if (!trial.ok()) {
    Discard(place, {});
    return trial.status();
  }
  const absl::StatusOr<LoadedRun> run = LoadRun(place.path, {.drain_leftover = DrainLeftoverRings});
  if (run.ok() && !run->model.processes.empty()) {
    trial->model = &run->model;
    trial->samples = SamplesOf(run->model);
  }
  ProgramReport report = DescribeTrial(*trial);
  report.end = EndLabel(*trial, seconds);
  report.run = place.path;
  if (report.recorded.empty()) {
    Discard(place, trial->model == nullptr ? std::vector<ProcessInfo>() : trial->model->processes);
    report.run.clear();
  }
  return report;
}

absl::StatusOr<int> RunDoctor(const Args& args) {
  if (getenv(kProbeVariable) != nullptr) return AnswerProbe();
  int seconds = kStandardSeconds;
  RETURN_IF_ERROR(SetVariables(args));
  RETURN_IF_ERROR(ReadNumber(args, "seconds", "a whole number above 0", 1, INT_MAX, &seconds));
  ASSIGN_OR_RETURN(const std::string scratch, MakeTemporaryFolder("doctor"));
  const absl::Cleanup remove_scratch = [&] {
    std::error_code error;
    std::filesystem::remove_all(scratch, error);
  };
  DoctorReport report;
  const absl::StatusOr<std::string> shim = FindShim();
  report.machine = CheckMachine(shim, scratch, DrainLeftoverRings);
  if (!args.operands().empty() && shim.ok()) {
    ASSIGN_OR_RETURN(report.program, DescribeProgram(args, seconds, *shim));
  }
  const std::string text = args.Last("format") == "json"
                               ? DoctorJson(report)
                               : DoctorText(report, static_cast<size_t>(OutputWidth()), WantsColor(args));
  return std::max(PrintOutput(text), report.CountBad() > 0 ? kExitThreshold : kExitOk);
}

}  // namespace

Command DoctorCommand() {
  return {
      .name = "doctor",
      .summary = "check the installation, and what of a program can be observed",
      .operands = "[PROGRAM [WORD]...]",
      .flags = {RunFolderFlag(),
                {"format", "text|json", "default: text"},
                {"seconds", "N", "end the program after N seconds (default: 60)"},
                ColorFlag()},
      .examples = {{"dlhook doctor", "checks the installation and the machine"},
                   {"dlhook doctor -- python train.py", "which of its libraries are observed, how, and which are not"}},
      .operand_count = {0, SIZE_MAX},
      .stops_at_operand = true,
      .details =
          "The program is run and recorded as by dlhook run, for a minute or --seconds at most,\n"
          "and each of its processes is inspected when it ends; its output goes to stderr.\n"
          "RUN is kept: dlhook report RUN. While the program is traced no debugger can\n"
          "attach to it, and set-uid programs that it starts gain no rights.\n\n"
          "Exit codes: 0: everything that dlhook knows of can be observed; 1: a warning\n"
          "or problem; 2: program not found, or bad usage.\n",
      .run = RunDoctor};
}

}  // namespace dlhook::analyzer::cli
