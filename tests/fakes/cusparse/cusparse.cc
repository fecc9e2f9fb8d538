// libcusparse: handles, matrices with genuine getters, and sizes of buffers.
#include "stream_handle.h"

namespace {

struct Sparse {
  int64_t rows = 0, columns = 0, nonzeros = 0;
};

struct Dense {
  int64_t rows = 0, columns = 0, leading = 0;
  void* values = nullptr;
  int type = 0, order = 0;
};

int CreateSparse(void** out, int64_t rows, int64_t columns, int64_t nonzeros) {
  auto* matrix = fake::New<Sparse>();
  *matrix = {rows, columns, nonzeros};
  *out = matrix;
  return 0;
}

}  // namespace

FAKE(int, cusparseCreate, void** handle) { return CreateStreamHandle(handle); }
FAKE(int, cusparseDestroy, void* handle) { return DestroyStreamHandle(handle); }
FAKE(int, cusparseSetStream, void* handle, void* stream) { return SetStreamOfHandle(handle, stream); }

FAKE(int, cusparseGetStream, void* handle, void** stream) {
  *stream = static_cast<StreamHandle*>(handle)->stream;
  return 0;
}

FAKE(int, cusparseCreateCsr, void** out, int64_t rows, int64_t columns, int64_t nonzeros, void*, void*, void*, int, int,
     int, int) {
  return CreateSparse(out, rows, columns, nonzeros);
}

FAKE(int, cusparseCreateCsc, void** out, int64_t rows, int64_t columns, int64_t nonzeros, void*, void*, void*, int, int,
     int, int) {
  return CreateSparse(out, rows, columns, nonzeros);
}

FAKE(int, cusparseCreateCoo, void** out, int64_t rows, int64_t columns, int64_t nonzeros, void*, void*, void*, int, int,
     int) {
  return CreateSparse(out, rows, columns, nonzeros);
}

FAKE(int, cusparseDestroySpMat, void* matrix) {
  fake::Delete(static_cast<Sparse*>(matrix));
  return 0;
}

FAKE(int, cusparseSpMatGetSize, const void* matrix, int64_t* rows, int64_t* columns, int64_t* nonzeros) {
  const auto* sparse = static_cast<const Sparse*>(matrix);
  *rows = sparse->rows;
  *columns = sparse->columns;
  *nonzeros = sparse->nonzeros;
  return 0;
}

FAKE(int, cusparseCreateDnMat, void** out, int64_t rows, int64_t columns, int64_t leading, void* values, int type,
     int order) {
  auto* matrix = fake::New<Dense>();
  *matrix = {rows, columns, leading, values, type, order};
  *out = matrix;
  return 0;
}

FAKE(int, cusparseDestroyDnMat, void* matrix) {
  fake::Delete(static_cast<Dense*>(matrix));
  return 0;
}

FAKE(int, cusparseDnMatGet, const void* matrix, int64_t* rows, int64_t* columns, int64_t* leading, void** values,
     int* type, int* order) {
  const auto* dense = static_cast<const Dense*>(matrix);
  *rows = dense->rows;
  *columns = dense->columns;
  *leading = dense->leading;
  *values = dense->values;
  *type = dense->type;
  *order = dense->order;
  return 0;
}

FAKE(int, cusparseCreateDnVec, void** out, int64_t size, void* values, int type) {
  return behave_cusparseCreateDnMat(out, size, 1, size, values, type, 1);
}

FAKE(int, cusparseDestroyDnVec, void* vector) { return behave_cusparseDestroyDnMat(vector); }

FAKE(int, cusparseDnVecGet, const void* vector, int64_t* size, void** values, int* type) {
  int64_t columns = 0, leading = 0;
  int order = 0;
  return behave_cusparseDnMatGet(vector, size, &columns, &leading, values, type, &order);
}

FAKE(int, cusparseCreateMatDescr, void** out) { return CreateStreamHandle(out); }
FAKE(int, cusparseDestroyMatDescr, void* descriptor) { return DestroyStreamHandle(descriptor); }

FAKE(int, cusparseSpMM_bufferSize, void*, int, int, const void*, const void*, const void*, const void*, const void*,
     int, int, size_t* bytes) {
  *bytes = 4096;
  return 0;
}

FAKE(int, cusparseSpMV_bufferSize, void*, int, const void*, const void*, const void*, const void*, const void*, int,
     int, size_t* bytes) {
  *bytes = 4096;
  return 0;
}

FAKE(int, cusparseSDDMM_bufferSize, void*, int, int, const void*, const void*, const void*, const void*, const void*,
     int, int, size_t* bytes) {
  *bytes = 4096;
  return 0;
}
