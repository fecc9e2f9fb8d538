// Matrix products of cuBLAS and cuBLASLt: arguments -> CudaGemmShape, and the two-matrix functions -> MatrixShape.
// Thread: any application thread, after the real function has returned. Host scalars and device pointers are never
// dereferenced. The members of the *Args structs are the parameter names of preload/api/*.api.
#pragma once

#include "preload/abi/arguments.h"
#include "preload/abi/cuda_types.h"
#include "preload/format/record.h"

namespace dlhook::inline decode {

// Shared by the decoders of cuBLAS and cuBLASLt. Pure.

// cublasOperation_t as BLAS's letter; CONJG (3) is the conjugate without transposition, 'R' as elsewhere.
inline char CublasOperation(int64_t operation) {
  return operation == 0 ? 'N' : operation == 1 ? 'T' : operation == 2 ? 'C' : operation == 3 ? 'R' : '?';
}

// The largest power of two, up to 256, that divides a set of addresses and distances.
class Alignment {
 public:
  void AddAddress(const void* address) { bits_ |= reinterpret_cast<uint64_t>(address); }
  // A distance in elements; zero (no batch) is ignored.
  void AddElements(int64_t elements, DataType type) { bits_ |= static_cast<uint64_t>(elements) * TypeBits(type) / 8; }
  uint8_t Log2() const { return static_cast<uint8_t>(__builtin_ctzll(bits_ | 256)); }

 private:
  uint64_t bits_ = 0;
};

// cublas{S…}gemm and similar. Needs kCudaGemmShapeWords and 3 addresses.
struct CudaGemmArgs {
  DataType type = DataType::kUnknown;  // from the name's letter, if the call has no a_type …
  GemmKind kind = GemmKind::kGemm;
  bool pointer_arrays = false;  // a, b, c are arrays of operands in device memory
  const void* handle = nullptr;
  int32_t trans_a = 0;  // cublasOperation_t
  int32_t trans_b = 0;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  const void* a = nullptr;
  int32_t a_type = -1;  // cudaDataType_t
  int64_t lda = 0;
  int64_t stride_a = 0;  // elements
  const void* b = nullptr;
  int32_t b_type = -1;
  int64_t ldb = 0;
  int64_t stride_b = 0;
  const void* c = nullptr;
  int32_t c_type = -1;
  int64_t ldc = 0;
  int64_t stride_c = 0;
  int64_t batch = 1;
  int32_t compute_type = -1;
  int32_t algorithm = -1;  // cublasGemmAlgo_t
  const void* real = nullptr;
};
void DecodeCudaGemm(const CudaGemmArgs& args, CallRecord* record);

// Groups of products with sizes in host memory. Needs kGroupedCudaGemmShapeWords and 3 addresses.
struct CudaGroupedGemmArgs {
  DataType type = DataType::kUnknown;
  const void* handle = nullptr;
  const int32_t* trans_a = nullptr;
  const int32_t* trans_b = nullptr;
  IntegerArray m;
  IntegerArray n;
  IntegerArray k;
  int32_t a_type = -1;
  IntegerArray lda;
  int32_t b_type = -1;
  IntegerArray ldb;
  int32_t c_type = -1;
  IntegerArray ldc;
  int64_t groups = 0;
  IntegerArray group_size;
  int32_t compute_type = -1;
  const void* real = nullptr;
};
void DecodeCudaGroupedGemm(const CudaGroupedGemmArgs& args, CallRecord* record);

// gemv: as a product with n = 1, like DecodeGemv.
struct CudaGemvArgs {
  DataType type = DataType::kUnknown;
  bool pointer_arrays = false;
  const void* handle = nullptr;
  int32_t trans = 0;
  int64_t m = 0;
  int64_t n = 0;
  const void* a = nullptr;
  int64_t lda = 0;
  const void* x = nullptr;
  int64_t incx = 0;
  const void* y = nullptr;
  int64_t incy = 0;
  int64_t batch = 1;
  const void* real = nullptr;
};
void DecodeCudaGemv(const CudaGemvArgs& args, CallRecord* record);

// symm, syrk, trsm, geam, dgmm … Needs kCudaMatrixShapeWords and 3 addresses.
struct CudaMatrixArgs {
  DataType type = DataType::kUnknown;
  MatrixKind kind = MatrixKind::kUnknown;
  bool pointer_arrays = false;
  const void* handle = nullptr;
  int32_t side = -1;  // cublasSideMode_t: left 0, right 1
  int32_t uplo = -1;  // cublasFillMode_t: lower 0, upper 1
  int32_t trans = -1;
  int32_t trans_a = -1;
  int32_t trans_b = -1;
  int32_t diag = -1;  // cublasDiagType_t: non-unit 0, unit 1
  int32_t mode = -1;  // dgmm's side
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  const void* a = nullptr;
  int32_t a_type = -1;
  int64_t lda = 0;
  const void* b = nullptr;
  int64_t ldb = 0;
  const void* c = nullptr;
  int32_t c_type = -1;
  int64_t ldc = 0;
  int64_t batch = 1;
  const void* real = nullptr;
};
void DecodeCudaMatrix(const CudaMatrixArgs& args, CallRecord* record);

// Shared by cublasLtMatmul and the query for its algorithm.
struct LtProblem {
  const void* description = nullptr;
  const void* a_layout = nullptr;
  const void* b_layout = nullptr;
  const void* c_layout = nullptr;
  const void* d_layout = nullptr;
};
struct LtMatmulArgs {
  const void* description = nullptr;
  const void* a = nullptr;
  const void* a_layout = nullptr;
  const void* b = nullptr;
  const void* b_layout = nullptr;
  const void* c = nullptr;
  const void* c_layout = nullptr;
  const void* d = nullptr;
  const void* d_layout = nullptr;
  const void* algorithm = nullptr;  // cublasLtMatmulAlgo_t, 64 bytes; may be null
  uint64_t workspace_bytes = 0;
  const void* stream = nullptr;
  const void* real = nullptr;
};
void DecodeLtMatmul(const LtMatmulArgs& args, CallRecord* record);

struct LtHeuristicArgs {
  const void* description = nullptr;
  const void* a_layout = nullptr;
  const void* b_layout = nullptr;
  const void* c_layout = nullptr;
  const void* d_layout = nullptr;
  int32_t requested = 0;
  const void* results = nullptr;  // cublasLtMatmulHeuristicResult_t[requested]
  const int32_t* returned = nullptr;
  int32_t status = 0;
  const void* real = nullptr;
};
void DecodeLtHeuristic(const LtHeuristicArgs& args, CallRecord* record);
// Remembers which algorithms the heuristics gave, so that a later matmul can say which one it used.
void TrackLtHeuristic(const LtHeuristicArgs& args);

struct LtTransformArgs {
  const void* description = nullptr;
  const void* a = nullptr;
  const void* a_layout = nullptr;
  const void* b = nullptr;
  const void* b_layout = nullptr;
  const void* c = nullptr;
  const void* c_layout = nullptr;
  const void* stream = nullptr;
  const void* real = nullptr;
};
void DecodeLtTransform(const LtTransformArgs& args, CallRecord* record);

// cuSPARSE's products of sparse and dense operands: sizes from the descriptors, through the library's own getters ->
// MatrixShape.
// Thread: any application thread, after the real function has returned.

// Needs kCudaMatrixShapeWords and 3 addresses, which remain zero: the operands are in the descriptors.
struct SparseArgs {
  MatrixKind kind = MatrixKind::kUnknown;
  const void* handle = nullptr;
  int32_t trans_a = 0;
  int32_t trans_b = 0;
  const void* a_descriptor = nullptr;  // sparse; for SDDMM dense
  const void* b_descriptor = nullptr;  // dense; for SpGEMM sparse
  const void* c_descriptor = nullptr;  // dense; for SDDMM and SpGEMM sparse
  const void* x_descriptor = nullptr;  // for SpMV: dense vectors
  const void* y_descriptor = nullptr;
  const void* real = nullptr;
};
void DecodeSparse(const SparseArgs& args, CallRecord* record);

}  // namespace dlhook::inline decode
