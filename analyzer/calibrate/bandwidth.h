// Bandwidth of caches and memory.
#ifndef DLHOOK_ANALYZER_CALIBRATE_BANDWIDTH_H_
#define DLHOOK_ANALYZER_CALIBRATE_BANDWIDTH_H_

#include <vector>

#include "analyzer/calibrate/measuring.h"

namespace dlhook::analyzer::inline calibrate {

// L2, L3 and memory, read with one thread and with all; memory also by triad (McCalpin's STREAM: a = b + s c). Also the
// time to pass work to all threads and to wait for them.
Measurements MeasureBandwidth(const std::vector<int>& processors);

}  // namespace dlhook::analyzer::calibrate

#endif  // DLHOOK_ANALYZER_CALIBRATE_BANDWIDTH_H_
