// The collector.
#include "analyzer/cli/collector.h"

#include <errno.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "preload/core/clock.h"

namespace dlhook::analyzer {
namespace {

// The first ring fills while nobody knows of it; later ones are of processes that start beside others.
constexpr int64_t kFirstLookEveryNs = 5 * 1000 * 1000;
constexpr int64_t kLookEveryNs = 40 * 1000 * 1000;

std::string TraceOf(const std::string& link) { return absl::StrCat(absl::StripSuffix(link, kRingSuffix), ".dlh"); }

bool IsGone(const SessionHeader& session) {
  return kill(static_cast<pid_t>(session.pid), 0) != 0 && errno == ESRCH;
}

}  // namespace

void Collector::FindRings() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    const std::string link = entry.path().string();
    if (!absl::EndsWith(link, kRingSuffix) || drains_.count(link) != 0) continue;
    if (std::find(failed_.begin(), failed_.end(), link) != failed_.end()) continue;
    absl::StatusOr<std::unique_ptr<RingFile>> ring = RingFile::Open(link);
    if (absl::IsNotFound(ring.status())) continue;  // closed meanwhile
    absl::Status status = ring.status();
    if (ring.ok()) {
      absl::StatusOr<std::unique_ptr<RingDrain>> drain = RingDrain::Open(*std::move(ring), TraceOf(link));
      status = drain.status();
      if (drain.ok()) {
        drains_[link] = *std::move(drain);
        ++processes_;
        continue;
      }
    }
    if (absl::IsResourceExhausted(status)) continue;  // for now; at the end whoever opens the run drains it
    failed_.push_back(link);
    problems_.emplace_back(status.message());
  }
}

void Collector::Close(const std::string& link) {
  RingDrain& drain = *drains_[link];
  drain.Finish();
  calls_ += drain.calls();
  drains_.erase(link);
}

uint32_t Collector::Step() {
  const int64_t now_ns = static_cast<int64_t>(ClockNanoseconds(CLOCK_MONOTONIC));
  const bool look = now_ns >= next_look_ns_;
  if (look) {
    FindRings();
    next_look_ns_ = now_ns + (drains_.empty() ? kFirstLookEveryNs : kLookEveryNs);
  }
  uint32_t fullest = 0;
  std::vector<std::string> ended;
  for (const auto& [link, drain] : drains_) {
    const bool over = look && (drain->session()->exited.load() != 0 || IsGone(*drain->session()));
    fullest = std::max(fullest, drain->Step());
    if (over) ended.push_back(link);
  }
  for (const std::string& link : ended) Close(link);
  return fullest;
}

uint64_t Collector::NanosecondsToSample() const {
  uint64_t least = UINT64_MAX;
  for (const auto& [link, drain] : drains_) least = std::min(least, drain->NanosecondsToSample());
  return least;
}

void Collector::Finish() {
  FindRings();
  while (!drains_.empty()) {
    const std::string link = drains_.begin()->first;
    RingDrain& drain = *drains_.begin()->second;
    if (drain.session()->exited.load() != 0 || !drain.ring().IsMappedByProcess()) {
      Close(link);
      continue;
    }
    drain.HandOver();
    calls_ += drain.calls();
    ++still_running_;
    drains_.erase(link);
  }
}

}  // namespace dlhook::analyzer
