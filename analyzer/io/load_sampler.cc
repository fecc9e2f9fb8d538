// Samples the load of a process: see load_sampler.h.
#include "analyzer/io/load_sampler.h"

#include <fcntl.h>
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

std::string Read(const std::string& path) {
  char text[1024];
  return {text, ReadFileAt(AT_FDCWD, path.c_str(), text, sizeof text)};
}

// The field after that many blanks; 0 if there is none.
uint64_t Field(const char* text, int blanks) {
  while (text != nullptr && blanks-- > 0) {
    text = strchr(text, ' ');
    if (text != nullptr) ++text;
  }
  return text == nullptr ? 0 : strtoull(text, nullptr, 10);
}

}  // namespace

LoadSampler::LoadSampler(const SessionHeader& session)
    : clock_(static_cast<ClockKind>(session.clock_kind)), second_ticks_(TicksPerSecond(session)) {
  if (session.pid_namespace != PidNamespace()) return;
  pid_ = session.pid;
  first_ticks_ = ReadTicks(clock_);
  processors_ = static_cast<uint32_t>(std::max<long>(sysconf(_SC_NPROCESSORS_ONLN), 0));
}

void LoadSampler::Step(Drain& drain) {
  const uint64_t now = ReadTicks(clock_);
  if (pid_ == 0 || now < next_ticks_) return;
  const bool often = now - first_ticks_ < kOftenForSeconds * second_ticks_;
  next_ticks_ = now + second_ticks_ / (often ? kOftenPerSecond : kLaterPerSecond);
  const std::string process = absl::StrCat("/proc/", pid_), stat = Read(process + "/stat");
  const size_t name_end = stat.rfind(')');  // the name before it may contain anything
  timespec cpu;
  if (name_end == std::string::npos || clock_gettime(ClockOf(pid_), &cpu) != 0) return;
  const uint64_t runnable = Field(Read("/proc/loadavg").c_str(), 3);
  drain.AddLoad({.ticks = now,
                 .cpu_ns = static_cast<uint64_t>(cpu.tv_sec) * 1000000000 + static_cast<uint64_t>(cpu.tv_nsec),
                 .waiting_ns = Field(Read(process + "/schedstat").c_str(), 1),
                 .threads = static_cast<uint32_t>(Field(stat.c_str() + name_end, 18)),
                 .runnable = static_cast<uint32_t>(runnable > 0 ? runnable - 1 : 0),
                 .processors = processors_});
}

}  // namespace dlhook::analyzer::io
