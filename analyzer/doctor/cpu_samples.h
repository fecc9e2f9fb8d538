// Where a program spends its CPU time: the kernel interrupts each thread every 5 ms of CPU time and records the
// address. Needs perf_event_open, which containers often refuse; needs no privilege if kernel.perf_event_paranoid is at
// most 2.
#ifndef DLHOOK_ANALYZER_DOCTOR_CPU_SAMPLES_H_
#define DLHOOK_ANALYZER_DOCTOR_CPU_SAMPLES_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"

namespace dlhook::analyzer::inline doctor {

constexpr int64_t kSampleNs = 5 * 1000 * 1000;  // of a thread's CPU time

class CpuSampler {
 public:
  using Counts = std::map<uint64_t, int64_t>;  // samples by address

  CpuSampler() = default;
  ~CpuSampler();
  CpuSampler(const CpuSampler&) = delete;
  CpuSampler& operator=(const CpuSampler&) = delete;

  // Samples `program`, which must not have called exec yet, and everything it starts: user code, from that exec on.
  absl::Status Open(pid_t program);
  // Call at least once per second.
  void Step();
  // The process now runs another program: its samples so far are meaningless.
  void Forget(pid_t process) { counts_.erase(process); }
  const std::map<pid_t, Counts>& counts() const { return counts_; }

 private:
  // Events of all threads on one CPU: the kernel allows no inherited event for all CPUs at once.
  struct Ring {
    int fd = -1;
    void* pages = nullptr;
  };
  void Read(const Ring& ring);

  std::vector<Ring> rings_;
  std::map<pid_t, Counts> counts_;
};

}  // namespace dlhook::analyzer::doctor

#endif  // DLHOOK_ANALYZER_DOCTOR_CPU_SAMPLES_H_
