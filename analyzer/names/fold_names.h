// Shortens names of C++ functions for display: without return types, arguments, most template arguments and inline
// namespaces. The table of rules is in fold_names.cc; what it makes of names of real libraries is in
// tests/analyzer/stacks/fold_names_test.cc.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline names {

// `demangled`: NativeSymbol.function. "at::native::conv2d(at::Tensor const&, …)" -> "at::native::conv2d",
// "tensorflow::MatMulOp<Eigen::ThreadPoolDevice, float, false>::Compute(…)" -> "tensorflow::MatMulOp::Compute",
// "void caffe::ConvolutionLayer<float>::Forward_cpu(…)" -> "caffe::ConvolutionLayer<float>::Forward_cpu",
// "at::native::f(long)::{lambda(long, long)#1}::operator()(long, long) const" -> "at::native::f::{lambda}". Anything
// that is not a C++ name, or can't be parsed, is returned unchanged.
std::string FoldFunction(absl::string_view demangled);

// Whether the function only forwards a call: c10's dispatcher, std::function, pybind11, Eigen's evaluators, the start
// of a thread … Accepts both the demangled and the folded name.
bool IsPlumbing(absl::string_view function);

}  // namespace dlhook::analyzer::names
