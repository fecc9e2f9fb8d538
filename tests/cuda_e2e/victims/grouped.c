// cuBLASLt's products of groups with sizes in the device's memory, and of matrices behind arrays of pointers.
#include "tell.h"

static int (*cublasLtCreate)(void** handle);
static int (*cublasLtMatmulDescCreate)(void** out, int compute, int scale);
static int (*cublasLtMatrixLayoutCreate)(void** out, int type, uint64_t rows, uint64_t columns, int64_t leading);
static int (*cublasLtMatrixLayoutSetAttribute)(void* layout, int name, const void* value, size_t bytes);
static int (*cublasLtGroupedMatrixLayoutCreate)(void** out, int type, int groups, void* rows, void* columns,
                                                void* leading);
static int (*cublasLtMatmulAlgoGetHeuristicForStream)(void* handle, void* description, void* a, void* b, void* c,
                                                      void* d, void* preference, int requested, void* results,
                                                      int* count, void* stream);
static int (*cublasLtMatmulAlgoCheckForStream)(void* handle, void* description, void* a, void* b, void* c, void* d,
                                               void* algorithm, void* result, void* stream);
static int (*cublasLtMatmul)(void* handle, void* description, const void* alpha, const void* a, void* a_layout,
                             const void* b, void* b_layout, const void* beta, const void* c, void* c_layout, void* d,
                             void* d_layout, void* algorithm, void* workspace, size_t bytes, void* stream);

int main(void) {
  void *lt, *description, *a, *b, *d;
  char results[2][96], result[96];
  float alpha = 1, beta = 0;
  int count, batch = 7, pointer_array = 1;
  void* const arrays = (void*)0x7000;  // in the device's memory: only the library reads them
  void* library = Open("libcublasLt.so.13");
  LOAD(library, cublasLtCreate);
  LOAD(library, cublasLtMatmulDescCreate);
  LOAD(library, cublasLtMatrixLayoutCreate);
  LOAD(library, cublasLtMatrixLayoutSetAttribute);
  LOAD(library, cublasLtGroupedMatrixLayoutCreate);
  LOAD(library, cublasLtMatmulAlgoGetHeuristicForStream);
  LOAD(library, cublasLtMatmulAlgoCheckForStream);
  LOAD(library, cublasLtMatmul);
  DO_PLAIN(cublasLtCreate, &lt);
  QUIET(cublasLtMatmulDescCreate, &description, 68, 0);
  QUIET(cublasLtGroupedMatrixLayoutCreate, &a, 2, 5, arrays, arrays, arrays);
  QUIET(cublasLtGroupedMatrixLayoutCreate, &b, 2, 5, arrays, arrays, arrays);
  QUIET(cublasLtGroupedMatrixLayoutCreate, &d, 0, 5, arrays, arrays, arrays);
  const char* product =
      "gemm.groups=5 gemm.m=0 gemm.n=0 gemm.k=0 gemm.batch=5 gemm.flops=0 gemm.a_type=F16 gemm.c_type=F32";
  DO(Facts("%s gemm.kind=HEURISTIC gemm.cuda.heuristic_results=2", product), cublasLtMatmulAlgoGetHeuristicForStream,
     lt, description, a, b, d, d, NULL, 2, results, &count, NULL);
  DO_PLAIN(cublasLtMatmulAlgoCheckForStream, lt, description, a, b, d, d, results[1], result, NULL);
  DO(Facts("%s gemm.cuda.chooser=HEURISTIC gemm.cuda.heuristic_rank=1 gemm.cuda.algorithm=21", product), cublasLtMatmul,
     lt, description, &alpha, arrays, a, arrays, b, &beta, arrays, d, arrays, d, results[1], NULL, 0, NULL);
  QUIET(cublasLtMatrixLayoutCreate, &a, 2, 64, 128, 64);
  QUIET(cublasLtMatrixLayoutCreate, &b, 2, 128, 32, 128);
  QUIET(cublasLtMatrixLayoutCreate, &d, 2, 64, 32, 64);
  for (int i = 0; i < 3; ++i) {
    void* layout = i == 0 ? a : i == 1 ? b : d;
    QUIET(cublasLtMatrixLayoutSetAttribute, layout, 5, &batch, sizeof batch);
    QUIET(cublasLtMatrixLayoutSetAttribute, layout, 8, &pointer_array, sizeof pointer_array);
  }
  DO("gemm.groups=0 gemm.m=64 gemm.n=32 gemm.k=128 gemm.batch=7", cublasLtMatmul, lt, description, &alpha, arrays, a,
     arrays, b, &beta, arrays, d, arrays, d, NULL, NULL, 0, NULL);
  return 0;
}
