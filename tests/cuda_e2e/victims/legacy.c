// Clients of cuDNN from before its graph interface, each as its framework calls it. legacy MODE:
//   caffe    one convolution a group on operands with the strides of the whole tensor, Get…_v7, pageable copies
//   cntk     Find…Ex of the three directions on its own buffers, groups, math type, activation fused with bias
//   theano   cuDNN 7: Get…Algorithm with a preference, one answer
//   convnet  tensors as cuda-convnet has them: batch innermost (CHWN), transformed to NCHW and back
#include "tell.h"

static int (*cudaMalloc)(void** out, size_t bytes);
static int (*cudaMemcpy)(void* dst, const void* src, size_t bytes, int kind);
static int (*cudnnCreate)(void** handle);
static int (*cudnnSetStream)(void* handle, void* stream);
static int (*cudnnCreateTensorDescriptor)(void** out);
static int (*cudnnCreateFilterDescriptor)(void** out);
static int (*cudnnCreateConvolutionDescriptor)(void** out);
static int (*cudnnCreateActivationDescriptor)(void** out);
static int (*cudnnCreatePoolingDescriptor)(void** out);
static int (*cudnnSetTensor4dDescriptorEx)(void* tensor, int type, int n, int c, int h, int w, int sn, int sc, int sh,
                                           int sw);
static int (*cudnnSetFilter4dDescriptor)(void* filter, int type, int format, int k, int c, int h, int w);
static int (*cudnnSetConvolution2dDescriptor)(void* conv, int ph, int pw, int sh, int sw, int dh, int dw, int mode,
                                              int type);
static int (*cudnnSetConvolutionGroupCount)(void* conv, int groups);
static int (*cudnnSetConvolutionMathType)(void* conv, int type);
static int (*cudnnSetActivationDescriptor)(void* activation, int mode, int nan, double coefficient);
static int (*cudnnSetPooling2dDescriptor)(void* pooling, int mode, int nan, int h, int w, int ph, int pw, int sh,
                                          int sw);
static int (*cudnnGetConvolutionForwardAlgorithm_v7)(void*, void* x, void* w, void* conv, void* y, int, int*, void*);
static int (*cudnnGetConvolutionForwardAlgorithm)(void*, void* x, void* w, void* conv, void* y, int, size_t, int*);
static int (*cudnnFindConvolutionForwardAlgorithmEx)(void*, void* xd, void* x, void* wd, void* w, void* conv, void* yd,
                                                     void* y, int, int*, void*, void*, size_t);
static int (*cudnnFindConvolutionBackwardDataAlgorithmEx)(void*, void* wd, void* w, void* dyd, void* dy, void* conv,
                                                          void* dxd, void* dx, int, int*, void*, void*, size_t);
static int (*cudnnFindConvolutionBackwardFilterAlgorithmEx)(void*, void* xd, void* x, void* dyd, void* dy, void* conv,
                                                            void* dwd, void* dw, int, int*, void*, void*, size_t);
static int (*cudnnGetConvolutionForwardWorkspaceSize)(void*, void* x, void* w, void* conv, void* y, int, size_t*);
static int (*cudnnConvolutionForward)(void*, const void*, void* xd, void* x, void* wd, void* w, void* conv, int, void*,
                                      size_t, const void*, void* yd, void* y);
static int (*cudnnConvolutionBackwardData)(void*, const void*, void* wd, void* w, void* dyd, void* dy, void* conv, int,
                                           void*, size_t, const void*, void* dxd, void* dx);
static int (*cudnnConvolutionBackwardFilter)(void*, const void*, void* xd, void* x, void* dyd, void* dy, void* conv,
                                             int, void*, size_t, const void*, void* dwd, void* dw);
static int (*cudnnConvolutionBackwardBias)(void*, const void*, void* dyd, void* dy, const void*, void* dbd, void* db);
static int (*cudnnConvolutionBiasActivationForward)(void*, const void*, void* xd, void* x, void* wd, void* w,
                                                    void* conv, int, void*, size_t, const void*, void* zd, void* z,
                                                    void* bd, void* b, void* act, void* yd, void* y);
static int (*cudnnAddTensor)(void*, const void*, void* ad, void* a, const void*, void* cd, void* c);
static int (*cudnnPoolingForward)(void*, void* pooling, const void*, void* xd, void* x, const void*, void* yd, void* y);
static int (*cudnnTransformTensor)(void*, const void*, void* xd, void* x, const void*, void* yd, void* y);

// cudnnConvolution…AlgoPerf_t
typedef struct {
  int algorithm, status;
  float milliseconds;
  size_t workspace_bytes;
  int determinism, math_type, reserved[3];
} Result;

static const float one = 1, zero = 0;
static void *handle, *x, *w, *y, *b;  // device memory

static void Start(const char* runtime, const char* dnn) {
  void* library = Open(runtime);
  LOAD(library, cudaMalloc);
  LOAD(library, cudaMemcpy);
  library = Open(dnn);
  LOAD(library, cudnnCreate);
  LOAD(library, cudnnSetStream);
  LOAD(library, cudnnCreateTensorDescriptor);
  LOAD(library, cudnnCreateFilterDescriptor);
  LOAD(library, cudnnCreateConvolutionDescriptor);
  LOAD(library, cudnnCreateActivationDescriptor);
  LOAD(library, cudnnCreatePoolingDescriptor);
  LOAD(library, cudnnSetTensor4dDescriptorEx);
  LOAD(library, cudnnSetFilter4dDescriptor);
  LOAD(library, cudnnSetConvolution2dDescriptor);
  LOAD(library, cudnnSetConvolutionGroupCount);
  LOAD(library, cudnnSetConvolutionMathType);
  LOAD(library, cudnnSetActivationDescriptor);
  LOAD(library, cudnnSetPooling2dDescriptor);
  LOAD(library, cudnnGetConvolutionForwardAlgorithm_v7);
  LOAD(library, cudnnGetConvolutionForwardAlgorithm);
  LOAD(library, cudnnFindConvolutionForwardAlgorithmEx);
  LOAD(library, cudnnFindConvolutionBackwardDataAlgorithmEx);
  LOAD(library, cudnnFindConvolutionBackwardFilterAlgorithmEx);
  LOAD(library, cudnnGetConvolutionForwardWorkspaceSize);
  LOAD(library, cudnnConvolutionForward);
  LOAD(library, cudnnConvolutionBackwardData);
  LOAD(library, cudnnConvolutionBackwardFilter);
  LOAD(library, cudnnConvolutionBackwardBias);
  LOAD(library, cudnnConvolutionBiasActivationForward);
  LOAD(library, cudnnAddTensor);
  LOAD(library, cudnnPoolingForward);
  LOAD(library, cudnnTransformTensor);
  DO_PLAIN(cudnnCreate, &handle);
  void** const memory[] = {&x, &w, &y, &b};
  for (int i = 0; i < 4; ++i) DO("allocation.kind=DEVICE allocation.bytes=4194304", cudaMalloc, memory[i], 4 << 20);
}

// With the strides of a tensor that has `whole` channels.
static void* Tensor(int n, int c, int h, int wide, int whole) {
  void* tensor;
  QUIET(cudnnCreateTensorDescriptor, &tensor);
  QUIET(cudnnSetTensor4dDescriptorEx, tensor, 0, n, c, h, wide, whole * h * wide, h * wide, wide, 1);
  return tensor;
}

static void* Filter(int k, int c, int size) {
  void* filter;
  QUIET(cudnnCreateFilterDescriptor, &filter);
  QUIET(cudnnSetFilter4dDescriptor, filter, 0, 0, k, c, size, size);
  return filter;
}

static void* Convolution(int pad, int stride) {
  void* convolution;
  QUIET(cudnnCreateConvolutionDescriptor, &convolution);
  QUIET(cudnnSetConvolution2dDescriptor, convolution, pad, pad, stride, stride, 1, 1, 1, 0);
  return convolution;
}

// AlexNet's second layer, forward and backward: two groups, for each of them its own calls.
static void Caffe(void) {
  enum { kN = 4, kC = 96, kK = 256, kSize = 27, kWindow = 5 };
  static float images[1 << 18];
  void *xd = Tensor(kN, kC / 2, kSize, kSize, kC), *yd = Tensor(kN, kK / 2, kSize, kSize, kK),
       *bd = Tensor(1, kK / 2, 1, 1, kK / 2);
  void *wd = Filter(kK / 2, kC / 2, kWindow), *convolution = Convolution(2, 1);
  Result result;
  int count;
  size_t bytes;
  DO("copy.direction=HOST_TO_DEVICE copy.bytes=1048576 copy.host_memory=PAGEABLE", cudaMemcpy, x, images, sizeof images,
     1);
  DO("cudnn_search.requested=1 cudnn_search.candidate[0].algorithm=1 "
     "cudnn_search.problem.operation=convolution_forward "
     "cudnn_search.problem.tensor[X].dim=4x48x27x27 cudnn_search.problem.tensor[X].stride=69984x729x27x1",
     cudnnGetConvolutionForwardAlgorithm_v7, handle, xd, wd, convolution, yd, 1, &count, &result);
  DO_PLAIN(cudnnGetConvolutionForwardWorkspaceSize, handle, xd, wd, convolution, yd, result.algorithm, &bytes);
  for (int group = 0; group < 2; ++group) {
    float* xg = (float*)x + group * kC / 2 * kSize * kSize;
    float* yg = (float*)y + group * kK / 2 * kSize * kSize;
    float* wg = (float*)w + group * kK / 2 * kC / 2 * kWindow * kWindow;
    const char* shapes =
        "cudnn.tensor[W].dim=128x48x5x5 cudnn.pad=2x2 cudnn.stride=1x1 cudnn.dilation=1x1 cudnn.groups=1 "
        "cudnn.math_type=0";
    DO(Facts("cudnn.operation=convolution_forward cudnn.algorithm=1 cudnn.tensor[X].dim=4x48x27x27 "
             "cudnn.tensor[X].stride=69984x729x27x1 "
             "cudnn.tensor[Y].dim=4x128x27x27 cudnn.tensor[Y].stride=186624x729x27x1 %s",
             shapes),
       cudnnConvolutionForward, handle, &one, xd, xg, wd, wg, convolution, 1, NULL, 0, &zero, yd, yg);
    DO("cudnn.operation=add_tensor cudnn.tensor[X].dim=1x128x1x1", cudnnAddTensor, handle, &one, bd, b, &one, yd, yg);
    DO("cudnn.operation=convolution_backward_bias cudnn.tensor[DBIAS].dim=1x128x1x1", cudnnConvolutionBackwardBias,
       handle, &one, yd, yg, &one, bd, b);
    DO("cudnn.operation=convolution_backward_weights cudnn.algorithm=3 cudnn.workspace_bytes=77 "
       "cudnn.tensor[DW].dim=128x48x5x5 cudnn.pad=2x2",
       cudnnConvolutionBackwardFilter, handle, &one, xd, xg, yd, yg, convolution, 3, b, 77, &one, wd, wg);
    DO("cudnn.operation=convolution_backward_data cudnn.algorithm=4 cudnn.tensor[DX].dim=4x48x27x27 "
       "cudnn.tensor[DX].stride=69984x729x27x1",
       cudnnConvolutionBackwardData, handle, &one, wd, wg, yd, yg, convolution, 4, NULL, 0, &zero, xd, xg);
  }
  DO("copy.direction=DEVICE_TO_HOST copy.bytes=1048576 copy.host_memory=PAGEABLE", cudaMemcpy, images, y, sizeof images,
     2);
}

// Searches each direction by running it on its own buffers, then runs the result.
static void Cntk(void) {
  void *xd = Tensor(2, 32, 14, 15, 32), *yd = Tensor(2, 64, 14, 15, 64), *bd = Tensor(1, 64, 1, 1, 64);
  void *wd = Filter(64, 8, 3), *convolution = Convolution(1, 1), *activation;
  Result results[10];
  int count;
  QUIET(cudnnSetConvolutionGroupCount, convolution, 4);
  QUIET(cudnnSetConvolutionMathType, convolution, 1);
  const char* found =
      "cudnn_search.measured=true cudnn_search.requested=10 cudnn_search.candidate[0].algorithm=5 "
      "cudnn_search.candidate[0].workspace_bytes=2097152 cudnn_search.candidate[1].algorithm=1 "
      "cudnn_search.candidate[2].algorithm=0 "
      "cudnn_search.problem.groups=4 cudnn_search.problem.math_type=1";
  DO(found, cudnnFindConvolutionForwardAlgorithmEx, handle, xd, x, wd, w, convolution, yd, y, 10, &count, results, b,
     1 << 20);
  DO("cudnn.operation=convolution_forward cudnn.algorithm=5 cudnn.groups=4 cudnn.math_type=1 "
     "cudnn.tensor[W].dim=64x8x3x3 "
     "cudnn.tensor[X].dim=2x32x14x15",
     cudnnConvolutionForward, handle, &one, xd, x, wd, w, convolution, results[0].algorithm, b,
     results[0].workspace_bytes, &zero, yd, y);
  DO(found, cudnnFindConvolutionBackwardDataAlgorithmEx, handle, wd, w, yd, y, convolution, xd, x, 10, &count, results,
     b, 1 << 20);
  DO("cudnn.operation=convolution_backward_data cudnn.algorithm=5 cudnn.groups=4", cudnnConvolutionBackwardData, handle,
     &one, wd, w, yd, y, convolution, results[0].algorithm, b, 0, &zero, xd, x);
  DO(found, cudnnFindConvolutionBackwardFilterAlgorithmEx, handle, xd, x, yd, y, convolution, wd, w, 10, &count,
     results, b, 1 << 20);
  DO("cudnn.operation=convolution_backward_weights cudnn.algorithm=5 cudnn.groups=4", cudnnConvolutionBackwardFilter,
     handle, &one, xd, x, yd, y, convolution, results[0].algorithm, b, 0, &zero, wd, w);
  QUIET(cudnnCreateActivationDescriptor, &activation);
  QUIET(cudnnSetActivationDescriptor, activation, 1, 0, 0.0);
  DO("cudnn.operation=convolution_bias_activation cudnn.algorithm=1 cudnn.tensor[Z].dim=2x64x14x15 "
     "cudnn.tensor[BIAS].dim=1x64x1x1 cudnn.mode=1",
     cudnnConvolutionBiasActivationForward, handle, &one, xd, x, wd, w, convolution, 1, b, 0, &one, yd, y, bd, b,
     activation, yd, y);
}

static void Theano(void) {
  void *xd = Tensor(2, 3, 32, 32, 3), *yd = Tensor(2, 8, 28, 28, 8), *wd = Filter(8, 3, 5),
       *convolution = Convolution(0, 1);
  int algorithm = -1;
  DO("cudnn_search.candidate[0].algorithm=1 cudnn_search.problem.tensor[X].dim=2x3x32x32",
     cudnnGetConvolutionForwardAlgorithm, handle, xd, wd, convolution, yd, 1, 0, &algorithm);
  DO(Facts("cudnn.algorithm=%d cudnn.tensor[X].dim=2x3x32x32 cudnn.tensor[W].dim=8x3x5x5", algorithm),
     cudnnConvolutionForward, handle, &one, xd, x, wd, w, convolution, algorithm, NULL, 0, &zero, yd, y);
}

static void* BatchInnermost(int n, int c, int h, int wide) {
  void* tensor;
  QUIET(cudnnCreateTensorDescriptor, &tensor);
  QUIET(cudnnSetTensor4dDescriptorEx, tensor, 0, n, c, h, wide, 1, h * wide * n, wide * n, n);
  return tensor;
}

static void Convnet(void) {
  void *xd = BatchInnermost(128, 16, 8, 9), *yd = BatchInnermost(128, 32, 8, 9), *wd = Filter(32, 16, 3),
       *convolution = Convolution(1, 1);
  void *planar = Tensor(128, 16, 8, 9, 16), *pooling, *pooled = BatchInnermost(128, 32, 4, 4);
  DO("cudnn.tensor[X].dim=128x16x8x9 cudnn.tensor[X].stride=1x9216x1152x128 cudnn.tensor[Y].stride=1x9216x1152x128",
     cudnnConvolutionForward, handle, &one, xd, x, wd, w, convolution, 0, NULL, 0, &zero, yd, y);
  QUIET(cudnnCreatePoolingDescriptor, &pooling);
  QUIET(cudnnSetPooling2dDescriptor, pooling, 0, 0, 2, 3, 0, 1, 2, 2);
  DO("cudnn.operation=pooling_forward cudnn.tensor[X].stride=1x9216x1152x128 cudnn.dilation=2x3 cudnn.pad=0x1 "
     "cudnn.stride=2x2",
     cudnnPoolingForward, handle, pooling, &one, yd, y, &zero, pooled, x);
  DO("cudnn.operation=transform_tensor cudnn.tensor[X].stride=1x9216x1152x128 cudnn.tensor[Y].stride=1152x72x9x1",
     cudnnTransformTensor, handle, &one, xd, x, &zero, planar, y);
  DO("cudnn.operation=transform_tensor cudnn.tensor[X].stride=1152x72x9x1 cudnn.tensor[Y].stride=1x9216x1152x128",
     cudnnTransformTensor, handle, &one, planar, y, &zero, xd, x);
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  const int old = strcmp(mode, "theano") == 0;
  Start(old ? "libcudart.so.10.2" : "libcudart.so.12", old ? "libcudnn.so.7" : "libcudnn.so.8");
  if (strcmp(mode, "caffe") == 0) Caffe();
  if (strcmp(mode, "cntk") == 0) Cntk();
  if (strcmp(mode, "theano") == 0) Theano();
  if (strcmp(mode, "convnet") == 0) Convnet();
  return 0;
}
