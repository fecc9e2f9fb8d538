// libcublas: handles, copies; every product advances the clock of the handle's stream (the generated wrapper calls
// FakeProduct if no behaviour is written here).
#include "fake.h"

namespace {

struct Handle {
  void* stream = nullptr;
  int math_mode = 0;
  int pointer_mode = 0;
};

constexpr char kGemmKernel[] = "ampere_sgemm_128x64_nn";

Handle* Of(void* handle) { return static_cast<Handle*>(handle); }

}  // namespace

// Of libcublasLt: the two private ones stand for its cublasLt_for_cublas_*.
extern "C" int cublasLtMatmul(void*, const void*, const void*, const void*, const void*, const void*, const void*,
                              const void*, const void*, const void*, void*, const void*, const void*, void*, size_t,
                              void*);
extern "C" void cublasLt_for_cublas_describe(int64_t m, int64_t n, int64_t k, int64_t batch, void** descriptors);
extern "C" void cublasLt_for_cublas_forget(void** descriptors);

namespace {

// Like the real library in many cases: through the public name, which is interposable.
int ProductByLt(void* stream, int64_t m, int64_t n, int64_t k, int64_t batch) {
  void* descriptors[4];  // of the product, a, b, d
  cublasLt_for_cublas_describe(m, n, k, batch, descriptors);
  const auto [description, a, b, d] = descriptors;
  const int status = cublasLtMatmul(nullptr, description, nullptr, nullptr, a, nullptr, b, nullptr, nullptr, d, nullptr,
                                    d, nullptr, nullptr, 0, stream);
  cublasLt_for_cublas_forget(descriptors);
  return status;
}

}  // namespace

// Calls with the parameters handle, m, n, k.
extern "C" __attribute__((visibility("hidden"))) int FakeProduct(void* handle, int64_t m, int64_t n, int64_t k,
                                                                 int64_t batch) {
  if (fake::Switch("NESTED")) return ProductByLt(Of(handle)->stream, m, n, k, batch);
  const int64_t nanoseconds = fake::ProductTime(m, n, k, batch);
  fake::Note("ns=%lld", static_cast<long long>(nanoseconds));
  fake::Work(Of(handle)->stream, nanoseconds, kGemmKernel);
  return 0;
}

FAKE(int, cublasCreate_v2, void** handle) {
  *handle = fake::New<Handle>();
  return 0;
}

FAKE(int, cublasDestroy_v2, void* handle) {
  fake::Delete(Of(handle));
  return 0;
}

FAKE(int, cublasSetStream_v2, void* handle, void* stream) {
  Of(handle)->stream = stream;
  return 0;
}

FAKE(int, cublasGetStream_v2, void* handle, void** stream) {
  *stream = Of(handle)->stream;
  return 0;
}

FAKE(int, cublasSetMathMode, void* handle, int mode) {
  Of(handle)->math_mode = mode;
  return 0;
}

FAKE(int, cublasGetMathMode, void* handle, int* mode) {
  *mode = Of(handle)->math_mode;
  return 0;
}

FAKE(int, cublasSetPointerMode_v2, void* handle, int mode) {
  Of(handle)->pointer_mode = mode;
  return 0;
}

FAKE(int, cublasGetPointerMode_v2, void* handle, int* mode) {
  *mode = Of(handle)->pointer_mode;
  return 0;
}

FAKE(int, cublasGetVersion_v2, void*, int* version) {
  *version = FAKE_CUDA_VERSION * 10;  // 130000: 13.0
  return 0;
}

FAKE(const char*, cublasGetStatusString, int status) {
  return status == 0 ? "CUBLAS_STATUS_SUCCESS" : "a status of the fake cuBLAS";
}

// --- copies, as made by programs of Caffe's time ---

FAKE(int, cublasSetVector, int64_t count, int64_t bytes, const void* from, int64_t, void* to, int64_t) {
  fake::Copy(nullptr, to, from, static_cast<size_t>(static_cast<int32_t>(count) * static_cast<int32_t>(bytes)));
  return 0;
}

FAKE(int, cublasGetVector, int64_t count, int64_t bytes, const void* from, int64_t, void* to, int64_t) {
  return behave_cublasSetVector(count, bytes, from, 1, to, 1);
}

FAKE(int, cublasSetMatrix, int64_t rows, int64_t columns, int64_t bytes, const void* from, int64_t, void* to, int64_t) {
  return behave_cublasSetVector(static_cast<int32_t>(rows) * static_cast<int32_t>(columns), bytes, from, 1, to, 1);
}

FAKE(int, cublasGetMatrix, int64_t rows, int64_t columns, int64_t bytes, const void* from, int64_t, void* to, int64_t) {
  return behave_cublasSetMatrix(rows, columns, bytes, from, 1, to, 1);
}
