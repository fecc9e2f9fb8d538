// Libraries that multiply matrices: those found by the loader, and those inside a Python's packages.
#ifndef DLHOOK_ANALYZER_CALIBRATE_PRODUCT_LIBRARIES_H_
#define DLHOOK_ANALYZER_CALIBRATE_PRODUCT_LIBRARIES_H_

#include <string>
#include <vector>

namespace dlhook::analyzer::inline calibrate {

// Names and paths for dlopen, each library once as far as its name shows. `python`: an interpreter whose packages are
// searched; empty: the one in the PATH.
std::vector<std::string> ProductLibraries(const std::string& python);

}  // namespace dlhook::analyzer::calibrate

#endif  // DLHOOK_ANALYZER_CALIBRATE_PRODUCT_LIBRARIES_H_
