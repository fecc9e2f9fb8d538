// A child process with the shim preloaded, which makes one NVTX range: this needs no library and takes the full path of
// a record, from the ring through the drain into a trace.

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/doctor/machine.h"
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

}  // namespace

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
  std::vector<char*> envp;
  for (std::string& variable : variables) envp.push_back(variable.data());
  envp.push_back(nullptr);
  char name[] = "dlhook";
  char command[] = "doctor";
  char* argv[] = {name, command, nullptr};
  pid_t child = 0;
  const int error = posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, argv, envp.data());
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

}  // namespace dlhook::analyzer::doctor
