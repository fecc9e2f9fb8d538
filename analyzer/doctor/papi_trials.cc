// The child writes lines: "version 7.0", "trouble …", "event NAME" or "event NAME: reason". PAPI's functions are looked
// up, so that no header of it is needed.
#include "analyzer/doctor/papi_trials.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace dlhook::analyzer::inline doctor {
namespace {

constexpr unsigned kSeconds = 10;
constexpr int kOk = 0;
constexpr int kDomainAll = 0x1 | 0x2 | 0x4 | 0x8;  // PAPI_DOM_ALL: without it switches and migrations read 0
constexpr int kNull = -1;                          // PAPI_NULL
constexpr int kFirstPreset = static_cast<int>(0x80000000u);
constexpr int kEnumFirst = 1;      // PAPI_ENUM_FIRST
constexpr int kEnumAvailable = 2;  // PAPI_PRESET_ENUM_AVAIL
constexpr size_t kMaxName = 128;   // PAPI_MAX_STR_LEN

// The soname has the minor version, too.
const char* const kLibraries[] = {"libpapi.so.7.2", "libpapi.so.7.1", "libpapi.so.7.0", "libpapi.so.7",
                                  "libpapi.so.6.0", "libpapi.so.6",   "libpapi.so"};

struct Papi {
  int (*library_init)(int);
  int (*set_domain)(int);
  int (*create_eventset)(int*);
  int (*add_named_event)(int, const char*);
  int (*start)(int);
  int (*stop)(int, long long*);
  int (*cleanup_eventset)(int);
  int (*destroy_eventset)(int*);
  int (*enum_event)(int*, int);
  int (*query_event)(int);
  int (*event_code_to_name)(int, char*);
  char* (*strerror)(int);
};

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

bool FindAll(void* library, Papi* papi) {
  return Find(library, "PAPI_library_init", &papi->library_init) &&
         Find(library, "PAPI_set_domain", &papi->set_domain) &&
         Find(library, "PAPI_create_eventset", &papi->create_eventset) &&
         Find(library, "PAPI_add_named_event", &papi->add_named_event) && Find(library, "PAPI_start", &papi->start) &&
         Find(library, "PAPI_stop", &papi->stop) && Find(library, "PAPI_cleanup_eventset", &papi->cleanup_eventset) &&
         Find(library, "PAPI_destroy_eventset", &papi->destroy_eventset) &&
         Find(library, "PAPI_enum_event", &papi->enum_event) && Find(library, "PAPI_query_event", &papi->query_event) &&
         Find(library, "PAPI_event_code_to_name", &papi->event_code_to_name) &&
         Find(library, "PAPI_strerror", &papi->strerror);
}

// PAPI asks for the version of the header that a program was built with, and takes no other.
std::string Initialize(const Papi& papi) {
  for (int major = 7; major >= 5; --major) {
    for (int minor = 0; minor < 10; ++minor) {
      const int version = major << 24 | minor << 16;
      if (papi.library_init(version) == version) return absl::StrCat(major, ".", minor);
    }
  }
  return "";
}

// Adds it to a set of its own, and starts that: some are refused only then. Empty: it works.
std::string Try(const Papi& papi, const char* name) {
  int set = kNull;
  long long value = 0;
  int status = papi.create_eventset(&set);
  if (status == kOk) status = papi.add_named_event(set, name);
  if (status == kOk) status = papi.start(set);
  if (status == kOk) status = papi.stop(set, &value);
  if (set != kNull) {
    papi.cleanup_eventset(set);
    papi.destroy_eventset(&set);
  }
  return status == kOk ? "" : papi.strerror(status);
}

void WriteAll(int fd, const std::string& line) {
  for (size_t done = 0; done < line.size();) {
    const ssize_t written = write(fd, line.data() + done, line.size() - done);
    if (written <= 0) _exit(1);
    done += static_cast<size_t>(written);
  }
}

void WriteTrial(const Papi& papi, const char* name, int fd) {
  const std::string reason = Try(papi, name);
  WriteAll(fd, reason.empty() ? absl::StrCat("event ", name, "\n") : absl::StrCat("event ", name, ": ", reason, "\n"));
}

[[noreturn]] void RunChild(void* library, const std::vector<std::string>& wanted, int fd) {
  Papi papi = {};
  if (!FindAll(library, &papi)) {
    WriteAll(fd, "trouble it lacks functions that dlhook needs\n");
    _exit(0);
  }
  const std::string version = Initialize(papi);
  WriteAll(fd, version.empty() ? "trouble it refuses to start for a program of version 5.0 to 7.9\n"
                               : absl::StrCat("version ", version, "\n"));
  if (version.empty()) _exit(0);
  papi.set_domain(kDomainAll);
  int code = kFirstPreset;
  if (papi.enum_event(&code, kEnumFirst) == kOk) {
    char name[kMaxName];
    do {
      const bool is_there = papi.query_event(code) == kOk;  // the first is not asked for whether it is
      if (is_there && papi.event_code_to_name(code, name) == kOk) WriteTrial(papi, name, fd);
    } while (papi.enum_event(&code, kEnumAvailable) == kOk);
  }
  for (const std::string& name : wanted) WriteTrial(papi, name.c_str(), fd);
  _exit(0);
}

// Nothing that the library prints gets through, and it can't hang or dump core.
[[noreturn]] void BeChild(const char* name, const std::vector<std::string>& wanted, int fd) {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int standard = 0; standard < 3 && null >= 0; ++standard) dup2(null, standard);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  alarm(kSeconds);
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) _exit(2);
  WriteAll(fd, "library\n");
  RunChild(library, wanted, fd);
}

void TakeLine(absl::string_view line, PapiTrials* trials) {
  if (line == "library") return;
  if (absl::ConsumePrefix(&line, "version ")) {
    trials->version = std::string(line);
  } else if (absl::ConsumePrefix(&line, "trouble ")) {
    trials->trouble = std::string(line);
  } else if (absl::ConsumePrefix(&line, "event ")) {
    const size_t colon = line.find(": ");
    PapiEvent event;
    event.name = std::string(line.substr(0, colon));
    event.works = colon == absl::string_view::npos;
    if (!event.works) event.reason = std::string(line.substr(colon + 2));
    trials->events.push_back(std::move(event));
  }
}

std::string ReadAll(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t bytes; (bytes = read(fd, buffer, sizeof buffer)) != 0;) {
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) break;
    text.append(buffer, static_cast<size_t>(bytes));
  }
  return text;
}

// False: there is no such library.
bool TryLibrary(const char* name, const std::vector<std::string>& wanted, PapiTrials* trials) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  const pid_t child = fork();
  if (child == 0) BeChild(name, wanted, ends[1]);
  close(ends[1]);
  const std::string text = child < 0 ? "" : ReadAll(ends[0]);
  close(ends[0]);
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (text.empty() && (child < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 2))) return false;
  trials->library = name;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) TakeLine(line, trials);
  if (WIFSIGNALED(status)) {
    trials->trouble = WTERMSIG(status) == SIGALRM ? absl::StrCat("it did not answer within ", kSeconds, " s")
                                                  : absl::StrCat("it ended by signal ", WTERMSIG(status));
  } else if (WEXITSTATUS(status) != 0) {
    trials->trouble = "it ends its process";
  }
  return true;
}

}  // namespace

PapiTrials TryPapi(const std::vector<std::string>& wanted) {
  PapiTrials trials;
  for (const char* library : kLibraries) {
    if (TryLibrary(library, wanted, &trials)) break;
  }
  return trials;
}

}  // namespace dlhook::analyzer::doctor
