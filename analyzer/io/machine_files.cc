#include "analyzer/io/machine_files.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "preload/format/identity.h"

namespace dlhook::analyzer::inline io {
namespace {

constexpr uint32_t kMostProcessorsRead = 16;

// The control group of the controller `cpu`, with the folder in which its files are.
struct Group {
  std::string mount;
  std::string path;  // "/" is the outermost one
};

std::vector<Group> GroupsOf(const std::string& root, uint32_t pid) {
  std::vector<Group> groups;
  for (absl::string_view line : absl::StrSplit(ReadSmallFile(absl::StrCat(root, "/proc/", pid, "/cgroup")), '\n')) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));  // id:controllers:path
    if (fields.size() < 3) continue;
    const std::vector<std::string> controllers = absl::StrSplit(fields[1], ',');
    const bool is_version_2 = fields[1].empty();
    if (!is_version_2 && !absl::c_linear_search(controllers, "cpu")) continue;
    for (const char* folder : {"", "/cpu", "/cpu,cpuacct"}) {
      if (is_version_2 == (*folder == '\0'))
        groups.push_back({absl::StrCat(root, "/sys/fs/cgroup", folder), fields[2]});
    }
  }
  return groups;
}

// Version 2 counts microseconds, version 1 nanoseconds.
uint64_t ThrottledNs(const std::string& stat) {
  for (absl::string_view line : absl::StrSplit(stat, '\n')) {
    uint64_t value = 0;
    if (absl::ConsumePrefix(&line, "throttled_usec ") && absl::SimpleAtoi(line, &value)) return value * 1000;
    if (absl::ConsumePrefix(&line, "throttled_time ") && absl::SimpleAtoi(line, &value)) return value;
  }
  return 0;
}

constexpr uint64_t kOftenForSeconds = 60;  // on a busy machine imports alone take ten
constexpr uint64_t kOftenPerSecond = 20;
constexpr uint64_t kLaterPerSecond = 2;
constexpr uint64_t kLaterForSeconds = 3600, kSecondsBetween = 5;

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

}  // namespace

std::string ReadSmallFile(const std::string& path) {
  char text[4096];
  return {text, ReadFileAt(AT_FDCWD, path.c_str(), text, sizeof text)};
}

std::string ValueIn(const std::string& path, absl::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    absl::string_view rest = line;
    if (!absl::ConsumePrefix(&rest, key)) continue;
    rest = absl::StripLeadingAsciiWhitespace(rest);
    absl::ConsumePrefix(&rest, ":");
    return std::string(absl::StripAsciiWhitespace(rest));
  }
  return "";
}

uint32_t FrequencyMhz(const std::string& root) {
  const auto processors = static_cast<uint32_t>(std::max<long>(sysconf(_SC_NPROCESSORS_CONF), 1));
  const uint32_t stride = (processors + kMostProcessorsRead - 1) / kMostProcessorsRead;
  uint64_t sum_khz = 0, count = 0;
  for (uint32_t processor = 0; processor < processors; processor += stride) {
    uint64_t khz = 0;
    const std::string path = absl::StrCat(root, "/sys/devices/system/cpu/cpu", processor, "/cpufreq/scaling_cur_freq");
    if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(ReadSmallFile(path)), &khz) || khz == 0) continue;
    sum_khz += khz;
    ++count;
  }
  return count == 0 ? 0 : static_cast<uint32_t>(sum_khz / count / 1000);
}

ThrottledTime::ThrottledTime(const std::string& root, uint32_t pid) {
  for (Group& group : GroupsOf(root, pid)) {
    for (std::string path = std::move(group.path);; path.resize(path.rfind('/'))) {
      if (absl::EndsWith(path, "/")) path.pop_back();
      std::string file = absl::StrCat(group.mount, path, "/cpu.stat");
      if (access(file.c_str(), R_OK) == 0) files_.push_back(std::move(file));
      if (path.find('/') == std::string::npos) break;
    }
  }
}

uint64_t ThrottledTime::ReadNs() const {
  uint64_t most_ns = 0;
  for (const std::string& file : files_) most_ns = std::max(most_ns, ThrottledNs(ReadSmallFile(file)));
  return most_ns;
}

absl::StatusOr<PackageEnergy> PackageEnergy::Open(const std::string& root) {
  PackageEnergy energy;
  std::error_code error;
  std::string unreadable;
  for (const auto& entry : std::filesystem::directory_iterator(root, error)) {
    const std::string path = entry.path().string();
    // "intel-rapl:0" is a package, on AMD's processors, too; "intel-rapl:0:0" a part of it.
    if (!absl::StartsWith(entry.path().filename().string(), "intel-rapl:") ||
        !absl::StartsWith(ReadSmallFile(path + "/name"), "package"))
      continue;
    Zone zone = {.file = path + "/energy_uj"};
    const bool is_read = absl::SimpleAtoi(ReadSmallFile(zone.file), &zone.last_uj) &&
                         absl::SimpleAtoi(ReadSmallFile(path + "/max_energy_range_uj"), &zone.range_uj);
    if (!is_read) unreadable = zone.file;
    energy.zones_.push_back(zone);
  }
  if (!unreadable.empty()) return absl::PermissionDeniedError(absl::StrCat(unreadable, ": can't be read"));
  if (energy.zones_.empty())
    return absl::NotFoundError(absl::StrCat(root, ": the kernel tells no energy of a package"));
  return energy;
}

double PackageEnergy::Joules() {
  for (Zone& zone : zones_) {
    uint64_t now_uj = 0;
    if (!absl::SimpleAtoi(ReadSmallFile(zone.file), &now_uj)) continue;
    joules_ += static_cast<double>(now_uj - zone.last_uj + (now_uj < zone.last_uj ? zone.range_uj : 0)) / 1e6;
    zone.last_uj = now_uj;
  }
  return joules_;
}

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
  const uint64_t age_seconds = (now - first_ticks_) / second_ticks_;
  next_ticks_ = now + (age_seconds < kOftenForSeconds   ? second_ticks_ / kOftenPerSecond
                       : age_seconds < kLaterForSeconds ? second_ticks_ / kLaterPerSecond
                                                        : second_ticks_ * kSecondsBetween);
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
  static const uint32_t page_fault_ns = MeasurePageFault();
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
                 .page_fault_ns = page_fault_ns,
                 .throttled_ns = throttled_->ReadNs(),
                 .frequency_mhz = frequency_mhz_,
                 .first_thread_cpu_ns = Field(schedstat.c_str(), 0)});
}

}  // namespace dlhook::analyzer::io
