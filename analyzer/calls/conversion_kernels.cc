// Names of conversion kernels: see conversion_kernels.h. The first entry whose part occurs in the name applies. To add
// one, add a line here and a case in tests/analyzer/calls/gpu_layout_test.cc.
#include "analyzer/calls/conversion_kernels.h"

#include "absl/strings/match.h"

namespace dlhook::analyzer::inline calls {
namespace {

constexpr ConversionKernel kKernels[] = {
    // cuDNN (cudnn::ops, cudnn::engines_precompiled): to and from the layout that its engine needs, with a type
    // conversion if the first two template arguments differ. Folded: several columns in one vector.
    // columns in one vector.
    {"nchwToNhwcKernel", "nchw", "nhwc", "format"},
    {"nhwcToNchwKernel", "nhwc", "nchw", "format"},
    {"nchwToFoldedNhwcKernel", "nchw", "folded nhwc", "format"},
    {"nhwcToFoldedNhwcKernel", "nhwc", "folded nhwc", "format"},
    {"foldedNhwcToNhwcKernel", "folded nhwc", "nhwc", "format"},
    // cuDNN: pads channels to a multiple of the vector length.
    {"nchwAddPaddingKernel", "nchw", "nchw padded", "format"},
    {"nhwcAddPaddingKernel", "nhwc", "nhwc padded", "format"},
    // cuDNN: any strides and types to any others; the name does not say which.
    {"tensorTransformGeneric", "", "", "format or type"},
    {"convertTensor_kernel", "", "", "format or type"},
    {"genericTranspose_kernel", "", "", "format"},
    {"transposeBlock_kernel", "", "", "format"},
    {"transposeWarp_kernel", "", "", "format"},
    // cuBLAS's transpose, also used by cuDNN (FFT convolutions, RNNs).
    {"transpose_readWrite_alignment_kernel", "", "", "format"},
    // TensorFlow: NCHW <-> NHWC as a transpose of the inner two, or of the outer and the inner, of three dimensions;
    // any other permutation.
    {"SwapDimension1And2InTensor3", "", "", "format"},
    {"SwapDimension0And2InTensor3", "", "", "format"},
    {"ShuffleInTensor3Simple", "", "", "format"},
    // XLA names a fusion after its contents.
    {"transpose_fusion", "", "", "format"},
    {"wrapped_transpose", "", "", "format"},
    {"wrapped_copy", "", "", "format or copy"},
    // PyTorch: Tensor.contiguous(), .to(memory_format=…), copy_ between strides or types.
    {"direct_copy_kernel", "", "", "format, type or copy"},
};

}  // namespace

const ConversionKernel* FindConversionKernel(absl::string_view kernel_name) {
  for (const ConversionKernel& kernel : kKernels) {
    if (absl::StrContains(kernel_name, kernel.part)) return &kernel;
  }
  return nullptr;
}

}  // namespace dlhook::analyzer::calls
