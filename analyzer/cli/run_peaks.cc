// Looks a run's machine up among calibrations.
#include "analyzer/cli/run_peaks.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "analyzer/cli/output.h"
#include "analyzer/peaks/calibration.h"

namespace dlhook::analyzer::inline cli {

absl::StatusOr<Peaks> FindPeaks(const TraceModel& model, const std::optional<std::string>& calibration) {
  if (model.processes.empty()) return Peaks();
  const ProcessInfo& process = model.processes.front();
  if (calibration == "off") return Peaks(model, nullptr);
  if (calibration) {
    const absl::StatusOr<Calibration> read = ReadCalibration(*calibration);
    if (!read.ok()) return read.status();
    if (Fits(*read, process.processor, process.processors)) return Peaks(model, &*read);
    const std::string run_is_of =
        process.processor.vendor.empty()
            ? "the run does not tell its processor"
            : absl::StrCat("the run is of ", process.processor.name, ", ", process.processors, " processors");
    return absl::InvalidArgumentError(absl::StrCat(*calibration, " is of ", read->processor.name, ", ",
                                                   read->processors, " processors; ", run_is_of));
  }
  const std::string folder = CacheFolder();
  if (folder.empty()) return Peaks(model, nullptr);
  const FoundCalibration found = FindCalibration(folder, process.processor, process.processors);
  for (const std::string& complaint : found.complaints) PrintError(complaint);
  return Peaks(model, found.calibration ? &*found.calibration : nullptr);
}

namespace {

// Empty if unset or empty.
absl::string_view ValueOf(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string CacheFolder() {
  const absl::string_view own = ValueOf("DLHOOK_CACHE");
  if (own == "off") return "";
  if (!own.empty()) return std::string(own);
  const absl::string_view caches = ValueOf("XDG_CACHE_HOME");
  if (!caches.empty() && caches.front() == '/') return absl::StrCat(caches, "/dlhook");
  const absl::string_view home = ValueOf("HOME");
  return home.empty() ? "" : absl::StrCat(home, "/.cache/dlhook");
}

}  // namespace dlhook::analyzer::cli
