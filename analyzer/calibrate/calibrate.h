// All measurements of `dlhook calibrate`, and as tables.
#ifndef DLHOOK_ANALYZER_CALIBRATE_CALIBRATE_H_
#define DLHOOK_ANALYZER_CALIBRATE_CALIBRATE_H_

#include <string>
#include <vector>

#include "analyzer/peaks/calibration.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline calibrate {

struct CalibrateOptions {
  std::vector<std::string> libraries;  // only these; empty: those that are found
  std::string python;                  // whose packages are looked through, too; empty: the one in the PATH
};

// The processor, microcode and processors of this machine: what a calibration is found by.
Calibration DescribeMachine();

Calibration Calibrate(const CalibrateOptions& options);

// What was measured, and what was not.
Table CalibrationTable(const Calibration& calibration);

}  // namespace dlhook::analyzer::calibrate

#endif  // DLHOOK_ANALYZER_CALIBRATE_CALIBRATE_H_
