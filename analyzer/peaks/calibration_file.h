// Calibrations as files: one json object each, in the user's cache folder.
#ifndef DLHOOK_ANALYZER_PEAKS_CALIBRATION_FILE_H_
#define DLHOOK_ANALYZER_PEAKS_CALIBRATION_FILE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "analyzer/peaks/calibration.h"

namespace dlhook::analyzer::inline peaks {

std::string CalibrationJson(const Calibration& calibration);
absl::StatusOr<Calibration> ParseCalibration(absl::string_view text);

// "calibration-AMD_EPYC-26-2-1-microcode-0xa0011d5-2.json": processor, microcode, processors that may be used.
std::string CalibrationName(const Calibration& calibration);

// Errors name the path. The file is replaced whole; folders above it are made.
absl::Status WriteCalibration(const Calibration& calibration, const std::string& path);
absl::StatusOr<Calibration> ReadCalibration(const std::string& path);

struct FoundCalibration {
  std::optional<Calibration> calibration;
  std::vector<std::string> complaints;  // files that could not be used, and why: sentences
};
// That of a machine with this processor. Of several: one for as many processors as `processors`, else for more of them (a program
// may have been given a part of its machine); of these the newest.
FoundCalibration FindCalibration(const std::string& folder, const ProcessorInfo& processor, uint32_t processors);

// Whether it says something of a program on so many processors of this kind.
bool Fits(const Calibration& calibration, const ProcessorInfo& processor, uint32_t processors);

}  // namespace dlhook::analyzer::peaks

#endif  // DLHOOK_ANALYZER_PEAKS_CALIBRATION_FILE_H_
