// Libraries whose stream is being captured: products, a convolution and a collective, and the same on a stream that is
// not. captured HOW: runtime (cudaStreamBeginCapture) or driver (cuStreamBeginCapture_v2).
#include "cudnn_frontend.h"

static int (*cudaMalloc)(void** out, size_t bytes);
static int (*cudaStreamCreate)(void** out);
static int (*cudaStreamBeginCapture)(void* stream, int mode);
static int (*cudaStreamEndCapture)(void* stream, void** graph);
static int (*cuStreamBeginCapture_v2)(void* stream, int mode);
static int (*cuStreamEndCapture)(void* stream, void** graph);
static int (*cublasCreate_v2)(void** handle);
static int (*cublasSetStream_v2)(void* handle, void* stream);
static int (*cublasSgemm_v2)(void* handle, int ta, int tb, int m, int n, int k, const float* alpha, const float* a,
                             int lda, const float* b, int ldb, const float* beta, float* c, int ldc);
static int (*cudnnCreateTensorDescriptor)(void** out);
static int (*cudnnSetTensor4dDescriptor)(void* tensor, int format, int type, int n, int c, int h, int w);
static int (*cudnnSoftmaxForward)(void* handle, int algorithm, int mode, const void* alpha, void* xd, void* x,
                                  const void* beta, void* yd, void* y);
static int (*ncclCommInitAll)(void** comms, int devices, const int* list);
static int (*ncclAllReduce)(const void* from, void* to, size_t count, int type, int op, void* comm, void* stream);

static void *device, *stream, *other, *blas, *handle, *comm, *tensor;
static Plan plans[kMostPlans];
static const Problem problem = {.n = 2, .c = 4, .h = 8, .w = 8, .k = 4, .r = 3, .pad = 1, .stride = 1};

static void Start(void) {
  void* library = Open("libcudart.so.13");
  LOAD(library, cudaMalloc);
  LOAD(library, cudaStreamCreate);
  LOAD(library, cudaStreamBeginCapture);
  LOAD(library, cudaStreamEndCapture);
  library = Open("libcuda.so.1");
  LOAD(library, cuStreamBeginCapture_v2);
  LOAD(library, cuStreamEndCapture);
  library = Open("libcublas.so.13");
  LOAD(library, cublasCreate_v2);
  LOAD(library, cublasSetStream_v2);
  LOAD(library, cublasSgemm_v2);
  library = Open("libnccl.so.2");
  LOAD(library, ncclCommInitAll);
  LOAD(library, ncclAllReduce);
  library = Open("libcudnn.so.9");
  LoadCudnn(library);
  LOAD(library, cudnnCreateTensorDescriptor);
  LOAD(library, cudnnSetTensor4dDescriptor);
  LOAD(library, cudnnSoftmaxForward);
  DO_PLAIN(cudaMalloc, &device, 1 << 20);
  DO_PLAIN(cudaStreamCreate, &stream);
  DO_PLAIN(cudaStreamCreate, &other);
  DO_PLAIN(cublasCreate_v2, &blas);
  DO_PLAIN(cudnnCreate, &handle);
  DO_PLAIN(ncclCommInitAll, &comm, 1, NULL);
  QUIET(cudnnCreateTensorDescriptor, &tensor);
  QUIET(cudnnSetTensor4dDescriptor, tensor, 0, 0, 2, 3, 1, 1);
  BuildPlans(handle, &problem, plans);
}

// On `on`, which may be captured or not.
static void Work(void* on, const char* captured) {
  const float one = 1, zero = 0;
  QUIET(cublasSetStream_v2, blas, on);
  QUIET(cudnnSetStream, handle, on);
  DO(Facts("gemm.m=4 gemm.n=5 gemm.k=6 %s", captured), cublasSgemm_v2, blas, 0, 0, 4, 5, 6, &one, device, 4, device, 6,
     &zero, device, 4);
  ExecutePlan(handle, PlanFacts(&problem, &plans[1], captured), &plans[1], device, (char*)device + 4096,
              (char*)device + 8192);
  DO(Facts("cudnn.operation=softmax_forward cudnn.tensor[X].dim=2x3x1x1 cudnn.mode=1 %s", captured),
     cudnnSoftmaxForward, handle, 1, 1, &one, tensor, device, &zero, tensor, device);
  DO(Facts("collective.kind=ALL_REDUCE collective.bytes=40 collective.count=10 collective.data_type=F32 "
           "collective.peer=-1 collective.communicator=1 "
           "collective.ranks=1 %s",
           captured),
     ncclAllReduce, device, device, 10, 7, 0, comm, on);
}

int main(int argc, char** argv) {
  const int by_driver = argc > 1 && strcmp(argv[1], "driver") == 0;
  void* graph;
  Start();
  Work(stream, "");
  if (by_driver) DO_PLAIN(cuStreamBeginCapture_v2, stream, 0);
  if (!by_driver) DO_PLAIN(cudaStreamBeginCapture, stream, 0);
  Work(stream, "captured=true");
  Work(other, "");
  Work(NULL, "");
  Work(stream, "captured=true");
  if (by_driver) DO_PLAIN(cuStreamEndCapture, stream, &graph);
  if (!by_driver) DO_PLAIN(cudaStreamEndCapture, stream, &graph);
  Work(stream, "");
  return 0;
}
