#include "analyzer/cli/collector.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyzer/cli/launch.h"
#include "preload/drain/nap.h"
#include "preload/format/identity.h"

namespace dlhook::analyzer::inline cli {
namespace {

// The first ring fills before it is noticed; later ones belong to processes that start while others run.
constexpr int64_t kFirstLookEveryNs = 5 * 1000 * 1000;
constexpr int64_t kLookEveryNs = 40 * 1000 * 1000;
constexpr int kDrainNice = -5;

bool IsGone(const SessionHeader& session) { return kill(static_cast<pid_t>(session.pid), 0) != 0 && errno == ESRCH; }

// Traces in two folders may have the same name.
std::string KeyOf(const RunFolder& folder, const std::string& trace_name) {
  return absl::StrCat(folder.info().st_dev, ":", folder.info().st_ino, "/", trace_name);
}

// False for rings of other launchers, or of none: a process that drains itself names none.
bool NamesUs(const SessionHeader& session) {
  return session.collector_pid == static_cast<uint32_t>(getpid()) && session.pid_namespace == PidNamespace();
}

// The collector holds several descriptors for each of the program's processes, and for their samples. The program,
// already started, keeps its own limit.
void RaiseDescriptorLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

constexpr uint64_t kMostComputingNs = 2'000'000'000;
constexpr uint64_t kMostWaitingNs = 6'000'000'000;
constexpr timespec kLookForEndEvery = {0, 50 * 1000 * 1000};

// What MakeInTime waits for is blocked from here on.
sigset_t BlockSignals() {
  const sigset_t signals = SignalSet({SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGCHLD});
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

bool IsOverdue(pid_t child, uint64_t start_ns) {
  clockid_t clock;
  const bool has_clock = clock_getcpuclockid(child, &clock) == 0;
  return (has_clock && ClockNanoseconds(clock) > kMostComputingNs) ||
         ClockNanoseconds(CLOCK_MONOTONIC) - start_ns > kMostWaitingNs;
}

absl::Status WaitFor(pid_t child, const sigset_t& signals) {
  const uint64_t start_ns = ClockNanoseconds(CLOCK_MONOTONIC);
  absl::Status status;
  int wait_status = 0;
  while (waitpid(child, &wait_status, WNOHANG) == 0) {
    const int signal = sigtimedwait(&signals, nullptr, &kLookForEndEvery);
    if (signal > 0 && signal != SIGCHLD) status = absl::CancelledError("was ended by a signal");
    if (IsOverdue(child, start_ns)) status = absl::DeadlineExceededError("takes longer than 2 s");
    if (!status.ok()) kill(child, SIGKILL);
  }
  return status.ok() && wait_status != 0 ? absl::InternalError("failed") : status;
}

std::vector<std::string> PiecesIn(int pipe) {
  std::string text;
  char buffer[4096];
  for (ssize_t size; (size = read(pipe, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(size));
  std::vector<std::string> pieces = absl::StrSplit(text, '\0');
  pieces.pop_back();  // one that was not finished
  return pieces;
}

[[noreturn]] void MakeHere(absl::FunctionRef<void(GivePiece)> make, int pipe) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    make([pipe](absl::string_view piece) {
      const std::string text(piece);
      if (write(pipe, text.c_str(), text.size() + 1) < 0) _exit(1);
    });
  } catch (...) {
    _exit(1);
  }
  _exit(0);
}

}  // namespace

// The shim uses the path: if the folder was renamed or removed, processes that start later create another one there.
void Collector::FindFolder() {
  struct stat info;
  const bool is_known = !folders_.empty() && stat(path_.c_str(), &info) == 0 && folders_.back()->IsSameAs(info);
  if (is_known) return;
  if (!folders_.empty() && folders_.back()->IsRemoved()) mkdir(path_.c_str(), 0700);
  const auto folder = RunFolder::Open(path_);
  if (!folder.ok()) return;
  folders_.push_back(*folder);
  if (!IsOnlyOurs((*folder)->info())) return;
  for (const auto& [key, drain] : drains_) drain->MoveFromRemoved(*folder);
}

void Collector::Refuse(const std::string& key, const absl::Status& status) {
  if (absl::IsNotFound(status) || absl::IsResourceExhausted(status) || absl::IsUnavailable(status))
    return;  // it was closed meanwhile; otherwise a reader of the run reports it
  if (absl::IsFailedPrecondition(status)) {
    not_ours_.insert(key);
    return;
  }
  // A process that ends removes its rings before their link.
  if (++failures_[key] == 2) problems_.emplace_back(status.message());
}

void Collector::Adopt(const std::shared_ptr<const RunFolder>& folder, const std::string& trace_name) {
  const std::string key = KeyOf(*folder, trace_name);
  if (drains_.count(key) != 0 || not_ours_.count(key) != 0 || failures_[key] >= 2) return;
  absl::StatusOr<std::unique_ptr<RingFile>> ring = RingFile::Open(folder, trace_name);
  if (!ring.ok()) return Refuse(key, ring.status());
  if (!(*ring)->IsOurs() || !NamesUs((*ring)->header())) {
    not_ours_.insert(key);
    return;
  }
  if (!(*ring)->Lock()) return;
  absl::StatusOr<std::unique_ptr<RingDrain>> drain = RingDrain::Open(*std::move(ring));
  if (!drain.ok()) return Refuse(key, drain.status());
  drains_[key] = *std::move(drain);
  traces_.insert(trace_name);
}

void Collector::FindRings() {
  FindFolder();
  for (const auto& folder : folders_) {
    for (const std::string& link : folder->Names(kRingSuffix)) {
      Adopt(folder, absl::StrCat(absl::StripSuffix(link, kRingSuffix), kTraceSuffix));
    }
  }
}

void Collector::Close(Drains::iterator drain) {
  drain->second->Finish();
  calls_ += drain->second->calls();
  drains_.erase(drain);
}

uint32_t Collector::Step() {
  const int64_t now_ns = static_cast<int64_t>(ClockNanoseconds(CLOCK_MONOTONIC));
  const bool look = now_ns >= next_look_ns_;
  if (look) {
    FindRings();
    next_look_ns_ = now_ns + (drains_.empty() ? kFirstLookEveryNs : kLookEveryNs);
  }
  uint32_t fullest = 0;
  for (auto next = drains_.begin(); next != drains_.end();) {
    const auto drain = next++;
    const SessionHeader& session = *drain->second->session();
    const bool over = look && (session.exited.load() != 0 || IsGone(session));
    fullest = std::max(fullest, drain->second->Step());
    if (over) Close(drain);
  }
  return fullest;
}

uint64_t Collector::NanosecondsToSample() const {
  uint64_t least = UINT64_MAX;
  for (const auto& [link, drain] : drains_) least = std::min(least, drain->NanosecondsToSample());
  return least;
}

bool Collector::RingsGrow() const {
  return absl::c_all_of(drains_, [](const auto& drain) { return drain.second->session()->chunk_count != 0; });
}

void Collector::Finish() {
  FindRings();
  while (!drains_.empty()) {
    const auto drain = drains_.begin();
    if (drain->second->session()->exited.load() != 0 || !drain->second->ring().IsMappedByProcess()) {
      Close(drain);
      continue;
    }
    drain->second->HandOver();
    calls_ += drain->second->calls();
    ++still_running_;
    drains_.erase(drain);
  }
}

int CollectUntilEnd(pid_t program, Collector* collector) {
  RaiseDescriptorLimit();
  DrainNap naps;
  int wait_status = 0;
  const sigset_t child = SignalSet({SIGCHLD});
  sigset_t before;
  sigprocmask(SIG_BLOCK, &child, &before);  // it interrupts a nap
  const int priority = getpriority(PRIO_PROCESS, 0);
  setpriority(PRIO_PROCESS, 0, priority + kDrainNice);  // if permitted: on a busy machine the drain must still run
  while (waitpid(program, &wait_status, WNOHANG) == 0) {
    const uint32_t fullness = collector->Step();
    const timespec nap = {0, naps.Next(fullness, collector->RingsGrow(), collector->NanosecondsToSample())};
    sigtimedwait(&child, nullptr, &nap);
  }
  setpriority(PRIO_PROCESS, 0, priority);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  HoldEndingSignals();
  collector->Finish();
  return wait_status;
}

// fork, signals, a pipe.
void HoldEndingSignals() {
  BlockSignals();
  for (int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) ::signal(signal, SIG_DFL);  // an ignored one would not be seen
}

Made MakeInTime(absl::FunctionRef<void(GivePiece)> make) {
  const sigset_t signals = BlockSignals();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {absl::InternalError("failed"), {}};
  const pid_t child = fork();
  if (child == 0) MakeHere(make, ends[1]);
  close(ends[1]);
  Made made = {child < 0 ? absl::InternalError("failed") : WaitFor(child, signals), {}};
  made.pieces = PiecesIn(ends[0]);
  close(ends[0]);
  sigprocmask(SIG_UNBLOCK, &signals, nullptr);  // from here on they end this process
  return made;
}

}  // namespace dlhook::analyzer::cli
