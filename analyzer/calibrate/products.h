// GFLOP/s of matrix products, with the fastest available library.
#ifndef DLHOOK_ANALYZER_CALIBRATE_PRODUCTS_H_
#define DLHOOK_ANALYZER_CALIBRATE_PRODUCTS_H_

#include <string>
#include <vector>

#include "analyzer/calibrate/measuring.h"

namespace dlhook::analyzer::inline calibrate {

// f32, f64, bf16 and int8 with one thread and with all, and the cost of the smallest product. `libraries`: names and
// paths for dlopen; those that can't be opened are left out, or reported as missing if `is_asked`.
Measurements MeasureProducts(const std::vector<int>& processors, const std::vector<std::string>& libraries,
                             bool is_asked);

}  // namespace dlhook::analyzer::calibrate

#endif  // DLHOOK_ANALYZER_CALIBRATE_PRODUCTS_H_
