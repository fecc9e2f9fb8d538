// The collector.
#include "analyzer/cli/collector.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "analyzer/cli/in_time.h"
#include "preload/drain/nap.h"
#include "preload/format/clock.h"
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
  return std::all_of(drains_.begin(), drains_.end(),
                     [](const auto& drain) { return drain.second->session()->chunk_count != 0; });
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
  sigset_t child, before;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
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

}  // namespace dlhook::analyzer::cli
