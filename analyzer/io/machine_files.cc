// Files of Linux about the machine: see machine_files.h.
#include "analyzer/io/machine_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
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
    if (!is_version_2 && std::find(controllers.begin(), controllers.end(), "cpu") == controllers.end()) continue;
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

}  // namespace dlhook::analyzer::io
