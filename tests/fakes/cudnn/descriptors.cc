// libcudnn, legacy half: handles, descriptors with genuine getters.
#include "descriptors.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace {

constexpr int kSuccess = 0, kBadParameter = 2000;

}  // namespace

// The end of the generated wrapper of a call with a handle and without a behaviour here.
extern "C" __attribute__((visibility("hidden"))) int FakeKernel(void* handle) {
  fake::Work(CudnnHandleOf(handle)->stream, fake::Slowed(5000));
  return kSuccess;
}

// --- handles ---

FAKE(int, cudnnCreate, void** handle) { return Create<CudnnHandle>(handle); }
FAKE(int, cudnnDestroy, void* handle) { return Destroy<CudnnHandle>(handle); }

FAKE(int, cudnnSetStream, void* handle, void* stream) {
  CudnnHandleOf(handle)->stream = stream;
  return kSuccess;
}

FAKE(int, cudnnGetStream, void* handle, void** stream) {
  *stream = CudnnHandleOf(handle)->stream;
  return kSuccess;
}

FAKE(size_t, cudnnGetVersion, ) { return FAKE_CUDNN_VERSION; }
FAKE(size_t, cudnnGetCudartVersion, ) { return FAKE_CUDA_VERSION; }
FAKE(const char*, cudnnGetErrorString, int status) {
  return status == kSuccess ? "CUDNN_STATUS_SUCCESS" : "a status of the fake cuDNN";
}
FAKE(void, cudnnGetLastErrorString, char* text, size_t size) { snprintf(text, size, "an error of the fake cuDNN"); }

FAKE(int, cudnnGetProperty, int property, int* value) {
  const int major = FAKE_CUDNN_VERSION >= 90000 ? FAKE_CUDNN_VERSION / 10000 : FAKE_CUDNN_VERSION / 1000;
  const int minor = FAKE_CUDNN_VERSION % (FAKE_CUDNN_VERSION >= 90000 ? 10000 : 1000) / 100;
  *value = property == 0 ? major : property == 1 ? minor : FAKE_CUDNN_VERSION % 100;
  return kSuccess;
}

// --- descriptors ---

FAKE(int, cudnnCreateTensorDescriptor, void** out) { return Create<Tensor>(out); }
FAKE(int, cudnnDestroyTensorDescriptor, void* descriptor) { return Destroy<Tensor>(descriptor); }
FAKE(int, cudnnCreateFilterDescriptor, void** out) { return Create<Filter>(out); }
FAKE(int, cudnnDestroyFilterDescriptor, void* descriptor) { return Destroy<Filter>(descriptor); }
FAKE(int, cudnnCreateConvolutionDescriptor, void** out) { return Create<Convolution>(out); }
FAKE(int, cudnnDestroyConvolutionDescriptor, void* descriptor) { return Destroy<Convolution>(descriptor); }
FAKE(int, cudnnCreateActivationDescriptor, void** out) { return Create<Activation>(out); }
FAKE(int, cudnnDestroyActivationDescriptor, void* descriptor) { return Destroy<Activation>(descriptor); }

FAKE(int, cudnnSetTensorNdDescriptor, void* descriptor, int type, int count, const int* sizes, const int* strides) {
  if (count > kMostDimensions) return kBadParameter;
  auto* tensor = As<Tensor>(descriptor);
  tensor->type = type;
  tensor->count = count;
  CopyInts(tensor->sizes, sizes, count);
  CopyInts(tensor->strides, strides, count);
  return kSuccess;
}

FAKE(int, cudnnGetTensorNdDescriptor, const void* descriptor, int requested, int* type, int* count, int* sizes,
     int* strides) {
  const Tensor& tensor = *As<Tensor>(descriptor);
  if (type != nullptr) *type = tensor.type;
  if (count != nullptr) *count = tensor.count;
  CopyInts(sizes, tensor.sizes, std::min(requested, tensor.count));
  CopyInts(strides, tensor.strides, std::min(requested, tensor.count));
  return kSuccess;
}

FAKE(int, cudnnSetTensor4dDescriptorEx, void* descriptor, int type, int n, int c, int h, int w, int n_stride,
     int c_stride, int h_stride, int w_stride) {
  const int sizes[] = {n, c, h, w}, strides[] = {n_stride, c_stride, h_stride, w_stride};
  return behave_cudnnSetTensorNdDescriptor(descriptor, type, 4, sizes, strides);
}

FAKE(int, cudnnSetTensor4dDescriptor, void* descriptor, int format, int type, int n, int c, int h, int w) {
  const bool channels_last = format == 1;  // CUDNN_TENSOR_NHWC
  return behave_cudnnSetTensor4dDescriptorEx(descriptor, type, n, c, h, w, c * h * w, channels_last ? 1 : h * w,
                                             channels_last ? w * c : w, channels_last ? c : 1);
}

FAKE(int, cudnnSetFilterNdDescriptor, void* descriptor, int type, int format, int count, const int* sizes) {
  if (count > kMostDimensions) return kBadParameter;
  auto* filter = As<Filter>(descriptor);
  filter->type = type;
  filter->format = format;
  filter->count = count;
  CopyInts(filter->sizes, sizes, count);
  return kSuccess;
}

FAKE(int, cudnnSetFilter4dDescriptor, void* descriptor, int type, int format, int k, int c, int h, int w) {
  const int sizes[] = {k, c, h, w};
  return behave_cudnnSetFilterNdDescriptor(descriptor, type, format, 4, sizes);
}

FAKE(int, cudnnGetFilterNdDescriptor, const void* descriptor, int requested, int* type, int* format, int* count,
     int* sizes) {
  const Filter& filter = *As<Filter>(descriptor);
  if (type != nullptr) *type = filter.type;
  if (format != nullptr) *format = filter.format;
  if (count != nullptr) *count = filter.count;
  CopyInts(sizes, filter.sizes, std::min(requested, filter.count));
  return kSuccess;
}

FAKE(int, cudnnSetConvolutionNdDescriptor, void* descriptor, int count, const int* pads, const int* strides,
     const int* dilations, int mode, int compute_type) {
  if (count > kMostDimensions) return kBadParameter;
  auto* convolution = As<Convolution>(descriptor);
  convolution->count = count;
  convolution->mode = mode;
  convolution->compute_type = compute_type;
  CopyInts(convolution->pads, pads, count);
  CopyInts(convolution->strides, strides, count);
  CopyInts(convolution->dilations, dilations, count);
  return kSuccess;
}

FAKE(int, cudnnSetConvolution2dDescriptor, void* descriptor, int pad_h, int pad_w, int stride_h, int stride_w,
     int dilation_h, int dilation_w, int mode, int compute_type) {
  const int pads[] = {pad_h, pad_w}, strides[] = {stride_h, stride_w}, dilations[] = {dilation_h, dilation_w};
  return behave_cudnnSetConvolutionNdDescriptor(descriptor, 2, pads, strides, dilations, mode, compute_type);
}

FAKE(int, cudnnGetConvolutionNdDescriptor, const void* descriptor, int requested, int* count, int* pads, int* strides,
     int* dilations, int* mode, int* compute_type) {
  const Convolution& convolution = *As<Convolution>(descriptor);
  const int given = std::min(requested, convolution.count);
  if (count != nullptr) *count = convolution.count;
  CopyInts(pads, convolution.pads, given);
  CopyInts(strides, convolution.strides, given);
  CopyInts(dilations, convolution.dilations, given);
  if (mode != nullptr) *mode = convolution.mode;
  if (compute_type != nullptr) *compute_type = convolution.compute_type;
  return kSuccess;
}

FAKE(int, cudnnSetConvolutionGroupCount, void* descriptor, int groups) {
  As<Convolution>(descriptor)->groups = groups;
  return kSuccess;
}

FAKE(int, cudnnGetConvolutionGroupCount, const void* descriptor, int* groups) {
  *groups = As<Convolution>(descriptor)->groups;
  return kSuccess;
}

FAKE(int, cudnnSetConvolutionMathType, void* descriptor, int math_type) {
  As<Convolution>(descriptor)->math_type = math_type;
  return kSuccess;
}

FAKE(int, cudnnGetConvolutionMathType, const void* descriptor, int* math_type) {
  *math_type = As<Convolution>(descriptor)->math_type;
  return kSuccess;
}

FAKE(int, cudnnGetConvolutionNdForwardOutputDim, const void* descriptor, const void* input, const void* filter,
     int count, int* sizes) {
  const Convolution& convolution = *As<Convolution>(descriptor);
  const Tensor& x = *As<Tensor>(input);
  const Filter& w = *As<Filter>(filter);
  if (count < 2) return kBadParameter;
  sizes[0] = x.sizes[0];
  sizes[1] = w.sizes[0];
  for (int i = 0; i + 2 < count; ++i) {
    const int reach = (w.sizes[i + 2] - 1) * convolution.dilations[i] + 1;
    sizes[i + 2] = (x.sizes[i + 2] + 2 * convolution.pads[i] - reach) / convolution.strides[i] + 1;
  }
  return kSuccess;
}

FAKE(int, cudnnGetConvolution2dForwardOutputDim, const void* descriptor, const void* input, const void* filter, int* n,
     int* c, int* h, int* w) {
  int sizes[4] = {};
  const int status = behave_cudnnGetConvolutionNdForwardOutputDim(descriptor, input, filter, 4, sizes);
  *n = sizes[0];
  *c = sizes[1];
  *h = sizes[2];
  *w = sizes[3];
  return status;
}

FAKE(int, cudnnSetActivationDescriptor, void* descriptor, int mode, int nan, double coefficient) {
  auto* activation = As<Activation>(descriptor);
  activation->mode = mode;
  activation->nan = nan;
  activation->coefficient = coefficient;
  return kSuccess;
}

FAKE(int, cudnnGetActivationDescriptor, const void* descriptor, int* mode, int* nan, double* coefficient) {
  const Activation& activation = *As<Activation>(descriptor);
  *mode = activation.mode;
  *nan = activation.nan;
  *coefficient = activation.coefficient;
  return kSuccess;
}
