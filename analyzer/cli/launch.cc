// fork, exec, signals.
#include "analyzer/cli/launch.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/cord.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "analyzer/io/byte_source.h"
#include "analyzer/io/child_process.h"
#include "preload/format/identity.h"

namespace dlhook::analyzer::inline cli {
namespace {

constexpr int kMaxInterpreters = 4;  // as in the kernel

bool IsFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

std::string ReadStart(const std::string& path, size_t size) {
  std::ifstream file(path, std::ios::binary);
  std::string start(size, '\0');
  file.read(start.data(), static_cast<std::streamsize>(size));
  start.resize(static_cast<size_t>(file.gcount()));
  return start;
}

constexpr absl::string_view kObstaclePayload = "dlhook/obstacle";

absl::Status CantPreload(const std::string& path, absl::string_view id, absl::string_view why) {
  absl::Status status = absl::FailedPreconditionError(
      absl::StrCat("can't be profiled: ", path, " ", why, ", so libdlhook.so can't be loaded into it"));
  status.SetPayload(kObstaclePayload, absl::Cord(id));
  return status;
}

absl::Status CheckElf(const std::string& path, const std::string& start) {
  Elf64_Ehdr header;
  if (start.size() < sizeof header) return CantPreload(path, "broken-file", "is no complete ELF file");
  memcpy(&header, start.data(), sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64) {
    return CantPreload(path, "other-architecture", "is for another architecture than libdlhook.so (x86-64)");
  }
  for (int i = 0; i < header.e_phnum; ++i) {
    const size_t at = header.e_phoff + static_cast<size_t>(i) * sizeof(Elf64_Phdr);
    if (at + sizeof(Elf64_Phdr) > start.size()) break;
    Elf64_Phdr segment;
    memcpy(&segment, start.data() + at, sizeof segment);
    if (segment.p_type != PT_INTERP || segment.p_offset + segment.p_filesz > start.size()) continue;
    const std::string loader(start.c_str() + segment.p_offset);
    if (absl::StrContains(loader, "ld-musl")) return CantPreload(path, "other-libc", "uses musl, not glibc");
    return absl::OkStatus();
  }
  return CantPreload(path, "static-binary", "is statically linked");
}

// Like the kernel's AT_SECURE. For root, set-uid root and capabilities change nothing.
bool IsPrivileged(const std::string& path) {
  struct stat info;
  const bool may_gain = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1;
  if (!may_gain || stat(path.c_str(), &info) != 0) return false;
  const bool changes_user = (info.st_mode & S_ISUID) != 0 && info.st_uid != getuid();
  const bool changes_group = (info.st_mode & S_ISGID) != 0 && info.st_gid != getgid();
  const bool adds_capabilities = getuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
  return changes_user || changes_group || adds_capabilities;
}

std::atomic<pid_t> g_program{0};

void PassOn(int signal) {
  const int saved_errno = errno;
  const pid_t program = g_program.load();
  if (program > 0) kill(program, signal);
  errno = saved_errno;
}

void HandleSignals() {
  struct sigaction action = {};
  action.sa_flags = SA_RESTART;
  action.sa_handler = PassOn;
  for (int signal : {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) sigaction(signal, &action, nullptr);
  action.sa_handler = SIG_IGN;
  for (int signal : {SIGINT, SIGQUIT}) sigaction(signal, &action, nullptr);
}

// The environment with `variables` replacing those of the same name.
std::vector<std::string> EnvironmentWith(const std::vector<std::string>& variables) {
  std::vector<std::string> environment = variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    bool replaced = false;
    for (const std::string& variable : variables) {
      replaced = replaced || absl::StartsWith(*entry, variable.substr(0, variable.find('=') + 1));
    }
    if (!replaced) environment.emplace_back(*entry);
  }
  return environment;
}

}  // namespace

// Only examines files, starts nothing.
absl::StatusOr<std::string> FindProgram(const std::string& program) {
  std::vector<std::string> candidates;
  if (absl::StrContains(program, '/')) {
    std::error_code error;
    if (std::filesystem::is_directory(program, error)) {
      return absl::PermissionDeniedError(absl::StrCat(program, ": is a folder, expected a program"));
    }
    candidates.push_back(program);
  } else {
    const char* path = getenv("PATH");
    for (absl::string_view folder : absl::StrSplit(path == nullptr ? "/bin:/usr/bin" : path, ':')) {
      candidates.push_back(absl::StrCat(folder.empty() ? "." : folder, "/", program));
    }
  }
  bool found = false;
  for (const std::string& candidate : candidates) {
    if (!IsFile(candidate)) continue;
    found = true;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  if (found) {
    return absl::PermissionDeniedError(absl::StrCat(
        program, ": not executable; chmod +x it, or name its interpreter: dlhook run -- python ", program));
  }
  const bool has_path = absl::StrContains(program, '/');
  return absl::NotFoundError(absl::StrCat(program, ": no such program", has_path ? "" : " in any folder of PATH"));
}

absl::Status CheckPreloadable(const std::string& path) {
  std::string file = path;
  for (int depth = 0; depth < kMaxInterpreters; ++depth) {
    if (IsPrivileged(file)) return CantPreload(file, "set-uid", "is set-uid or set-gid or has capabilities");
    const std::string start = ReadStart(file, 64 << 10);
    if (absl::StartsWith(start, ELFMAG)) return CheckElf(file, start);
    if (!absl::StartsWith(start, "#!")) return absl::OkStatus();  // the shell will try
    const std::string line = start.substr(2, start.find('\n') - 2);
    const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) return absl::OkStatus();
    if (!IsFile(words.front())) {
      return absl::NotFoundError(absl::StrCat(file, ": its interpreter ", words.front(), " (first line) is not there"));
    }
    file = words.front();
    const bool by_env = words.size() > 1 && absl::EndsWith(file, "/env") && !absl::StartsWith(words[1], "-");
    if (!by_env) continue;
    const absl::StatusOr<std::string> found = FindProgram(words[1]);
    if (!found.ok()) return absl::OkStatus();
    file = *found;
  }
  return absl::OkStatus();
}

std::string ObstacleId(const absl::Status& status) {
  const auto id = status.GetPayload(kObstaclePayload);
  return id.has_value() ? std::string(*id) : "not-preloadable";
}

std::string ContainerHint(const std::string& program) {
  const absl::string_view name = BaseName(program);
  for (const absl::string_view known : {"docker", "podman", "nerdctl", "kubectl"}) {
    if (name != known) continue;
    return absl::StrCat("; what it starts runs in a container, and dlhook run goes there: ", name,
                        " run ... IMAGE dlhook run -o RUN -- PROGRAM (docs/launchers.md)");
  }
  return "";
}

absl::StatusOr<std::string> FindShim() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    return absl::UnavailableError(absl::StrCat("/proc/self/exe can't be read (", error.message(),
                                               "), so libdlhook.so can't be found: /proc is not mounted here"));
  }
  const std::filesystem::path folder = self.parent_path();
  std::vector<std::string> tried;
  for (const char* relative : {"../lib", "../lib/x86_64-linux-gnu", "../lib64", "lib"}) {
    const std::filesystem::path candidate = folder / relative / "libdlhook.so";
    if (std::filesystem::exists(candidate, error)) return std::filesystem::canonical(candidate, error).string();
    tried.push_back(candidate.string());
  }
  return absl::NotFoundError(absl::StrCat("libdlhook.so is not there; looked for ", absl::StrJoin(tried, ", "),
                                          "; keep bin/dlhook and lib/libdlhook.so as cmake --install puts them"));
}

std::vector<std::string> PreloadVariables(const std::string& shim, const std::string& folder) {
  const char* preload = getenv("LD_PRELOAD");
  const char* drain = getenv("DLHOOK_DRAIN");
  const char* asan = getenv("ASAN_OPTIONS");
  char collector[128];
  NameCollector(static_cast<uint32_t>(getpid()), collector, sizeof collector);
  std::vector<std::string> variables = {
      // The shared runtime of AddressSanitizer terminates a program in which another library precedes it.
      absl::StrCat("ASAN_OPTIONS=", asan == nullptr ? "" : absl::StrCat(asan, ":"), "verify_asan_link_order=0"),
      absl::StrCat("LD_PRELOAD=", shim, preload != nullptr && *preload != '\0' ? absl::StrCat(":", preload) : ""),
      absl::StrCat("DLHOOK_OUT=", folder), absl::StrCat("DLHOOK_COLLECTOR=", collector)};
  if (drain == nullptr) variables.emplace_back("DLHOOK_DRAIN=collector");
  return variables;
}

std::string DefaultRunFolder(const std::string& program) {
  return absl::StrCat("dlhook-", BaseName(program), "-",
                      absl::FormatTime("%Y%m%d-%H%M%S", absl::Now(), absl::LocalTimeZone()));
}

std::string MakeNewFolder(const std::string& name) {
  std::string folder = std::filesystem::absolute(name);
  for (int n = 2; mkdir(folder.c_str(), 0700) != 0 && errno == EEXIST; ++n) {
    folder = std::filesystem::absolute(absl::StrCat(name, "-", n));
  }
  return folder;
}

sigset_t SignalSet(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : signals) sigaddset(&set, signal);
  return set;
}

absl::StatusOr<std::string> MakeTemporaryFolder(absl::string_view name) {
  std::error_code error;
  std::string path = absl::StrCat(std::filesystem::temp_directory_path(error).string(), "/dlhook-", name, "-XXXXXX");
  if (!error && mkdtemp(path.data()) != nullptr) return path;
  return absl::UnavailableError("no temporary folder can be made; set TMPDIR to a place that can be written");
}

bool RedirectTo(const std::string& output) {
  const int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int printed = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
  return dup2(input, STDIN_FILENO) >= 0 && dup2(printed, STDOUT_FILENO) >= 0 && dup2(printed, STDERR_FILENO) >= 0;
}

absl::StatusOr<pid_t> StartProgram(const std::string& path, const std::vector<std::string>& words,
                                   const std::vector<std::string>& variables, const LaunchOptions& options) {
  const std::vector<std::string> environment = EnvironmentWith(variables);
  std::vector<char*> argv = Pointers(words);
  std::vector<char*> envp = Pointers(environment);
  int failure[2];
  int start[2];  // closed when the program may start
  if (pipe2(failure, O_CLOEXEC) != 0 || pipe2(start, O_CLOEXEC) != 0) {
    return absl::InternalError(absl::StrCat("can't start the program: pipe: ", strerror(errno)));
  }
  const pid_t launcher = getpid();
  const pid_t program = fork();
  if (program < 0) return absl::InternalError(absl::StrCat("can't start the program: fork: ", strerror(errno)));
  if (program == 0) {
    close(start[1]);
    if (options.ends_with_launcher) prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (options.ends_with_launcher && getppid() != launcher) _exit(126);
    char byte = 0;
    while (read(start[0], &byte, 1) < 0 && errno == EINTR) {
    }
    if (options.stdout_to_stderr) dup2(STDERR_FILENO, STDOUT_FILENO);
    environ = envp.data();
    execvpe(path.c_str(), argv.data(), envp.data());  // with the shell's treatment of files without a magic number
    const int error = errno;
    if (write(failure[1], &error, sizeof error) < 0) _exit(126);
    _exit(126);
  }
  g_program = program;
  HandleSignals();
  close(failure[1]);
  close(start[0]);
  if (options.before_start) options.before_start(program);
  close(start[1]);
  int error = 0;
  const bool failed = read(failure[0], &error, sizeof error) == sizeof error;
  close(failure[0]);
  if (!failed) return program;
  waitpid(program, nullptr, 0);
  const std::string message = absl::StrCat(path, ": ", strerror(error));
  return error == ENOENT ? absl::NotFoundError(message) : absl::PermissionDeniedError(message);
}

std::string FailureOf(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return absl::StrCat("was ended by signal ", WTERMSIG(wait_status), " (", strsignal(WTERMSIG(wait_status)), ")");
  }
  return WEXITSTATUS(wait_status) == 0 ? "" : absl::StrCat("ended with code ", WEXITSTATUS(wait_status));
}

int EndAs(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return WEXITSTATUS(wait_status);
  const rlimit no_core = {0, 0};  // only the program's own core matters
  setrlimit(RLIMIT_CORE, &no_core);
  const int signal = WTERMSIG(wait_status);
  ::signal(signal, SIG_DFL);
  const sigset_t set = SignalSet({signal});
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  raise(signal);
  return 128 + signal;  // only reached for signals that do not end a process
}

}  // namespace dlhook::analyzer::cli
