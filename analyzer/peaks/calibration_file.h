// Calibrations as files: one json object each, in the user's cache folder.
#ifndef DLHOOK_ANALYZER_PEAKS_CALIBRATION_FILE_H_
#define DLHOOK_ANALYZER_PEAKS_CALIBRATION_FILE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "analyzer/io/whole_file.h"
#include "analyzer/peaks/calibration.h"

namespace dlhook::analyzer::inline peaks {

std::string CalibrationJson(const Calibration& calibration);
absl::StatusOr<Calibration> ParseCalibration(absl::string_view text);

// "calibration-AMD_EPYC-26-2-1-microcode-0xa0011d5-2.json": processor, microcode, number of available processors.
std::string CalibrationName(const Calibration& calibration);

// Errors name the path. The file is replaced atomically; folders above it are created.
absl::Status WriteCalibration(const Calibration& calibration, const std::string& path);
absl::StatusOr<Calibration> ReadCalibration(const std::string& path, FileIs how = FileIs::kNamed);

struct FoundCalibration {
  std::optional<Calibration> calibration;
  std::vector<std::string> complaints;  // files that could not be used, with the reason: sentences
};
// The calibration of a machine with this processor. If there are several: one for `processors` processors, else for
// more (a program may have been given a part of its machine); of these the newest.
FoundCalibration FindCalibration(const std::string& folder, const ProcessorInfo& processor, uint32_t processors);

// Whether it is valid for a program on that many processors of this kind.
bool Fits(const Calibration& calibration, const ProcessorInfo& processor, uint32_t processors);

}  // namespace dlhook::analyzer::peaks

#endif  // DLHOOK_ANALYZER_PEAKS_CALIBRATION_FILE_H_
