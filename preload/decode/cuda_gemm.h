// Matrix products of cuBLAS and cuBLASLt: arguments -> CudaGemmShape, and the two-matrix functions -> MatrixShape.
// Thread: any application thread, after the real function has returned. Host scalars and device pointers are never
// dereferenced.
#pragma once

#include "preload/abi/cuda_types.h"
#include "preload/hook_arguments.h"

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
void DecodeCudaGemm(const CudaGemmArgs& args, CallRecord* record);

// Groups of products with sizes in host memory. Needs kGroupedCudaGemmShapeWords and 3 addresses.
void DecodeCudaGroupedGemm(const CudaGroupedGemmArgs& args, CallRecord* record);

// gemv: as a product with n = 1, like DecodeGemv.
void DecodeCudaGemv(const CudaGemvArgs& args, CallRecord* record);

// symm, syrk, trsm, geam, dgmm … Needs kCudaMatrixShapeWords and 3 addresses.
void DecodeCudaMatrix(const CudaMatrixArgs& args, CallRecord* record);

void DecodeLtMatmul(const LtMatmulArgs& args, CallRecord* record);
void DecodeLtHeuristic(const LtHeuristicArgs& args, CallRecord* record);
// Remembers which algorithms the heuristics gave, so that a later matmul can say which one it used.
void TrackLtHeuristic(const LtHeuristicArgs& args);
void DecodeLtTransform(const LtTransformArgs& args, CallRecord* record);

// cuSPARSE's products of sparse and dense operands: sizes from the descriptors, through the library's own getters ->
// MatrixShape.
// Thread: any application thread, after the real function has returned.

// Needs kCudaMatrixShapeWords and 3 addresses, which remain zero: the operands are in the descriptors.
void DecodeSparse(const SparseArgs& args, CallRecord* record);

}  // namespace dlhook::inline decode
