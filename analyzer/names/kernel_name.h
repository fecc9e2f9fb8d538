// What names of GPU kernels tell: a short one for a column, and whether it moves data between devices.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline names {

// The function name without namespaces, return type and arguments. Of the template arguments only those that
// distinguish kernels: functors and functions by their last name (at most two), or the first data type if there are
// none.
//   void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, …>(int, …)
//     -> vectorized_elementwise_kernel<FillFunctor>
//   void nchwToNhwcKernel<__half, __half, float, true>(…)  -> nchwToNhwcKernel<__half>
//   ampere_sgemm_128x64_nn                                 -> ampere_sgemm_128x64_nn
// For a mangled name that could not be demangled: the function's own name.
std::string ShortKernelName(absl::string_view demangled);

// Whether it is a collective operation by its own name or that of the library whose namespace it is in: by template
// arguments and parameters it is none.
bool IsCollectiveKernel(absl::string_view demangled);

}  // namespace dlhook::analyzer::names
