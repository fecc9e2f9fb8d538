// The energy that processors have used (RAPL), as the kernel's powercap tells it.
#ifndef DLHOOK_ANALYZER_IO_PACKAGE_ENERGY_H_
#define DLHOOK_ANALYZER_IO_PACKAGE_ENERGY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace dlhook::analyzer::inline io {

class PackageEnergy {
 public:
  // `root`: usually /sys/class/powercap. An error says why it can't be read.
  static absl::StatusOr<PackageEnergy> Open(const std::string& root);

  // Of all packages since it was opened; counters wrap, so it is to be read every few minutes.
  double Joules();

 private:
  struct Zone {
    std::string file;
    uint64_t range_uj = 0, last_uj = 0;
  };
  std::vector<Zone> zones_;
  double joules_ = 0;
};

}  // namespace dlhook::analyzer::io

#endif  // DLHOOK_ANALYZER_IO_PACKAGE_ENERGY_H_
