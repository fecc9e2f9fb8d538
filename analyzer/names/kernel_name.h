// Names of GPU kernels, short enough for a column.
#ifndef DLHOOK_ANALYZER_NAMES_KERNEL_NAME_H_
#define DLHOOK_ANALYZER_NAMES_KERNEL_NAME_H_

#include <string>

#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline names {

// Function name without namespaces, return type and arguments; of the template arguments only what tells one kernel
// from another: functors and functions by their last name (two at most), or the first data type where there is none.
//   void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, …>(int, …)
//     -> vectorized_elementwise_kernel<FillFunctor>
//   void nchwToNhwcKernel<__half, __half, float, true>(…)  -> nchwToNhwcKernel<__half>
//   ampere_sgemm_128x64_nn                                 -> ampere_sgemm_128x64_nn
// Of a mangled name that could not be demangled: the function's own name.
std::string ShortKernelName(absl::string_view demangled);

}  // namespace dlhook::analyzer::names

#endif  // DLHOOK_ANALYZER_NAMES_KERNEL_NAME_H_
