// Samples the load of a process: see load_sampler.h.
#include "analyzer/io/load_sampler.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "preload/format/clock.h"
#include "preload/format/identity.h"

namespace dlhook::analyzer::inline io {
namespace {

constexpr uint64_t kOftenForSeconds = 60;  // on a busy machine imports alone take ten
constexpr uint64_t kOftenPerSecond = 20;
constexpr uint64_t kLaterPerSecond = 2;

// The CPU-time clock of a process, as clock_getcpuclockid makes it.
clockid_t ClockOf(uint32_t pid) { return static_cast<clockid_t>((~pid << 3) | 2); }

// The field after that many blanks; 0 if there is none.
uint64_t Field(const char* text, int blanks) {
  while (text != nullptr && blanks-- > 0) {
    text = strchr(text, ' ');
    if (text != nullptr) ++text;
  }
  return text == nullptr ? 0 : strtoull(text, nullptr, 10);
}

// What a page costs that is allocated, touched and freed again: the least of some trials, as other programs disturb
// them.
uint32_t MeasurePageFault() {
  constexpr size_t kBytes = 1 << 20;
  const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  uint64_t least_ns = UINT64_MAX;
  for (int trial = 0; trial < 3; ++trial) {
    const uint64_t start_ns = ClockNanoseconds(CLOCK_MONOTONIC);
    void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 0;
    madvise(memory, kBytes, MADV_NOHUGEPAGE);
    for (size_t at = 0; at < kBytes; at += page_bytes) static_cast<volatile char*>(memory)[at] = 1;
    munmap(memory, kBytes);
    least_ns = std::min(least_ns, ClockNanoseconds(CLOCK_MONOTONIC) - start_ns);
  }
  return static_cast<uint32_t>(least_ns * page_bytes / kBytes);
}

uint32_t PageFaultNs() {
  static const uint32_t kNs = MeasurePageFault();
  return kNs;
}

}  // namespace

LoadSampler::LoadSampler(const SessionHeader& session)
    : clock_(static_cast<ClockKind>(session.clock_kind)), second_ticks_(TicksPerSecond(session)) {
  if (session.pid_namespace != PidNamespace()) return;
  pid_ = session.pid;
  first_ticks_ = ReadTicks(clock_);
  processors_ = static_cast<uint32_t>(std::max<long>(sysconf(_SC_NPROCESSORS_ONLN), 0));
  throttled_.emplace("", pid_);
}

void LoadSampler::Step(Drain& drain) {
  const uint64_t now = ReadTicks(clock_);
  if (pid_ == 0 || now < next_ticks_) return;
  const bool often = now - first_ticks_ < kOftenForSeconds * second_ticks_;
  next_ticks_ = now + second_ticks_ / (often ? kOftenPerSecond : kLaterPerSecond);
  const std::string process = absl::StrCat("/proc/", pid_);
  const std::string stat = ReadSmallFile(absl::StrCat(process, "/task/", pid_, "/stat"));
  const size_t name_end = stat.rfind(')');  // the name before it may contain anything
  timespec cpu;
  if (name_end == std::string::npos || clock_gettime(ClockOf(pid_), &cpu) != 0) return;
  const auto field = [&](int number) { return Field(stat.c_str() + name_end, number - 2); };  // as proc(5) counts
  if (now >= next_frequency_ticks_) {  // asking a processor for its frequency interrupts it
    frequency_mhz_ = FrequencyMhz("");
    next_frequency_ticks_ = now + second_ticks_;
  }
  const uint64_t runnable = Field(ReadSmallFile("/proc/loadavg").c_str(), 3);
  const std::string schedstat = ReadSmallFile(process + "/schedstat");  // of its first thread
  drain.AddLoad({.ticks = now,
                 .cpu_ns = static_cast<uint64_t>(cpu.tv_sec) * 1000000000 + static_cast<uint64_t>(cpu.tv_nsec),
                 .waiting_ns = Field(schedstat.c_str(), 1),
                 .threads = static_cast<uint32_t>(field(20)),
                 .runnable = static_cast<uint32_t>(runnable > 0 ? runnable - 1 : 0),
                 .processors = processors_,
                 .page_faults = field(10),
                 .system_ns = field(15) * (1000000000 / static_cast<uint64_t>(sysconf(_SC_CLK_TCK))),
                 .resident_bytes = field(24) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)),
                 .page_fault_ns = PageFaultNs(),
                 .throttled_ns = throttled_->ReadNs(),
                 .frequency_mhz = frequency_mhz_,
                 .first_thread_cpu_ns = Field(schedstat.c_str(), 0)});
}

}  // namespace dlhook::analyzer::io
