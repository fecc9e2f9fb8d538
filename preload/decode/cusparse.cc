#include "preload/decode/cusparse.h"

#include <new>

#include "preload/decode/cuda_operands.h"
#include "preload/link/library_api.h"
#include "preload/track/capture.h"

namespace dlhook::inline decode {
namespace {

struct SparseApi {
  int (*sparse_size)(const void* descriptor, int64_t* rows, int64_t* columns, int64_t* nonzeros);
  int (*vector)(const void* descriptor, int64_t* size, const void** values, int* type);
  int (*stream)(const void* handle, const void** stream);
  int (*dense)(const void* descriptor, int64_t* rows, int64_t* columns, int64_t* ld, const void** values, int* type,
               int* order);
  void Load(const void* real) {
    sparse_size = reinterpret_cast<int (*)(const void*, int64_t*, int64_t*, int64_t*)>(
        LibraryFunction(real, "cusparseSpMatGetSize"));
    vector =
        reinterpret_cast<int (*)(const void*, int64_t*, const void**, int*)>(LibraryFunction(real, "cusparseDnVecGet"));
    stream = reinterpret_cast<int (*)(const void*, const void**)>(LibraryFunction(real, "cusparseGetStream"));
    dense = reinterpret_cast<int (*)(const void*, int64_t*, int64_t*, int64_t*, const void**, int*, int*)>(
        LibraryFunction(real, "cusparseDnMatGet"));
  }
};

struct Matrix {
  int64_t rows = 0, columns = 0, ld = 0, nonzeros = 0;
  DataType type = DataType::kUnknown;
};

Matrix ReadSparse(const SparseApi& api, const void* descriptor) {
  Matrix matrix;
  if (descriptor == nullptr || api.sparse_size == nullptr) return matrix;
  api.sparse_size(descriptor, &matrix.rows, &matrix.columns, &matrix.nonzeros);
  return matrix;
}

Matrix ReadDense(const SparseApi& api, const void* descriptor) {
  Matrix matrix;
  const void* values;
  int type = -1;
  int order = 0;
  if (descriptor == nullptr || api.dense == nullptr) return matrix;
  api.dense(descriptor, &matrix.rows, &matrix.columns, &matrix.ld, &values, &type, &order);
  matrix.type = CudaType(type);
  return matrix;
}

DataType VectorType(const SparseApi& api, const void* descriptor) {
  int64_t size;
  const void* values;
  int type = -1;
  if (descriptor == nullptr || api.vector == nullptr) return DataType::kUnknown;
  return api.vector(descriptor, &size, &values, &type) == 0 ? CudaType(type) : DataType::kUnknown;
}

bool IsHandleCaptured(const SparseApi& api, const void* handle) {
  if (g_open_captures.load(std::memory_order_relaxed) == 0 || handle == nullptr || api.stream == nullptr) return false;
  const void* stream = nullptr;
  return api.stream(handle, &stream) == 0 && IsCaptured(stream);
}

}  // namespace

void DecodeSparse(const SparseArgs& args, CallRecord* record) {
  MatrixShape shape = {};
  CudaMatrixShape cuda = {};
  shape.kind = args.kind;
  shape.trans = CublasOperation(args.trans_a);
  shape.batch = 1;
  bool transposed = args.trans_a != 0;
  const SparseApi* api = record->status == 0 ? ApiOf<SparseApi>(args.real) : nullptr;
  if (api != nullptr) {
    bool dense_a = args.kind == MatrixKind::kSddmm;
    Matrix a = dense_a ? ReadDense(*api, args.a_descriptor) : ReadSparse(*api, args.a_descriptor);
    bool sparse_c = dense_a || args.kind == MatrixKind::kSpgemm;
    Matrix c = sparse_c ? ReadSparse(*api, args.c_descriptor) : ReadDense(*api, args.c_descriptor);
    shape.m = transposed ? a.columns : a.rows;
    shape.k = transposed ? a.rows : a.columns;
    shape.n = args.kind == MatrixKind::kSpmv ? 1 : c.columns;
    bool is_vector = args.kind == MatrixKind::kSpmv;
    shape.type = is_vector ? VectorType(*api, args.y_descriptor) : dense_a ? a.type : c.type;
    cuda.captured = IsHandleCaptured(*api, args.handle);
    shape.lda = a.ld;
    shape.ldc = c.ld;
    cuda.nonzeros = dense_a ? c.nonzeros : a.nonzeros;
  }
  if (args.kind != MatrixKind::kSpmv) cuda.trans_b = CublasOperation(args.trans_b);
  new (record->shape()) MatrixShape(shape);
  new (record->shape() + kMatrixShapeWords) CudaMatrixShape(cuda);
  for (int i = 0; i < 3; ++i) record->addresses()[i] = 0;
}

}  // namespace dlhook::inline decode
