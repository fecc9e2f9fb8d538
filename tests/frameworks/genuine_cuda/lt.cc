// cuBLASLt with descriptors of the genuine library and without a handle. Each line shows the values that the
// descriptors were made from. Numbers: cublasLt.h, library_types.h, cublas_api.h.
#include <cstring>
#include <string>
#include <vector>

#include "backend.h"
#include "direct.h"

namespace genuine {
namespace {

// cudaDataType_t, cublasComputeType_t
enum { kR32F = 0, kR64F = 1, kR16F = 2, kR8I = 3, kC32F = 4, kR32I = 10, kR16Bf = 14, kR8E4m3 = 28 };
enum { kCompute16F = 64, kCompute32F = 68, kCompute64F = 70, kCompute32I = 72, kCompute32FastTf32 = 77 };
// cublasLtMatmulDescAttributes_t, cublasLtMatrixLayoutAttribute_t, cublasLtMatmulAlgoConfigAttributes_t
enum { kTransA = 3, kTransB = 4, kEpilogue = 7, kFastAccumulation = 25 };
enum { kOrder = 1, kBatchCount = 5, kBatchStride = 6 };

struct Lt {
  int (*description)(void** description, int compute_type, int scale_type);
  int (*describe)(void* description, int attribute, const void* value, size_t bytes);
  int (*layout)(void** layout, int type, uint64_t rows, uint64_t columns, int64_t leading);
  int (*lay_out)(void* layout, int attribute, const void* value, size_t bytes);
  int (*configure)(void* algorithm, int attribute, const void* value, size_t bytes);
  int (*matmul)(void* handle, void* description, const void* alpha, const void* a, void* a_layout, const void* b,
                void* b_layout, const void* beta, const void* c, void* c_layout, void* d, void* d_layout,
                const void* algorithm, void* workspace, size_t workspace_bytes, void* stream);
  int (*heuristic)(void* handle, void* description, void* a, void* b, void* c, void* d, void* preference, int requested,
                   void* results, int* returned);
  int (*transform_description)(void** description, int scale_type);
  int (*describe_transform)(void* description, int attribute, const void* value, size_t bytes);
  int (*transform)(void* handle, void* description, const void* alpha, const void* a, void* a_layout, const void* beta,
                   const void* b, void* b_layout, void* c, void* c_layout, void* stream);
};

template <typename Function>
void Load(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(Lookup(library, name));
}

Lt LoadLt(void* library) {
  Lt lt;
  Load(library, "cublasLtMatmulDescCreate", &lt.description);
  Load(library, "cublasLtMatmulDescSetAttribute", &lt.describe);
  Load(library, "cublasLtMatrixLayoutCreate", &lt.layout);
  Load(library, "cublasLtMatrixLayoutSetAttribute", &lt.lay_out);
  Load(library, "cublasLtMatmulAlgoConfigSetAttribute", &lt.configure);
  Load(library, "cublasLtMatmul", &lt.matmul);
  Load(library, "cublasLtMatmulAlgoGetHeuristic", &lt.heuristic);
  Load(library, "cublasLtMatrixTransformDescCreate", &lt.transform_description);
  Load(library, "cublasLtMatrixTransformDescSetAttribute", &lt.describe_transform);
  Load(library, "cublasLtMatrixTransform", &lt.transform);
  return lt;
}

void* Data(uintptr_t number, uintptr_t offset = 0) {
  return reinterpret_cast<void*>(0x7fa000000000 + number * 65536 + offset);
}

// One product. Rows and columns of A and B in memory, before the transposes.
struct Product {
  int64_t m, n, k;
  int transposed_a, transposed_b;  // cublasOperation_t
  int a_type, b_type, c_type, d_type, compute_type, scale_type;
  uint32_t epilogue = 1;
  int orders[3] = {0, 0, 0};  // of A, B, D: cublasLtOrder_t
  int batch = 1;
  int64_t padding = 0;  // of leading dimensions
  int8_t fast_accumulation = 0;
  uintptr_t offset = 0;  // of A's address
};

struct Layout {
  void* handle = nullptr;
  int64_t leading = 0;
};

Layout MakeLayout(const Lt& lt, int type, int64_t rows, int64_t columns, int order, const Product& product) {
  constexpr int kColumnMajor = 0;
  Layout layout;
  int64_t inner = order == kColumnMajor ? rows : columns;
  layout.leading = inner + product.padding;
  GENUINE_CHECK(
      lt.layout(&layout.handle, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), layout.leading));
  GENUINE_CHECK(lt.lay_out(layout.handle, kOrder, &order, sizeof order));
  if (product.batch == 1) return layout;
  int64_t stride = layout.leading * (order == kColumnMajor ? columns : rows);
  GENUINE_CHECK(lt.lay_out(layout.handle, kBatchCount, &product.batch, sizeof product.batch));
  GENUINE_CHECK(lt.lay_out(layout.handle, kBatchStride, &stride, sizeof stride));
  return layout;
}

struct Layouts {
  void* description = nullptr;
  Layout a, b, c, d;
};

Layouts Describe(const Lt& lt, const Product& product) {
  Layouts made;
  GENUINE_CHECK(lt.description(&made.description, product.compute_type, product.scale_type));
  GENUINE_CHECK(lt.describe(made.description, kTransA, &product.transposed_a, sizeof(int)));
  GENUINE_CHECK(lt.describe(made.description, kTransB, &product.transposed_b, sizeof(int)));
  GENUINE_CHECK(lt.describe(made.description, kEpilogue, &product.epilogue, sizeof product.epilogue));
  GENUINE_CHECK(
      lt.describe(made.description, kFastAccumulation, &product.fast_accumulation, sizeof product.fast_accumulation));
  bool turned_a = product.transposed_a != 0, turned_b = product.transposed_b != 0;
  made.a = MakeLayout(lt, product.a_type, turned_a ? product.k : product.m, turned_a ? product.m : product.k,
                      product.orders[0], product);
  made.b = MakeLayout(lt, product.b_type, turned_b ? product.n : product.k, turned_b ? product.k : product.n,
                      product.orders[1], product);
  made.c = MakeLayout(lt, product.c_type, product.m, product.n, product.orders[2], product);
  made.d = MakeLayout(lt, product.d_type, product.m, product.n, product.orders[2], product);
  return made;
}

void Write(std::FILE* out, const char* function, int status, const Product& product, const Layouts& made,
           const std::string& more) {
  std::fprintf(
      out,
      "{\"function\":\"%s\",\"status\":%d,\"m\":%lld,\"n\":%lld,\"k\":%lld,\"transposed\":[%d,%d],\"types\":[%d,%d,%d],"
      "\"compute_type\":%d,\"scale_type\":%d,\"epilogue\":%u,\"orders\":[%d,%d,%d],\"batch\":%d,\"leading\":[%lld,%lld,"
      "%lld],"
      "\"fast_accumulation\":%s,%s}\n",
      function, status, static_cast<long long>(product.m), static_cast<long long>(product.n),
      static_cast<long long>(product.k), product.transposed_a, product.transposed_b, product.a_type, product.b_type,
      product.d_type, product.compute_type, product.scale_type, product.epilogue, product.orders[0], product.orders[1],
      product.orders[2], product.batch, static_cast<long long>(made.a.leading), static_cast<long long>(made.b.leading),
      static_cast<long long>(made.d.leading), product.fast_accumulation ? "true" : "false", more.c_str());
}

// An algorithm as configured by a caller. cublasLtMatmulAlgoInit, which would initialize it, needs a device; for the
// getters it only matters that it writes the algorithm's number into the first word.
std::string Configure(const Lt& lt, uint32_t* algorithm) {
  constexpr int kTile = 1, kSplitK = 2, kReduction = 3, kSwizzle = 4, kCustom = 5, kStages = 6, kInner = 7,
                kCluster = 8;
  algorithm[0] = 21;
  const uint32_t words[] = {20, 3, 2, 1, 5, 11};
  const uint16_t halves[] = {2, 3};
  const int attributes[] = {kTile, kSplitK, kReduction, kSwizzle, kCustom, kStages};
  for (int i = 0; i < 6; ++i) GENUINE_CHECK(lt.configure(algorithm, attributes[i], &words[i], sizeof words[i]));
  GENUINE_CHECK(lt.configure(algorithm, kInner, &halves[0], sizeof halves[0]));
  GENUINE_CHECK(lt.configure(algorithm, kCluster, &halves[1], sizeof halves[1]));
  return "\"algorithm\":21,\"configuration\":[20,3,2,1,5,11,2,3]";
}

void CallProduct(const Lt& lt, const Product& product, std::FILE* out) {
  Layouts made = Describe(lt, product);
  float alpha = 1, beta = 0;
  std::vector<char> results(96 * 4);
  int returned = 0;
  int status = lt.heuristic(nullptr, made.description, made.a.handle, made.b.handle, made.c.handle, made.d.handle,
                            nullptr, 4, results.data(), &returned);
  Write(out, "cublasLtMatmulAlgoGetHeuristic", status, product, made, "\"requested\":4,\"data\":[]");
  status = lt.matmul(nullptr, made.description, &alpha, Data(1, product.offset), made.a.handle, Data(2), made.b.handle,
                     &beta, Data(3), made.c.handle, Data(4), made.d.handle, nullptr, Data(9), 1 << 25, nullptr);
  Write(out, "cublasLtMatmul", status, product, made,
        "\"workspace\":33554432,\"offset\":" + std::to_string(product.offset) + ",\"data\":[1,2,4]");
  uint32_t algorithm[16] = {};
  const std::string said = Configure(lt, algorithm);
  status = lt.matmul(nullptr, made.description, &alpha, Data(1, product.offset), made.a.handle, Data(2), made.b.handle,
                     &beta, Data(3), made.c.handle, Data(4), made.d.handle, algorithm, nullptr, 0, nullptr);
  Write(out, "cublasLtMatmul", status, product, made,
        said + ",\"workspace\":0,\"offset\":" + std::to_string(product.offset) + ",\"data\":[1,2,4]");
}

void CallTransform(const Lt& lt, std::FILE* out) {
  void* description = nullptr;
  GENUINE_CHECK(lt.transform_description(&description, kR32F));
  int transposed = 1;
  GENUINE_CHECK(lt.describe_transform(description, 2, &transposed, sizeof transposed));
  Product shape = {};
  shape.batch = 1;
  Layout a = MakeLayout(lt, kR16F, 96, 64, 1, shape);
  Layout c = MakeLayout(lt, kR32F, 64, 96, 0, shape);
  float alpha = 1, beta = 0;
  int status = lt.transform(nullptr, description, &alpha, Data(1), a.handle, &beta, nullptr, nullptr, Data(3), c.handle,
                            nullptr);
  std::fprintf(
      out,
      "{\"function\":\"cublasLtMatrixTransform\",\"status\":%d,\"m\":64,\"n\":96,\"transposed\":1,\"types\":[2,0],"
      "\"orders\":[1,0],\"leading\":[%lld,%lld],\"data\":[1,0,3]}\n",
      status, static_cast<long long>(a.leading), static_cast<long long>(c.leading));
}

}  // namespace

void CallLt(void* library, std::FILE* out) {
  Lt lt = LoadLt(library);
  const Product products[] = {
      {128, 96, 64, 0, 0, kR32F, kR32F, kR32F, kR32F, kCompute32F, kR32F},
      {1000, 8, 4096, 1, 0, kR16F, kR16F, kR16F, kR16F, kCompute32F, kR32F, 4},
      {256, 320, 72, 0, 1, kR16Bf, kR16Bf, kR16Bf, kR16Bf, kCompute32F, kR32F, 36, {0, 0, 0}, 12},
      {33, 17, 5, 1, 1, kR64F, kR64F, kR64F, kR64F, kCompute64F, kR64F, 1, {1, 1, 1}, 1, 3},
      {64, 48, 32, 0, 0, kR16F, kR16F, kR32F, kR32F, kCompute32F, kR32F, 6 | 128, {1, 0, 1}, 2, 8},
      {64, 64, 64, 0, 0, kR16F, kR16F, kR16F, kR16F, kCompute16F, kR16F, 2, {0, 0, 0}, 1, 0, 0, 2},
      {128, 256, 512, 1, 0, kR8I, kR8I, kR32I, kR32I, kCompute32I, kR32I},
      {64, 64, 128, 1, 0, kR8E4m3, kR8E4m3, kR16Bf, kR16Bf, kCompute32F, kR32F, 1, {0, 0, 0}, 1, 0, 1},
      {40, 50, 60, 2, 0, kC32F, kC32F, kC32F, kC32F, kCompute32F, kC32F},
      {512, 512, 512, 0, 0, kR32F, kR32F, kR32F, kR32F, kCompute32FastTf32, kR32F, 192 | 16},
  };
  for (const Product& product : products) CallProduct(lt, product, out);
  CallTransform(lt, out);
}

}  // namespace genuine
