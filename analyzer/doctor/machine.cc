// One function per check. To add one: write it, call it in CheckMachine, add its id to docs/schema.md.
#include "analyzer/doctor/machine.h"

#include <dlfcn.h>
#include <signal.h>
#include <spawn.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "analyzer/doctor/counter_trials.h"
#include "analyzer/io/child_process.h"
#include "analyzer/io/left_rings.h"
#include "analyzer/io/machine_files.h"
#include "analyzer/reader/load_run.h"
#include "analyzer/table/table_ops.h"
#include "preload/abi/nvtx_abi.h"

namespace dlhook::analyzer::inline doctor {
namespace {

constexpr int kProbeSeconds = 10;
constexpr int kExitNotThere = 3;
constexpr int kExitRefused = 4;
constexpr unsigned kCallbacks = 16;

NvtxFunction g_push = nullptr;
NvtxFunction g_pop = nullptr;
NvtxFunction* g_table[kCallbacks];

int GetModuleFunctionTable(int module, NvtxFunctionTable* table, unsigned* size) {
  if (module != kNvtxCore) return 0;
  g_table[kNvtxRangePushA] = &g_push;
  g_table[kNvtxRangePop] = &g_pop;
  *table = g_table;
  *size = kCallbacks;
  return 1;
}

const void* GetExportTable(uint32_t id) {
  static const NvtxCallbacksTable kTable = {sizeof kTable, GetModuleFunctionTable};
  return id == kNvtxCallbacksTable ? &kTable : nullptr;
}

bool IsSteered(const char* entry) {
  return absl::StartsWith(entry, "DLHOOK_") || absl::StartsWith(entry, "LD_PRELOAD=") ||
         absl::StartsWith(entry, "NVTX_INJECTION64_PATH=");
}

// Waits for the child; kills it if it takes too long.
int WaitFor(pid_t child) {
  int status = 0;
  for (int i = 0; i < kProbeSeconds * 100; ++i) {
    if (waitpid(child, &status, WNOHANG) == child) return status;
    const timespec nap = {0, 10 * 1000 * 1000};
    nanosleep(&nap, nullptr);
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return status;
}

using Findings = std::vector<Finding>;

constexpr uint64_t kRingBytes = 16 << 20;  // of one process at most
constexpr size_t kMostRunsNamed = 20;

// The shim, its version and its clock: from the trace of a process into which it was preloaded.
void CheckShim(const absl::StatusOr<std::string>& shim, const std::string& scratch, DrainLeftover drain,
               Findings* findings) {
  if (!shim.ok()) {
    findings->push_back({"shim", Level::kProblem, "", absl::StrCat(shim.status().message(), "."),
                         absl::IsNotFound(shim.status())
                             ? "Install dlhook again: its library belongs in lib, next to bin."
                             : "Mount /proc."});
    return;
  }
  absl::Status status = RunProbe(*shim, scratch);
  LoadedRun run;
  if (status.ok()) {
    absl::StatusOr<LoadedRun> loaded = LoadRun(scratch, {.drain_leftover = drain, .progress = nullptr});
    if (loaded.ok()) run = *std::move(loaded);
    if (run.model.scopes.size() != 1)
      status = absl::InternalError("a test process ran with it preloaded, but nothing was recorded");
  }
  if (!status.ok()) {
    findings->push_back({"shim", Level::kProblem, *shim, absl::StrCat("does not work: ", status.message(), "."),
                         "Try LD_DEBUG=libs LD_PRELOAD=libdlhook.so with a small program; x86-64 and glibc 2.34 or "
                         "newer are required."});
    return;
  }
  const ProcessInfo& process = run.model.processes.front();
  findings->push_back({"shim", Level::kOk, *shim, "was preloaded into a test process and recorded its call."});
  const bool same = process.tool_version == DLHOOK_VERSION;
  findings->push_back({"version", same ? Level::kOk : Level::kProblem, "",
                       absl::StrCat("dlhook ", DLHOOK_VERSION, ", its library ", process.tool_version, "."),
                       same ? "" : "Install both from one build."});
  const bool is_tsc = process.clock == ClockKind::kTsc;
  findings->push_back(
      {"clock", is_tsc ? Level::kOk : Level::kNote, "",
       is_tsc ? absl::StrCat("time-stamp counter, ", process.ticks_per_second / 1000000, " MHz.")
              : absl::StrCat("CLOCK_MONOTONIC: ", process.clock_fallback_reason, ". A call costs some ns more.")});
}

// Like the shim, allocates the rings.
std::string TryRings(const std::string& folder) {
  struct statvfs info;
  if (statvfs(folder.c_str(), &info) != 0) return strerror(errno);
  if (uint64_t{info.f_bavail} * info.f_frsize <= 2 * kRingBytes) {
    return absl::StrCat("only ", (uint64_t{info.f_bavail} * info.f_frsize) >> 20, " MiB are free");
  }
  std::string path = absl::StrCat(folder, "/dlhook-doctor-XXXXXX");
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) return strerror(errno);
  unlink(path.c_str());
  const int error = posix_fallocate(fd, 0, kRingBytes);
  close(fd);
  return error == 0 ? "" : strerror(error);
}

void CheckRings(Findings* findings) {
  const std::string trouble = TryRings("/dev/shm");
  if (trouble.empty()) {
    findings->push_back({"rings", Level::kOk, "/dev/shm", "has room for the rings of records."});
  } else {
    findings->push_back(
        {"rings", Level::kWarning, "/dev/shm",
         absl::StrCat("cannot hold the rings: ", trouble, ". They are placed in the run's folder instead."),
         "Provide 64 MiB per process (docker run --shm-size=1g), or write runs to a local disk."});
  }
}

// What killed processes left takes memory until somebody takes it.
void CheckLeftRings(Findings* findings) {
  const LeftRings left = FindLeftRings();
  uint64_t bytes = left.other_builds_bytes;
  std::vector<std::string> runs;
  for (const auto& [run, of_run] : left.run_bytes) {
    bytes += of_run;
    if (runs.size() < kMostRunsNamed) runs.push_back(absl::StrCat("dlhook report ", run));
  }
  if (bytes == 0) return;
  std::vector<std::string> advice;
  if (!runs.empty()) {
    advice.push_back(absl::StrCat(absl::StrJoin(runs, ", "), left.run_bytes.size() > runs.size() ? " and others" : "",
                                  runs.size() == 1 ? " takes it." : " take it."));
  }
  if (!left.other_builds.empty()) {
    advice.push_back(absl::StrCat("Rings of ", absl::StrJoin(left.other_builds, ", "),
                                  " can be taken only by that build's dlhook report; or remove /dev/shm/dlhook-*.ring ",
                                  "while nothing is recorded."));
  }
  findings->push_back(
      {"left-rings", Level::kNote, "/dev/shm",
       absl::StrCat("holds ", HumanCell(static_cast<int64_t>(bytes), "bytes"), " that killed processes left."),
       absl::StrJoin(advice, " ")});
}

void CheckPreloaders(Findings* findings) {
  std::vector<std::string> others;
  const char* variable = getenv("LD_PRELOAD");
  if (variable != nullptr && *variable != '\0') others.push_back(absl::StrCat("LD_PRELOAD=", variable));
  const std::string preloaded = ReadSmallFile("/etc/ld.so.preload");
  if (const absl::string_view file = absl::StripAsciiWhitespace(preloaded); !file.empty()) {
    others.push_back(absl::StrCat("/etc/ld.so.preload: ", absl::StrJoin(absl::StrSplit(file, '\n'), " ")));
  }
  findings->push_back({"preloaders", others.empty() ? Level::kOk : Level::kNote, "",
                       others.empty() ? "nothing else is preloaded."
                                      : absl::StrCat("other libraries are preloaded too: ", absl::StrJoin(others, "; "),
                                                     ". dlhook comes first; calls are passed on to them."),
                       others.empty() ? "" : "dlhook doctor -- PROGRAM shows whether they intercept calls."});
}

void CheckCounters(Findings* findings) {
  const CountingMachine machine = LookAtCounting();
  std::vector<SetTrial> sets;
  for (const CounterSet& set : kCounterSets) sets.push_back(TrySet(machine, set));
  findings->push_back(CountingFinding(machine, sets));
}

void CheckConfinement(Findings* findings) {
  const std::string filter = ValueIn("/proc/self/status", "Seccomp");
  std::vector<std::string> words;
  std::error_code error;
  const bool in_container =
      std::filesystem::exists("/.dockerenv", error) || std::filesystem::exists("/run/.containerenv", error);
  if (in_container) words.emplace_back("a container");
  if (!filter.empty() && filter != "0") words.emplace_back("a filter of system calls (seccomp)");
  const std::string scope(absl::StripAsciiWhitespace(ReadSmallFile("/proc/sys/kernel/yama/ptrace_scope")));
  const bool no_ptrace = scope == "3" || (scope == "2" && geteuid() != 0);
  findings->push_back(
      {"confinement", no_ptrace ? Level::kNote : Level::kOk, "",
       absl::StrCat(words.empty() ? "none" : absl::StrCat("this is ", absl::StrJoin(words, " with ")),
                    no_ptrace ? "; ptrace is forbidden, so dlhook doctor cannot follow a program." : "."),
       no_ptrace ? "sysctl kernel.yama.ptrace_scope=1" : ""});
}

}  // namespace

// A child process with the shim preloaded, which makes one NVTX range: this needs no library and takes the full path of
// a record, from the ring through the drain into a trace.
int AnswerProbe() {
  using Initialize = int (*)(NvtxGetExportTable);
  const auto initialize = reinterpret_cast<Initialize>(dlsym(RTLD_DEFAULT, "InitializeInjectionNvtx2"));
  if (initialize == nullptr) return kExitNotThere;
  if (initialize(GetExportTable) == 0 || g_push == nullptr || g_pop == nullptr) return kExitRefused;
  reinterpret_cast<int (*)(const char*)>(g_push)("dlhook doctor");
  reinterpret_cast<int (*)()>(g_pop)();
  return 0;
}

absl::Status RunProbe(const std::string& shim, const std::string& folder) {
  std::vector<std::string> variables = {absl::StrCat("LD_PRELOAD=", shim), absl::StrCat("DLHOOK_OUT=", folder),
                                        absl::StrCat(kProbeVariable, "=1"), "DLHOOK_CAPTURE=nvtx"};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!IsSteered(*entry)) variables.emplace_back(*entry);
  }
  const std::vector<std::string> words = {"dlhook", "doctor"};
  pid_t child = 0;
  const int error =
      posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, Pointers(words).data(), Pointers(variables).data());
  if (error != 0) return absl::InternalError(absl::StrCat("cannot start a process: ", strerror(error)));
  const int status = WaitFor(child);
  if (WIFSIGNALED(status)) {
    return absl::InternalError(absl::StrCat("a test process with it preloaded was ended by signal ", WTERMSIG(status)));
  }
  switch (WEXITSTATUS(status)) {
    case 0:
      return absl::OkStatus();
    case kExitNotThere:
      return absl::FailedPreconditionError("the loader did not load it");
    default:
      return absl::FailedPreconditionError(
          absl::StrCat("a test process with it preloaded ended with exit code ", WEXITSTATUS(status)));
  }
}

Findings CheckMachine(const absl::StatusOr<std::string>& shim, const std::string& scratch,
                      DrainLeftover drain_leftover) {
  Findings findings;
  CheckShim(shim, scratch, std::move(drain_leftover), &findings);
  CheckRings(&findings);
  CheckLeftRings(&findings);
  CheckPreloaders(&findings);
  CheckConfinement(&findings);
  for (Finding& finding : GpuFindings(LookAtGpus())) findings.push_back(std::move(finding));
  CheckCounters(&findings);
  return findings;
}

}  // namespace dlhook::analyzer::doctor
