// See package_energy.h.
#include "analyzer/io/package_energy.h"

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "analyzer/io/machine_files.h"

namespace dlhook::analyzer::inline io {

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
