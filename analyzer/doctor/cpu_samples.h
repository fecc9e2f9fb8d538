// Where a program spends its CPU time: the kernel interrupts each of its threads every 5 ms of CPU time and tells the address.
// Needs perf_event_open, which containers often refuse; no privilege where kernel.perf_event_paranoid is at most 2.
#ifndef DLHOOK_ANALYZER_DOCTOR_CPU_SAMPLES_H_
#define DLHOOK_ANALYZER_DOCTOR_CPU_SAMPLES_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"

namespace dlhook::analyzer::inline doctor {

class CpuSampler {
 public:
  using Counts = std::map<uint64_t, int64_t>;  // samples by address

  CpuSampler() = default;
  ~CpuSampler();
  CpuSampler(const CpuSampler&) = delete;
  CpuSampler& operator=(const CpuSampler&) = delete;

  // Samples `program`, which has not called exec yet, and all that it will start: user code, from that exec on.
  absl::Status Open(pid_t program);
  // To be called more often than every second.
  void Step();
  // The process has become another program: what was sampled of it has lost its meaning.
  void Forget(pid_t process) { counts_.erase(process); }
  const std::map<pid_t, Counts>& counts() const { return counts_; }

 private:
  // One CPU's events of all threads: the kernel admits no inherited event for all CPUs at once.
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
