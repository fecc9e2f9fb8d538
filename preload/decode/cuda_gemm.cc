// cuBLAS -> CudaGemmShape and, of functions of two matrices, MatrixShape; cuSPARSE. cuBLASLt is in cublaslt.cc.
#include "preload/decode/cuda_gemm.h"

#include "preload/decode/gemm.h"
#include "preload/link/library_api.h"
#include "preload/track/cuda_state.h"

namespace dlhook::inline decode {
namespace {

struct CublasApi : FunctionTable {
  using FunctionTable::FunctionTable;
  int (*get_math_mode)(const void* handle, int32_t* mode) = Find("cublasGetMathMode");
};

int16_t MathModeOf(const void* handle, const void* real) {
  int32_t mode = -1;
  bool known = handle != nullptr && Query(ApiOf<CublasApi>(real).get_math_mode, handle, &mode);
  return known ? static_cast<int16_t>(mode) : -1;
}

DataType TypeOf(int32_t cuda_type, DataType letter) { return cuda_type < 0 ? letter : CudaType(cuda_type); }

// cublasGemmAlgo_t: DEFAULT is -1, DEFAULT_TENSOR_OP 99, AUTOTUNE 999; others name a kernel (and mean nothing from Ampere on).
Chooser ChooserOf(int32_t algorithm) {
  if (algorithm == 999) return Chooser::kProfiled;
  return algorithm == -1 || algorithm == 99 ? Chooser::kLibrary : Chooser::kFixed;
}

CudaGemmShape NewShape(const CudaGemmArgs& args) {
  CudaGemmShape shape = {};
  shape.gemm.a_type = TypeOf(args.a_type, args.type);
  shape.gemm.b_type = TypeOf(args.b_type, args.type);
  shape.gemm.c_type = TypeOf(args.c_type, args.type);
  shape.gemm.trans_a = CublasOperation(args.trans_a);
  shape.gemm.trans_b = CublasOperation(args.trans_b);
  shape.gemm.kind = args.kind;
  shape.gemm.m = args.m;
  shape.gemm.n = args.n;
  shape.gemm.k = args.k;
  shape.gemm.lda = args.lda;
  shape.gemm.ldb = args.ldb;
  shape.gemm.ldc = args.ldc;
  shape.gemm.batch = args.batch;
  shape.captured = IsHandleCaptured(&StreamApi::cublas, args.handle, args.real);
  shape.chooser = ChooserOf(args.algorithm);
  shape.compute_type = static_cast<int16_t>(args.compute_type);
  shape.scale_type = -1;
  shape.math_mode = MathModeOf(args.handle, args.real);
  shape.heuristic_rank = -1;
  shape.algorithm = args.algorithm;
  return shape;
}

// Arrays of pointers are in device memory.
template <typename Args>
void StoreAddresses(const Args& args, CallRecord* record) {
  const bool direct = !args.pointer_arrays;
  record->SetAddresses(direct ? args.a : nullptr, direct ? args.b : nullptr, direct ? args.c : nullptr);
}

char Letter(int32_t value, char zero, char one) {
  return value == 0 ? zero : value == 1 ? one : value < 0 ? '\0' : '?';
}

struct SparseApi : FunctionTable {
  using FunctionTable::FunctionTable;
  int (*sparse_size)(const void* descriptor, int64_t* rows, int64_t* columns,
                     int64_t* nonzeros) = Find("cusparseSpMatGetSize");
  int (*vector)(const void* descriptor, int64_t* size, const void** values, int* type) = Find("cusparseDnVecGet");
  int (*dense)(const void* descriptor, int64_t* rows, int64_t* columns, int64_t* ld, const void** values, int* type,
               int* order) = Find("cusparseDnMatGet");
};

struct Matrix {
  int64_t rows = 0, columns = 0, ld = 0, nonzeros = 0;
  DataType type = DataType::kUnknown;
};

Matrix ReadSparse(const SparseApi& api, const void* descriptor) {
  Matrix matrix;
  if (descriptor != nullptr) Query(api.sparse_size, descriptor, &matrix.rows, &matrix.columns, &matrix.nonzeros);
  return matrix;
}

Matrix ReadDense(const SparseApi& api, const void* descriptor) {
  Matrix matrix;
  const void* values;
  int type = -1, order = 0;
  if (descriptor == nullptr) return matrix;
  Query(api.dense, descriptor, &matrix.rows, &matrix.columns, &matrix.ld, &values, &type, &order);
  matrix.type = CudaType(type);
  return matrix;
}

DataType VectorType(const SparseApi& api, const void* descriptor) {
  int64_t size;
  const void* values;
  int type = -1;
  bool known = descriptor != nullptr && Query(api.vector, descriptor, &size, &values, &type);
  return known ? CudaType(type) : DataType::kUnknown;
}

}  // namespace

void DecodeCudaGemm(const CudaGemmArgs& args, CallRecord* record) {
  CudaGemmShape shape = NewShape(args);
  Alignment alignment;
  if (!args.pointer_arrays) {
    alignment.AddAddress(args.a);
    alignment.AddAddress(args.b);
    alignment.AddAddress(args.c);
    alignment.AddElements(args.stride_a, shape.gemm.a_type);
    alignment.AddElements(args.stride_b, shape.gemm.b_type);
    alignment.AddElements(args.stride_c, shape.gemm.c_type);
  }
  alignment.AddElements(args.lda, shape.gemm.a_type);
  alignment.AddElements(args.ldb, shape.gemm.b_type);
  alignment.AddElements(args.ldc, shape.gemm.c_type);
  shape.alignment_log2 = alignment.Log2();
  new (record->shape()) CudaGemmShape(shape);
  StoreAddresses(args, record);
}

// Groups of products with sizes in host memory.
void DecodeCudaGroupedGemm(const CudaGroupedGemmArgs& args, CallRecord* record) {
  CudaGemmArgs first = CudaGemmArgs::Like(args);
  first.pointer_arrays = true;
  first.batch = 0;
  GemmGroups groups = {args.groups > 0 ? args.groups : 0, 0};
  if (args.groups > 0) TakeFirstGroup(args, &first);
  DataType type = TypeOf(args.c_type, args.type);
  for (int64_t i = 0; i < args.groups; ++i) {
    int64_t size = args.group_size[i];
    if (size <= 0) continue;
    first.batch += size;
    groups.flops += static_cast<uint64_t>(size) * GemmFlops(GemmKind::kGemm, type, args.m[i], args.n[i], args.k[i]);
  }
  DecodeCudaGemm(first, record);
  new (record->shape_behind<CudaGemmShape>()) GemmGroups(groups);
}

// As a product with n = 1, like DecodeGemv.
void DecodeCudaGemv(const CudaGemvArgs& args, CallRecord* record) {
  CudaGemmArgs gemm = CudaGemmArgs::Like(args);
  gemm.kind = GemmKind::kGemv;
  gemm.trans_a = args.trans;
  gemm.m = args.trans == 0 ? args.m : args.n;
  gemm.n = 1;
  gemm.k = args.trans == 0 ? args.n : args.m;
  gemm.b = args.x;
  gemm.ldb = args.incx;
  gemm.c = args.y;
  gemm.ldc = args.incy;
  DecodeCudaGemm(gemm, record);
}

void DecodeCudaMatrix(const CudaMatrixArgs& args, CallRecord* record) {
  MatrixShape shape = {};
  shape.kind = args.kind;
  shape.type = TypeOf(args.a_type, args.type);
  shape.side = Letter(args.side >= 0 ? args.side : args.mode, 'L', 'R');
  shape.uplo = Letter(args.uplo, 'L', 'U');
  int32_t trans = args.trans >= 0 ? args.trans : args.trans_a;
  shape.trans = trans < 0 ? '\0' : CublasOperation(trans);
  shape.diag = Letter(args.diag, 'N', 'U');
  shape.m = args.m;
  shape.n = args.n;
  shape.k = args.k;
  shape.lda = args.lda;
  shape.ldb = args.ldb;
  shape.ldc = args.ldc;
  shape.batch = args.batch;
  new (record->shape()) MatrixShape(shape);
  CudaMatrixShape cuda = {};
  cuda.trans_b = args.trans_b < 0 ? '\0' : CublasOperation(args.trans_b);
  cuda.c_type = TypeOf(args.c_type, DataType::kUnknown);
  cuda.captured = IsHandleCaptured(&StreamApi::cublas, args.handle, args.real);
  new (record->shape_behind<MatrixShape>()) CudaMatrixShape(cuda);
  StoreAddresses(args, record);
}

// Products of sparse and dense operands: sizes from the descriptors, through the library's own getters. Addresses remain
// zero: the operands are in the descriptors.
void DecodeSparse(const SparseArgs& args, CallRecord* record) {
  MatrixShape shape = {};
  CudaMatrixShape cuda = {};
  shape.kind = args.kind;
  shape.trans = CublasOperation(args.trans_a);
  shape.batch = 1;
  bool transposed = args.trans_a != 0;
  if (record->status == 0) {
    const SparseApi& api = ApiOf<SparseApi>(args.real);
    bool dense_a = args.kind == MatrixKind::kSddmm;
    Matrix a = dense_a ? ReadDense(api, args.a_descriptor) : ReadSparse(api, args.a_descriptor);
    bool sparse_c = dense_a || args.kind == MatrixKind::kSpgemm;
    Matrix c = sparse_c ? ReadSparse(api, args.c_descriptor) : ReadDense(api, args.c_descriptor);
    shape.m = transposed ? a.columns : a.rows;
    shape.k = transposed ? a.rows : a.columns;
    shape.n = args.kind == MatrixKind::kSpmv ? 1 : c.columns;
    bool is_vector = args.kind == MatrixKind::kSpmv;
    shape.type = is_vector ? VectorType(api, args.y_descriptor) : dense_a ? a.type : c.type;
    cuda.captured = IsHandleCaptured(&StreamApi::cusparse, args.handle, args.real);
    shape.lda = a.ld;
    shape.ldc = c.ld;
    cuda.nonzeros = dense_a ? c.nonzeros : a.nonzeros;
  }
  if (args.kind != MatrixKind::kSpmv) cuda.trans_b = CublasOperation(args.trans_b);
  new (record->shape()) MatrixShape(shape);
  new (record->shape_behind<MatrixShape>()) CudaMatrixShape(cuda);
  record->SetAddresses(nullptr, nullptr, nullptr);
}

}  // namespace dlhook::inline decode
