// The getters of the CUDA runtime, cuBLAS, cuBLASLt, cuDNN, cuSPARSE, NCCL and MPI.
#include "tests/preload/fake_getters.h"

#include <algorithm>
#include <cstring>

using namespace dlhook;

namespace {

FakeAnswers g_answers;

// Counts a query; false if it is not answered.
bool Answers() {
  ++g_answers.calls;
  return g_answers.status == 0;
}

int GetAttribute(const void* object, int name, void* value, size_t bytes, size_t* written) {
  if (!Answers()) return g_answers.status;
  for (const FakeAttribute& attribute : static_cast<const FakeAttributes*>(object)->list) {
    if (attribute.bytes == 0 || attribute.name != name) continue;
    if (bytes != attribute.bytes) return 7;  // CUBLAS_STATUS_INVALID_VALUE
    memcpy(value, &attribute.value, bytes);
    *written = bytes;
    return 0;
  }
  return 7;
}

void Copy(const int* from, int count, int* to) { std::copy(from, from + count, to); }

}  // namespace

extern "C" {

FakeAnswers* FakeRuntimeAnswers() { return &g_answers; }
void FakeRuntimeFunction() {}

int cudaRuntimeGetVersion(int* version) {
  *version = g_answers.runtime_version;
  return 0;
}

// 88 bytes since CUDA 13: all of them are written.
int cudaPointerGetAttributes(void* attributes, const void* address) {
  g_answers.asked_address = reinterpret_cast<uint64_t>(address);
  if (!Answers() || g_answers.pointer_status != 0) return g_answers.status + g_answers.pointer_status;
  memset(attributes, 0x77, 88);
  memcpy(attributes, &g_answers.pointer_type, 4);
  return 0;
}

int cudaStreamIsCapturing(const void* stream, int* status) {
  g_answers.asked_stream = stream;
  if (!Answers()) return g_answers.status;
  *status = g_answers.capture_status;
  return 0;
}

int cublasGetMathMode(const void*, int* mode) {
  if (!Answers()) return g_answers.status;
  *mode = g_answers.math_mode;
  return 0;
}

int cublasGetStream_v2(const void*, const void** stream) {
  if (!Answers()) return g_answers.status;
  *stream = g_answers.handle_stream;
  return 0;
}

int cudnnGetStream(const void* handle, const void** stream) { return cublasGetStream_v2(handle, stream); }
int cusparseGetStream(const void* handle, const void** stream) { return cublasGetStream_v2(handle, stream); }

int cublasLtMatmulDescGetAttribute(const void* object, int name, void* value, size_t bytes, size_t* written) {
  return GetAttribute(object, name, value, bytes, written);
}
int cublasLtMatrixLayoutGetAttribute(const void* object, int name, void* value, size_t bytes, size_t* written) {
  return GetAttribute(object, name, value, bytes, written);
}
// The algorithm is 64 bytes: the first eight are the address of its attributes.
int cublasLtMatmulAlgoConfigGetAttribute(const void* algorithm, int name, void* value, size_t bytes, size_t* written) {
  const void* object;
  memcpy(&object, algorithm, sizeof object);
  return GetAttribute(object, name, value, bytes, written);
}
int cublasLtMatrixTransformDescGetAttribute(const void* object, int name, void* value, size_t bytes, size_t* written) {
  return GetAttribute(object, name, value, bytes, written);
}

int cudnnGetTensorNdDescriptor(const void* descriptor, int requested, int* type, int* dims, int* dim, int* stride) {
  if (!Answers()) return g_answers.status;
  auto tensor = static_cast<const FakeTensor*>(descriptor);
  *type = tensor->type;
  *dims = tensor->dims;
  Copy(tensor->dim, std::min(requested, 8), dim);
  Copy(tensor->stride, std::min(requested, 8), stride);
  return 0;
}

int cudnnGetFilterNdDescriptor(const void* descriptor, int requested, int* type, int* format, int* dims, int* dim) {
  if (!Answers()) return g_answers.status;
  auto tensor = static_cast<const FakeTensor*>(descriptor);
  *type = tensor->type;
  *format = tensor->format;
  *dims = tensor->dims;
  Copy(tensor->dim, std::min(requested, 8), dim);
  return 0;
}

int cudnnGetConvolutionNdDescriptor(const void* descriptor, int requested, int* dims, int* pad, int* stride,
                                    int* dilation, int* mode, int* type) {
  if (!Answers() || requested > 6) return 3;
  auto convolution = static_cast<const FakeConvolution*>(descriptor);
  *dims = convolution->dims;
  Copy(convolution->pad, convolution->dims, pad);
  Copy(convolution->stride, convolution->dims, stride);
  Copy(convolution->dilation, convolution->dims, dilation);
  *mode = convolution->mode;
  *type = convolution->type;
  return 0;
}

int cudnnGetConvolutionGroupCount(const void* descriptor, int* groups) {
  if (!Answers()) return g_answers.status;
  *groups = static_cast<const FakeConvolution*>(descriptor)->groups;
  return 0;
}

int cudnnGetConvolutionMathType(const void* descriptor, int* math_type) {
  if (!Answers()) return g_answers.status;
  *math_type = static_cast<const FakeConvolution*>(descriptor)->math_type;
  return 0;
}

int cudnnGetPoolingNdDescriptor(const void* descriptor, int, int* mode, int* nan, int* dims, int* window, int* pad,
                                int* stride) {
  if (!Answers()) return g_answers.status;
  auto pooling = static_cast<const FakePooling*>(descriptor);
  *mode = pooling->mode;
  *nan = 0;
  *dims = pooling->dims;
  Copy(pooling->window, pooling->dims, window);
  Copy(pooling->pad, pooling->dims, pad);
  Copy(pooling->stride, pooling->dims, stride);
  return 0;
}

int cudnnGetActivationDescriptor(const void* descriptor, int* mode, int* nan, double* coefficient) {
  if (!Answers()) return g_answers.status;
  *mode = *static_cast<const int*>(descriptor);
  *nan = 0;
  *coefficient = 0.5;
  return 0;
}

int cudnnGetRNNDescriptor_v8(const void* descriptor, int* algorithm, int* cell, int* bias, int* direction, int* input,
                             int* type, int* precision, int* math_type, int* input_size, int* hidden_size,
                             int* projection_size, int* layers, void** dropout, uint32_t* flags) {
  if (!Answers()) return g_answers.status;
  auto rnn = static_cast<const FakeRnn*>(descriptor);
  for (int* other : {bias, direction, input, type, input_size, hidden_size, projection_size}) *other = 1234;
  *dropout = nullptr;
  *flags = 0;
  *algorithm = rnn->algorithm;
  *cell = rnn->cell;
  *precision = rnn->precision;
  *math_type = rnn->math_type;
  *layers = rnn->layers;
  return 0;
}

int cudnnGetRNNDataDescriptor(const void* descriptor, int* type, int* layout, int* length, int* batch, int* vector,
                              int requested, int*, void* fill) {
  if (!Answers() || requested != 0) return 3;
  auto data = static_cast<const FakeRnnData*>(descriptor);
  memset(fill, 0, 8);
  *type = data->type;
  *layout = data->layout;
  *length = data->length;
  *batch = data->batch;
  *vector = data->vector;
  return 0;
}

int cusparseSpMatGetSize(const void* descriptor, int64_t* rows, int64_t* columns, int64_t* nonzeros) {
  if (!Answers()) return g_answers.status;
  auto matrix = static_cast<const FakeSparse*>(descriptor);
  *rows = matrix->rows;
  *columns = matrix->columns;
  *nonzeros = matrix->nonzeros;
  return 0;
}

int cusparseDnMatGet(const void* descriptor, int64_t* rows, int64_t* columns, int64_t* ld, const void** values,
                     int* type, int* order) {
  if (!Answers()) return g_answers.status;
  auto matrix = static_cast<const FakeDense*>(descriptor);
  *rows = matrix->rows;
  *columns = matrix->columns;
  *ld = matrix->ld;
  *values = nullptr;
  *type = matrix->type;
  *order = matrix->order;
  return 0;
}

int cusparseDnVecGet(const void* descriptor, int64_t* size, const void** values, int* type) {
  if (!Answers()) return g_answers.status;
  auto vector = static_cast<const FakeDense*>(descriptor);
  *size = vector->rows;
  *values = nullptr;
  *type = vector->type;
  return 0;
}

int ncclCommUserRank(const void*, int* rank) {
  if (!Answers()) return g_answers.status;
  *rank = g_answers.rank;
  return 0;
}

int ncclCommCount(const void*, int* ranks) {
  if (!Answers()) return g_answers.status;
  *ranks = g_answers.ranks;
  return 0;
}

int PMPI_Comm_rank(int64_t, int* rank) { return ncclCommUserRank(nullptr, rank); }
int PMPI_Comm_size(int64_t, int* ranks) { return ncclCommCount(nullptr, ranks); }
// A type is its own size here.
int PMPI_Type_size(int64_t type, int* bytes) {
  if (!Answers()) return g_answers.status;
  *bytes = static_cast<int>(type);
  return 0;
}
}
