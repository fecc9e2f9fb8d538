// The cost of launches and copies on the first GPU.
#ifndef DLHOOK_ANALYZER_CALIBRATE_GPU_SPEED_H_
#define DLHOOK_ANALYZER_CALIBRATE_GPU_SPEED_H_

#include <string>
#include <vector>

#include "analyzer/calibrate/measuring.h"

namespace dlhook::analyzer::inline calibrate {

struct GpuMeasurements {
  std::string name;  // empty: none
  Measurements results;
};
// Uses only the driver: libcuda.so.1, found by the loader.
GpuMeasurements MeasureGpu(const std::vector<int>& processors);

}  // namespace dlhook::analyzer::calibrate

#endif  // DLHOOK_ANALYZER_CALIBRATE_GPU_SPEED_H_
