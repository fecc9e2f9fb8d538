// Kernels that only convert a tensor to another layout or type, recognized by name.
#pragma once

#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline calls {

struct ConversionKernel {
  absl::string_view part;  // of the kernel's full name
  absl::string_view from;  // memory formats, if the name gives them
  absl::string_view to;
  absl::string_view change;  // text for the column `change`
};

// nullptr: not such a kernel, as far as its name shows.
const ConversionKernel* FindConversionKernel(absl::string_view kernel_name);

}  // namespace dlhook::analyzer::calls
