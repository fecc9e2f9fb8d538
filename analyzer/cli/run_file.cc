// The lock makes its creation atomic: the creator writes the key under the shared lock, and whoever finds it empty
// waits.
#include "analyzer/cli/run_file.h"

#include <sys/file.h>

#include <cstdlib>
#include <filesystem>

#include "analyzer/cli/launch.h"
#include "analyzer/cli/output.h"
#include "analyzer/io/ring_file.h"
#include "preload/format/folders.h"
#include "preload/format/identity.h"

namespace dlhook::analyzer::inline cli {
namespace {

constexpr auto& kName = kRunFileName;
constexpr int kFlags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
constexpr int kTries = 200;
constexpr useconds_t kNapUs = 10 * 1000;

enum class Found { kJoined, kTryAgain, kOthers };

std::string OwnKey() {
  char key[96];
  MakeRunKey(key, sizeof key);
  return key;
}

std::string KeyIn(int fd) {
  char text[128];
  const ssize_t length = pread(fd, text, sizeof text, 0);
  const absl::string_view lines(text, length < 0 ? 0 : static_cast<size_t>(length));
  return std::string(lines.substr(0, lines.find('\n')));
}

bool WriteKey(int fd, const std::string& key) {
  const std::string line = absl::StrCat(key, "\n");
  return ftruncate(fd, 0) == 0 && pwrite(fd, line.data(), line.size(), 0) == static_cast<ssize_t>(line.size());
}

// Not all file systems support locks: without them only the key decides.
bool Lock(int fd, int operation) { return flock(fd, operation | LOCK_NB) == 0 || errno != EWOULDBLOCK; }

bool IsAbandoned(int fd) { return Lock(fd, LOCK_EX); }

bool StillLiesIn(const RunFolder& folder, int fd) {
  struct stat named;
  struct stat info;
  return folder.Stat(kName, &named) && fstat(fd, &info) == 0 && named.st_ino == info.st_ino;
}

// Other files stay.
void RemoveTraces(const RunFolder& folder) {
  std::error_code error;
  for (const absl::string_view suffix :
       {kTraceSuffix, absl::string_view(kRingSuffix), absl::string_view(kJitFolderSuffix)}) {
    for (const std::string& name : folder.Names(std::string(suffix))) {
      std::filesystem::remove_all(absl::StrCat(folder.Path(), "/", name), error);
    }
  }
}

Found JoinThose(const RunFolder& folder, int fd, bool replaces) {
  const std::string key = OwnKey();
  const std::string found = KeyIn(fd);
  // What one script or job starts one after another is one run, unless each is to replace the last; where nobody can say
  // whether one still runs, ranks are not to remove each other's traces.
  const bool is_abandoned = found != key ? IsAbandoned(fd) : replaces && flock(fd, LOCK_EX | LOCK_NB) == 0;
  if (found.empty() && !is_abandoned) return Found::kTryAgain;
  if (is_abandoned && replaces) RemoveTraces(folder);
  if (is_abandoned && !folder.Names(std::string(kTraceSuffix)).empty()) return Found::kOthers;
  if (is_abandoned && !WriteKey(fd, key)) return Found::kOthers;
  return Lock(fd, LOCK_SH) && StillLiesIn(folder, fd) ? Found::kJoined : Found::kTryAgain;
}

// The folder requested by the user, and how; empty: not given.
struct WantedFolder {
  std::string said;  // for messages: "-o ", "DLHOOK_OUT="
  std::string path;
};

WantedFolder FindWantedFolder(const Args& args) {
  if (const std::optional<std::string> output = args.Last("output")) return {"-o ", *output};
  const char* const variable = getenv("DLHOOK_OUT");
  // Inside another `dlhook run` the variable belongs to that one.
  if (variable == nullptr || *variable == '\0' || getenv("DLHOOK_COLLECTOR") != nullptr) return {};
  return {"DLHOOK_OUT=", variable};
}

absl::Status HoldsARun() { return absl::AlreadyExistsError("holds a run already"); }

// Empty if unset or empty.
absl::string_view ValueOf(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunFile>> RunFile::Join(std::shared_ptr<const RunFolder> folder, bool replaces) {
  for (int i = 0; i < kTries; ++i) {
    if (i > 0) usleep(kNapUs);
    const bool holds_traces =
        !folder->Names(std::string(kTraceSuffix)).empty();  // before the file, which others create first
    int fd = openat(folder->fd(), kName, kFlags);
    if (fd < 0 && errno == ENOENT && holds_traces && !replaces) return HoldsARun();
    const bool is_new = fd < 0 && errno == ENOENT;
    if (is_new) fd = openat(folder->fd(), kName, kFlags | O_CREAT | O_EXCL, 0600);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd < 0) return absl::ErrnoToStatus(errno, kName);
    auto file = std::unique_ptr<RunFile>(new RunFile(folder, fd));
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid() || info.st_nlink > 1) {
      return absl::PermissionDeniedError("holds a run of another user");
    }
    if (is_new && Lock(fd, LOCK_SH)) {
      if (holds_traces) RemoveTraces(*folder);
      WriteKey(fd, OwnKey());  // if the disk is full, nobody can join
      return file;
    }
    const Found found = is_new ? Found::kTryAgain : JoinThose(*folder, fd, replaces);
    if (found == Found::kJoined) return file;
    if (found == Found::kOthers) return HoldsARun();
  }
  return HoldsARun();
}

RunFile::~RunFile() { close(fd_); }

// Only momentarily true: others may still join.
bool RunFile::IsLast() { return IsAbandoned(fd_) && Lock(fd_, LOCK_SH); }

void RunFile::RemoveIfLast() {
  if (IsAbandoned(fd_) && StillLiesIn(*folder_, fd_)) unlinkat(folder_->fd(), kName, 0);
}

void RunFile::TellOfEnd(const std::string& program, const std::string& failure) {
  const std::string lines = absl::StrCat(OwnKey(), "\n", program, "\n", failure, "\n");
  if (pwrite(fd_, lines.data(), lines.size(), 0) < 0) return;  // the launcher has reported it as well
}

Flag RunFolderFlag() {
  return {"output", "RUN", "folder for the traces (default: $DLHOOK_OUT, else dlhook-PROGRAM-DATE-TIME)", 'o'};
}

absl::StatusOr<RunPlace> MakeRunPlace(const Args& args, const std::string& program) {
  const WantedFolder wanted = FindWantedFolder(args);
  std::string first = wanted.path.empty() ? MakeNewFolder(DefaultRunFolder(program))
                                          : std::filesystem::absolute(wanted.path).lexically_normal().string();
  if (first.size() > 1 && first.back() == '/') first.pop_back();
  std::string path = first;
  for (int n = 2;; ++n) {
    const std::string said = absl::StrCat(wanted.said, path);
    const int made = OpenFolder(path.c_str(), true);
    if (made < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(said, ": can't make this folder: ", strerror(errno), "; name another one"));
    }
    close(made);
    if (access(path.c_str(), W_OK | X_OK) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(said, ": can't be written: ", strerror(errno), "; name another folder"));
    }
    ASSIGN_OR_RETURN(const auto folder, RunFolder::Open(path));
    absl::StatusOr<std::unique_ptr<RunFile>> file = RunFile::Join(folder, args.Has("replace"));
    if (file.ok()) {
      if (path != first) {
        PrintError(absl::StrCat(wanted.said, first, " holds a run already, so this one goes to ", path));
      }
      return RunPlace{path, *std::move(file)};
    }
    if (!absl::IsAlreadyExists(file.status())) {
      return absl::InvalidArgumentError(
          absl::StrCat(said, ": ", file.status().message(), "; name another folder, or remove this one"));
    }
    path = absl::StrCat(first, "-", n);
  }
}

// Looks a run's machine up among calibrations.
absl::StatusOr<Peaks> FindPeaks(const TraceModel& model, const std::optional<std::string>& calibration) {
  if (model.processes.empty()) return Peaks();
  const ProcessInfo& process = model.processes.front();
  if (calibration == "off") return Peaks(model, nullptr);
  if (calibration) {
    ASSIGN_OR_RETURN(const Calibration read, ReadCalibration(*calibration));
    if (Fits(read, process.processor, process.processors)) return Peaks(model, &read);
    const std::string run_is_of =
        process.processor.vendor.empty()
            ? "the run does not tell its processor"
            : absl::StrCat("the run is of ", process.processor.name, ", ", process.processors, " processors");
    return absl::InvalidArgumentError(
        absl::StrCat(*calibration, " is of ", read.processor.name, ", ", read.processors, " processors; ", run_is_of));
  }
  const std::string folder = CacheFolder();
  if (folder.empty()) return Peaks(model, nullptr);
  const FoundCalibration found = FindCalibration(folder, process.processor, process.processors);
  for (const std::string& complaint : found.complaints) PrintError(complaint);
  return Peaks(model, found.calibration ? &*found.calibration : nullptr);
}

std::string CacheFolder() {
  const absl::string_view own = ValueOf("DLHOOK_CACHE");
  if (own == "off") return "";
  if (!own.empty()) return std::string(own);
  const absl::string_view caches = ValueOf("XDG_CACHE_HOME");
  if (!caches.empty() && caches.front() == '/') return absl::StrCat(caches, "/dlhook");
  const absl::string_view home = ValueOf("HOME");
  return home.empty() ? "" : absl::StrCat(home, "/.cache/dlhook");
}

}  // namespace dlhook::analyzer::cli
