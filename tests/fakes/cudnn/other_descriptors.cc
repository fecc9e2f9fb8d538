// libcudnn, legacy half: descriptors of pooling, element-wise operations, reductions, dropout,
// local response normalization.
#include <algorithm>

#include "descriptors.h"

namespace {

constexpr int kSuccess = 0, kBadParameter = 2000;

struct Pooling {
  int mode = 0, nan = 0, count = 0;
  int window[kMostDimensions] = {};
  int pads[kMostDimensions] = {};
  int strides[kMostDimensions] = {};
};

struct Operation {
  int operation = 0, compute_type = 0, nan = 0, indices = 0, index_type = 0;
};

struct Normalization {
  unsigned n = 0;
  double alpha = 0, beta = 0, k = 0;
};

struct Dropout {
  float rate = 0;
};

}  // namespace

// --- pooling ---

FAKE(int, cudnnCreatePoolingDescriptor, void** out) { return Create<Pooling>(out); }
FAKE(int, cudnnDestroyPoolingDescriptor, void* descriptor) { return Destroy<Pooling>(descriptor); }

FAKE(int, cudnnSetPoolingNdDescriptor, void* descriptor, int mode, int nan, int count, const int* window,
     const int* pads, const int* strides) {
  if (count > kMostDimensions) return kBadParameter;
  auto* pooling = As<Pooling>(descriptor);
  pooling->mode = mode;
  pooling->nan = nan;
  pooling->count = count;
  CopyInts(pooling->window, window, count);
  CopyInts(pooling->pads, pads, count);
  CopyInts(pooling->strides, strides, count);
  return kSuccess;
}

FAKE(int, cudnnSetPooling2dDescriptor, void* descriptor, int mode, int nan, int window_h, int window_w, int pad_h,
     int pad_w, int stride_h, int stride_w) {
  const int window[] = {window_h, window_w}, pads[] = {pad_h, pad_w}, strides[] = {stride_h, stride_w};
  return behave_cudnnSetPoolingNdDescriptor(descriptor, mode, nan, 2, window, pads, strides);
}

FAKE(int, cudnnGetPoolingNdDescriptor, const void* descriptor, int requested, int* mode, int* nan, int* count,
     int* window, int* pads, int* strides) {
  const Pooling& pooling = *As<Pooling>(descriptor);
  const int given = std::min(requested, pooling.count);
  if (mode != nullptr) *mode = pooling.mode;
  if (nan != nullptr) *nan = pooling.nan;
  if (count != nullptr) *count = pooling.count;
  CopyInts(window, pooling.window, given);
  CopyInts(pads, pooling.pads, given);
  CopyInts(strides, pooling.strides, given);
  return kSuccess;
}

FAKE(int, cudnnGetPoolingNdForwardOutputDim, const void* descriptor, const void* input, int count, int* sizes) {
  const Pooling& pooling = *As<Pooling>(descriptor);
  const Tensor& x = *As<Tensor>(input);
  if (count != x.count || count != pooling.count + 2) return kBadParameter;
  CopyInts(sizes, x.sizes, 2);
  for (int i = 0; i < pooling.count; ++i) {
    sizes[i + 2] = (x.sizes[i + 2] + 2 * pooling.pads[i] - pooling.window[i]) / pooling.strides[i] + 1;
  }
  return kSuccess;
}

FAKE(int, cudnnGetPooling2dForwardOutputDim, const void* descriptor, const void* input, int* n, int* c, int* h,
     int* w) {
  int sizes[4] = {};
  const int status = behave_cudnnGetPoolingNdForwardOutputDim(descriptor, input, 4, sizes);
  *n = sizes[0];
  *c = sizes[1];
  *h = sizes[2];
  *w = sizes[3];
  return status;
}

// --- element-wise operations and reductions ---

FAKE(int, cudnnCreateOpTensorDescriptor, void** out) { return Create<Operation>(out); }
FAKE(int, cudnnDestroyOpTensorDescriptor, void* descriptor) { return Destroy<Operation>(descriptor); }
FAKE(int, cudnnCreateReduceTensorDescriptor, void** out) { return Create<Operation>(out); }
FAKE(int, cudnnDestroyReduceTensorDescriptor, void* descriptor) { return Destroy<Operation>(descriptor); }

FAKE(int, cudnnSetReduceTensorDescriptor, void* descriptor, int operation, int compute_type, int nan, int indices,
     int index_type) {
  *As<Operation>(descriptor) = {operation, compute_type, nan, indices, index_type};
  return kSuccess;
}

FAKE(int, cudnnGetReduceTensorDescriptor, const void* descriptor, int* operation, int* compute_type, int* nan,
     int* indices, int* index_type) {
  const Operation& known = *As<Operation>(descriptor);
  *operation = known.operation;
  *compute_type = known.compute_type;
  *nan = known.nan;
  *indices = known.indices;
  *index_type = known.index_type;
  return kSuccess;
}

FAKE(int, cudnnSetOpTensorDescriptor, void* descriptor, int operation, int compute_type, int nan) {
  return behave_cudnnSetReduceTensorDescriptor(descriptor, operation, compute_type, nan, 0, 0);
}

FAKE(int, cudnnGetOpTensorDescriptor, const void* descriptor, int* operation, int* compute_type, int* nan) {
  int indices = 0, index_type = 0;
  return behave_cudnnGetReduceTensorDescriptor(descriptor, operation, compute_type, nan, &indices, &index_type);
}

// --- dropout, local response normalization ---

FAKE(int, cudnnCreateDropoutDescriptor, void** out) { return Create<Dropout>(out); }
FAKE(int, cudnnDestroyDropoutDescriptor, void* descriptor) { return Destroy<Dropout>(descriptor); }

FAKE(int, cudnnSetDropoutDescriptor, void* descriptor, void*, float rate, void*, size_t, uint64_t) {
  As<Dropout>(descriptor)->rate = rate;
  return kSuccess;
}

FAKE(int, cudnnCreateLRNDescriptor, void** out) { return Create<Normalization>(out); }
FAKE(int, cudnnDestroyLRNDescriptor, void* descriptor) { return Destroy<Normalization>(descriptor); }

FAKE(int, cudnnSetLRNDescriptor, void* descriptor, unsigned n, double alpha, double beta, double k) {
  *As<Normalization>(descriptor) = {n, alpha, beta, k};
  return kSuccess;
}

FAKE(int, cudnnGetLRNDescriptor, const void* descriptor, unsigned* n, double* alpha, double* beta, double* k) {
  const Normalization& known = *As<Normalization>(descriptor);
  *n = known.n;
  *alpha = known.alpha;
  *beta = known.beta;
  *k = known.k;
  return kSuccess;
}
