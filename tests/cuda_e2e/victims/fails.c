// Calls that fail, by DLHOOK_FAKE_FAIL, and what a program does about it. fails MODE:
//   copies    an allocation, a copy, a launch and a search that fail; the last error stays the program's own
//   fallback  cublasLtMatmul fails, cublasGemmEx does the product
//   start     a program that finds no usable device: prints the results and continues without
#include "cuda.h"
#include "tell.h"

static int (*cublasCreate_v2)(void** handle);
static int (*cublasGemmEx)(void* handle, int ta, int tb, int m, int n, int k, const void* alpha, const void* a,
                           int a_type, int lda, const void* b, int b_type, int ldb, const void* beta, void* c,
                           int c_type, int ldc, int compute, int algorithm);
static int (*cublasLtCreate)(void** handle);
static int (*cublasLtMatmulDescCreate)(void** out, int compute, int scale);
static int (*cublasLtMatmulDescSetAttribute)(void* description, int name, const void* value, size_t bytes);
static int (*cublasLtMatrixLayoutCreate)(void** out, int type, uint64_t rows, uint64_t columns, int64_t leading);
static int (*cublasLtMatmulPreferenceCreate)(void** out);
static int (*cublasLtMatmulAlgoGetHeuristic)(void* handle, void* description, void* a, void* b, void* c, void* d,
                                             void* preference, int requested, void* results, int* returned);
static int (*cublasLtMatmul)(void* handle, void* description, const void* alpha, const void* a, void* a_layout,
                             const void* b, void* b_layout, const void* beta, const void* c, void* c_layout, void* d,
                             void* d_layout, const void* algorithm, void* workspace, size_t workspace_bytes,
                             void* stream);

static void Copies(void) {
  void *device, *none = NULL;
  static char pageable[4096];
  dim3 one = {1, 1, 1};
  DO("allocation.kind=DEVICE allocation.bytes=4096", cudaMalloc, &device, 4096);
  FAILS(2, "allocation.kind=DEVICE allocation.bytes=1099511627776", cudaMalloc, &none, (size_t)1 << 40);
  printf("bad device %d\n", cudaSetDevice(77));
  DO("copy.direction=HOST_TO_DEVICE copy.bytes=100 copy.host_memory=PAGEABLE", cudaMemcpy, device, pageable, 100,
     kHostToDevice);
  DO("copy.direction=HOST_TO_DEVICE copy.bytes=101 copy.host_memory=PAGEABLE", cudaMemcpy, device, pageable + 64, 101,
     kDefault);
  printf("last error %d\n", cudaGetLastError());
  printf("then %d\n", cudaGetLastError());
  FAILS(700, "copy.direction=HOST_TO_DEVICE copy.bytes=102 copy.asynchronous=true copy.host_memory=HOST_UNKNOWN",
        cudaMemcpyAsync, device, pageable, 102, kHostToDevice, NULL);
  FAILS(700, "copy.bytes=103 copy.host_memory=HOST_UNKNOWN", cudaMemcpy, (void*)8, (void*)16, 103, kDefault);
  FAILS(98, "launch.grid_x=1 launch.grid_y=1 launch.grid_z=1 launch.block_x=1 launch.block_y=1 launch.block_z=1",
        cudaLaunchKernel, (void*)Copies, one, one, NULL, 0, NULL);
  FAILS(700, "", cudaDeviceSynchronize);
}

static void Fallback(void) {
  void *blas, *lt, *device, *description, *a, *b, *d, *preference;
  const float alpha = 1, beta = 0;
  const int transposed = 1;
  char results[2][96];
  int count;
  void* library = Open("libcublasLt.so.13");
  LOAD(library, cublasLtCreate);
  LOAD(library, cublasLtMatmulDescCreate);
  LOAD(library, cublasLtMatmulDescSetAttribute);
  LOAD(library, cublasLtMatrixLayoutCreate);
  LOAD(library, cublasLtMatmulPreferenceCreate);
  LOAD(library, cublasLtMatmulAlgoGetHeuristic);
  LOAD(library, cublasLtMatmul);
  library = Open("libcublas.so.13");
  LOAD(library, cublasCreate_v2);
  LOAD(library, cublasGemmEx);
  DO_PLAIN(cudaMalloc, &device, 1 << 20);
  DO_PLAIN(cublasCreate_v2, &blas);
  DO_PLAIN(cublasLtCreate, &lt);
  QUIET(cublasLtMatmulDescCreate, &description, 68, 0);
  QUIET(cublasLtMatmulDescSetAttribute, description, 3, &transposed, sizeof transposed);
  QUIET(cublasLtMatrixLayoutCreate, &a, 2, 64, 128, 64);
  QUIET(cublasLtMatrixLayoutCreate, &b, 2, 64, 32, 64);
  QUIET(cublasLtMatrixLayoutCreate, &d, 2, 128, 32, 128);
  QUIET(cublasLtMatmulPreferenceCreate, &preference);
  const char* product =
      "gemm.m=128 gemm.n=32 gemm.k=64 gemm.trans_a=T gemm.trans_b=N gemm.a_type=F16 gemm.c_type=F16 gemm.lda=64 "
      "gemm.ldb=64 gemm.ldc=128";
  for (int i = 0; i < 3; ++i) {
    DO(Facts("%s gemm.kind=HEURISTIC gemm.cuda.heuristic_requested=2 gemm.cuda.heuristic_results=2", product),
       cublasLtMatmulAlgoGetHeuristic, lt, description, a, b, d, d, preference, 2, results, &count);
    const char* chosen =
        "gemm.cuda.lt=true gemm.cuda.algorithm=66 gemm.cuda.tile=20 gemm.cuda.stages=15 gemm.cuda.split_k=1 "
        "gemm.cuda.chooser=HEURISTIC gemm.cuda.heuristic_rank=0 gemm.cuda.heuristic_results=2";
    FAILS(15, Facts("%s %s", product, chosen), cublasLtMatmul, lt, description, &alpha, device, a, device, b, &beta,
          device, d, device, d, results[0], NULL, 0, NULL);
    DO(Facts("%s gemm.cuda.compute_type=68 gemm.cuda.algorithm=99", product), cublasGemmEx, blas, 1, 0, 128, 32, 64,
       &alpha, device, 2, 64, device, 2, 64, &beta, device, 2, 128, 68, 99);
  }
}

static void Start(void) {
  int count = -1;
  void* device = NULL;
  printf("devices %d\n", cudaGetDeviceCount(&count));
  printf("count %d\n", count);
  if (getenv("TRY") != NULL) printf("memory %d %p\n", cudaMalloc(&device, 64), device);
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  if (strcmp(mode, "copies") == 0) Copies();
  if (strcmp(mode, "fallback") == 0) Fallback();
  if (strcmp(mode, "start") == 0) Start();
  return 0;
}
