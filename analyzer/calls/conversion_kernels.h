// Kernels that only move a tensor into another layout or type, known by their names.
#ifndef DLHOOK_ANALYZER_CALLS_CONVERSION_KERNELS_H_
#define DLHOOK_ANALYZER_CALLS_CONVERSION_KERNELS_H_

#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline calls {

struct ConversionKernel {
  absl::string_view part;  // of the kernel's whole name
  absl::string_view from;  // memory formats, where the name tells them
  absl::string_view to;
  absl::string_view change;  // as in the column of this name
};

// nullptr: not such a kernel, as far as its name tells.
const ConversionKernel* FindConversionKernel(absl::string_view kernel_name);

}  // namespace dlhook::analyzer::calls

#endif  // DLHOOK_ANALYZER_CALLS_CONVERSION_KERNELS_H_
