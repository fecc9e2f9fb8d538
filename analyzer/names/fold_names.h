// Shortens names of C++ functions for display: without return types, arguments, most template arguments and inline
// namespaces. The table of rules is in fold_names.cc; what it makes of names of real libraries is in
// tests/analyzer/stacks/fold_names_test.cc.
#pragma once

#include "analyzer/model/prelude.h"

namespace dlhook::analyzer::inline names {

// `demangled`: NativeSymbol.function. "at::native::conv2d(at::Tensor const&, …)" -> "at::native::conv2d",
// "tensorflow::MatMulOp<Eigen::ThreadPoolDevice, float, false>::Compute(…)" -> "tensorflow::MatMulOp::Compute",
// "void caffe::ConvolutionLayer<float>::Forward_cpu(…)" -> "caffe::ConvolutionLayer<float>::Forward_cpu",
// "at::native::f(long)::{lambda(long, long)#1}::operator()(long, long) const" -> "at::native::f::{lambda}". Anything
// that is not a C++ name, or can't be parsed, is returned unchanged.
std::string FoldFunction(absl::string_view demangled);

// One part of the path that a demangled name is: "ConvolutionLayer" and "float" in "void caffe::ConvolutionLayer<float>::Forward(…)".
struct NamePart {
  std::string name;
  std::string template_arguments;  // without the brackets
};
// Empty: unbalanced, or not a name.
std::vector<NamePart> PathOf(absl::string_view demangled);

// Whether the function only forwards a call: c10's dispatcher, std::function, pybind11, Eigen's evaluators, the start
// of a thread … Accepts both the demangled and the folded name.
bool IsPlumbing(absl::string_view function);

// Demangles symbol names.

// C++ (Itanium ABI) and Rust (legacy scheme) names with arguments; without the version that a symbol in .symtab may
// have ("@@GLIBC_2.34"). Names that are not mangled, or that the demangler rejects, are returned unchanged.
std::string DemangleSymbol(absl::string_view symbol);
std::string Demangle(absl::string_view mangled);  // for names without a version, such as kernels'

// The identifiers at the beginning of a mangled name: at, native, foo for "_ZN2at6native3fooI…E…". For names that the
// demangler rejects (more than 1 024 characters of lambdas in templates). Empty: not such a name.
std::vector<absl::string_view> PathOfMangled(absl::string_view mangled);

// What names of GPU kernels tell: a short one for a column, and whether it moves data between devices.

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

// Of a kernel that multiplies matrices, whether its name says that it uses NVIDIA's tensor cores or AMD's matrix cores; nullopt:
// it does not say.
std::optional<bool> UsesTensorCores(absl::string_view demangled);

}  // namespace dlhook::analyzer::names
