// `dlhook run`: starts a program with libdlhook.so preloaded, drains its rings from outside, prints the summary.
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "analyzer/cli/collector.h"
#include "analyzer/cli/commands.h"
#include "analyzer/cli/executable.h"
#include "analyzer/cli/launch.h"
#include "analyzer/cli/load_options.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/report.h"
#include "analyzer/io/byte_source.h"
#include "analyzer/io/ring_file.h"
#include "analyzer/model/load_run.h"

namespace dlhook::analyzer {
namespace {

constexpr int kExitNotExecutable = 126;  // as shells have it
constexpr int kExitNotFound = 127;
constexpr long kShortNapNs = 500 * 1000;
constexpr long kLongNapNs = 8 * 1000 * 1000;

std::string DefaultRunFolder(const std::string& program) {
  return absl::StrCat("dlhook-", BaseName(program), "-",
                      absl::FormatTime("%Y%m%d-%H%M%S", absl::Now(), absl::LocalTimeZone()));
}

bool HoldsARun(const std::filesystem::path& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (absl::EndsWith(entry.path().string(), kTraceSuffix)) return true;
  }
  return false;
}

// Where the run goes by the user's wish, and by which of the two ways it was said; empty: by none.
struct WantedFolder {
  std::string said;  // for messages: "-o ", "DLHOOK_OUT="
  std::string path;
};

WantedFolder FindWantedFolder(const Args& args) {
  if (const std::optional<std::string> output = args.Last("output")) return {"-o ", *output};
  const char* const variable = getenv("DLHOOK_OUT");
  // Inside of another `dlhook run` the variable is that one's.
  if (variable == nullptr || *variable == '\0' || getenv("DLHOOK_COLLECTOR") != nullptr) return {};
  return {"DLHOOK_OUT=", variable};
}

// An empty folder to write into, as an absolute path.
absl::StatusOr<std::string> MakeRunFolder(const WantedFolder& wanted, const std::string& otherwise) {
  const std::string& name = wanted.path.empty() ? otherwise : wanted.path;
  std::filesystem::path folder = std::filesystem::absolute(name).lexically_normal();
  for (int n = 2; wanted.path.empty() && std::filesystem::exists(folder); ++n) {
    folder = std::filesystem::absolute(absl::StrCat(name, "-", n));
  }
  const std::string said = absl::StrCat(wanted.said, folder.string());
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!std::filesystem::is_directory(folder)) {
    return absl::InvalidArgumentError(
        absl::StrCat(said, ": can't make this folder: ", error ? error.message() : "a file is in the way", "; name another one"));
  }
  if (HoldsARun(folder)) {
    return absl::InvalidArgumentError(absl::StrCat(said, ": holds a run already; name another folder, or remove this one"));
  }
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(said, ": can't be written: ", strerror(errno), "; name another folder"));
  }
  return folder.string();
}

// Here lie some descriptors of each of the program's processes, and those of their samples. The program, which has been
// started, keeps the limit that it was given.
void RaiseDescriptorLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Drains until the program has ended; returns its wait status.
int Collect(pid_t program, Collector* collector) {
  long nap_ns = kShortNapNs;
  int wait_status = 0;
  while (waitpid(program, &wait_status, WNOHANG) == 0) {
    const uint32_t fullness = collector->Step();
    nap_ns = fullness > 32 ? kShortNapNs : std::min(nap_ns * 2, kLongNapNs);
    const timespec nap = {0, NapUntilSample(nap_ns, kLongNapNs, collector->NanosecondsToSample())};
    nanosleep(&nap, nullptr);
  }
  collector->Finish();
  return wait_status;
}

void PrintSummary(const std::string& folder, const Collector& collector) {
  for (const std::string& problem : collector.problems()) PrintError(problem);
  if (collector.processes() == 0) {
    PrintError("the program made no call that dlhook sees, nothing was recorded; why: dlhook doctor -- PROGRAM");
    return;
  }
  if (collector.still_running() > 0) {
    PrintError(absl::StrCat(collector.still_running(), " of its processes still run; their traces go on in ", folder,
                            ", and what is there can be read at any time"));
  }
  absl::StatusOr<LoadedRun> run = LoadRun(folder, {.drain_leftover = LeftoverDrain(), .progress = nullptr});
  if (run.ok() && !run->model.processes.empty()) {
    const absl::StatusOr<std::string> report = MakeReport(
        run->model, {.tables = {"summary"}, .width = OutputWidth(STDERR_FILENO), .color = IsColorful(STDERR_FILENO)});
    if (report.ok()) WriteOutput(*report, OutputKind::kText, STDERR_FILENO).IgnoreError();
  }
  PrintError(absl::StrCat(collector.calls(), " calls recorded; next: dlhook report ", folder));
}

int Fail(const absl::Status& status, int exit_code) {
  PrintError(absl::StrCat("run: ", status.message()));
  return exit_code;
}

int RunRun(const Args& args) {
  const std::vector<std::string>& words = args.operands();
  const absl::StatusOr<std::string> program = FindProgram(words.front());
  if (!program.ok()) {
    return Fail(program.status(), absl::IsNotFound(program.status()) ? kExitNotFound : kExitNotExecutable);
  }
  if (absl::Status status = CheckPreloadable(*program); !status.ok()) {
    return Fail(status, absl::IsNotFound(status) ? kExitNotFound : kExitBadInput);
  }
  const absl::StatusOr<std::string> shim = FindShim();
  if (!shim.ok()) return Fail(shim.status(), kExitBadInput);
  const absl::StatusOr<std::string> folder = MakeRunFolder(FindWantedFolder(args), DefaultRunFolder(words.front()));
  if (!folder.ok()) return Fail(folder.status(), kExitBadInput);
  const absl::StatusOr<pid_t> started = StartProgram(*program, words, PreloadVariables(*shim, *folder));
  if (!started.ok()) {
    return Fail(started.status(), absl::IsNotFound(started.status()) ? kExitNotFound : kExitNotExecutable);
  }
  signal(SIGXFSZ, SIG_IGN);  // a limit on the size of files ends a write, not the collection
  RaiseDescriptorLimit();
  RemoveOrphanedRings();
  Collector collector(*folder);
  const int wait_status = Collect(*started, &collector);
  PrintSummary(*folder, collector);
  if (collector.processes() == 0) {
    std::error_code error;
    std::filesystem::remove(*folder, error);  // if it is empty
  }
  return EndAs(wait_status);
}

}  // namespace

Command RunCommand() {
  return {
      .name = "run",
      .summary = "start a program and record it",
      .operands = "PROGRAM [WORD]...",
      .flags = {{"output", "RUN", "folder for the traces (default: $DLHOOK_OUT, else dlhook-PROGRAM-DATE-TIME)", 'o'}},
      .examples = {{"dlhook run -o first -- python train.py",
                    "records into the folder first; then: dlhook report first"},
                   {"DLHOOK_CAPTURE=onednn,blas dlhook run -- ./serve --port 80",
                    "only the calls of two families of libraries"},
                   {"DLHOOK_START=off dlhook run -o late -- python train.py", "nothing until: dlhook ctl start late"}},
      .min_operands = 1,
      .max_operands = SIZE_MAX,
      .stops_at_operand = true,
      .details =
          [] {
            return std::string(
                "Ends as the program ends: with its exit code, or by its signal. 127: no such\n"
                "program; 126: it can't be executed; 2: it can't be profiled, or bad usage.\n"
                "What is recorded: the DLHOOK_* variables, see dlhook help variables.\n");
          },
      .run = RunRun};
}

}  // namespace dlhook::analyzer
