// All measurements of `dlhook calibrate`, and their tables.
#pragma once

#include <string>
#include <vector>

#include "analyzer/peaks/calibration.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline calibrate {

struct CalibrateOptions {
  std::vector<std::string> libraries;  // only these; empty: those found
  std::string python;                  // whose packages are searched, too; empty: the one in the PATH
};

// The processor, microcode and processors of this machine: the key of a calibration.
Calibration DescribeMachine();

Calibration Calibrate(const CalibrateOptions& options);

// Measured and missing values.
Table CalibrationTable(const Calibration& calibration);

}  // namespace dlhook::analyzer::calibrate
