// libcublasLt: descriptors, layouts and preferences that remember their attributes, a heuristic with results from
// DLHOOK_FAKE_LT, algorithms whose configuration can be read back.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "fake.h"

namespace {

constexpr int kSuccess = 0, kInvalidValue = 7;
constexpr char kGemmKernel[] =
    "sm90_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_segment_"
    "k_off_kernel__5x_cublas";

// --- attributes of every kind of descriptor ---

struct Attributes {
  std::map<int, std::string> values;
};

template <class T>
void Put(Attributes* attributes, int name, T value) {
  attributes->values[name].assign(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T Value(const void* descriptor, int name, T otherwise) {
  const auto& values = static_cast<const Attributes*>(descriptor)->values;
  const auto entry = values.find(name);
  if (entry == values.end()) return otherwise;
  T value{};
  memcpy(&value, entry->second.data(), entry->second.size() < sizeof value ? entry->second.size() : sizeof value);
  return value;
}

int SetAttribute(void* descriptor, int name, const void* value, size_t bytes) {
  static_cast<Attributes*>(descriptor)->values[name].assign(static_cast<const char*>(value), bytes);
  return kSuccess;
}

// Like the library: a size that does not fit is an error; null and 0 request the size.
int GetAttribute(const void* descriptor, int name, void* value, size_t bytes, size_t* written) {
  const auto& values = static_cast<const Attributes*>(descriptor)->values;
  const auto entry = values.find(name);
  if (entry == values.end()) return kInvalidValue;
  if (written != nullptr) *written = entry->second.size();
  if (value == nullptr && bytes == 0 && written != nullptr) return kSuccess;
  if (bytes < entry->second.size()) return kInvalidValue;
  memcpy(value, entry->second.data(), entry->second.size());
  return kSuccess;
}

// --- the 64 opaque bytes of an algorithm ---

struct Algorithm {
  int32_t id, tile, stages, split_k;
  int32_t reduction, swizzle, custom;
  uint16_t inner_shape, cluster;
  int32_t unused[8];
};
static_assert(sizeof(Algorithm) == 64, "cublasLtMatmulAlgo_t");

struct HeuristicResult {
  Algorithm algorithm;
  size_t workspace_bytes;
  int32_t state;
  float waves;
  int32_t reserved[4];
};
static_assert(sizeof(HeuristicResult) == 96, "cublasLtMatmulHeuristicResult_t");

std::vector<Algorithm> Candidates() {
  std::vector<Algorithm> candidates;
  const char* text = fake::Setting("LT", "66:20:15:1,21:18:8:4");
  while (*text != 0) {
    Algorithm algorithm{};
    int length = 0;
    if (sscanf(text, "%d:%d:%d:%d%n", &algorithm.id, &algorithm.tile, &algorithm.stages, &algorithm.split_k, &length) !=
        4) {
      fprintf(stderr, "DLHOOK_FAKE_LT: found '%s', expected ID:TILE:STAGES:SPLITK\n", text);
      abort();
    }
    algorithm.reduction = algorithm.split_k > 1 ? 1 : 0;
    algorithm.cluster = 2;
    candidates.push_back(algorithm);
    text += length;
    if (*text == ',') ++text;
  }
  return candidates;
}

struct Field {
  size_t offset, size;
};

// By cublasLtMatmulAlgoConfigAttributes_t.
const Field* FieldOf(int name) {
  static const Field fields[] = {
      {offsetof(Algorithm, id), 4},        {offsetof(Algorithm, tile), 4},        {offsetof(Algorithm, split_k), 4},
      {offsetof(Algorithm, reduction), 4}, {offsetof(Algorithm, swizzle), 4},     {offsetof(Algorithm, custom), 4},
      {offsetof(Algorithm, stages), 4},    {offsetof(Algorithm, inner_shape), 2}, {offsetof(Algorithm, cluster), 2},
  };
  return name >= 0 && name < 9 ? &fields[name] : nullptr;
}

}  // namespace

FAKE(int, cublasLtCreate, void** handle) {
  *handle = fake::New<Attributes>();
  return kSuccess;
}

FAKE(int, cublasLtDestroy, void* handle) {
  fake::Delete(static_cast<Attributes*>(handle));
  return kSuccess;
}

FAKE(size_t, cublasLtGetVersion, ) { return FAKE_CUDA_VERSION * 10; }
FAKE(size_t, cublasLtGetCudartVersion, ) { return FAKE_CUDA_VERSION; }

FAKE(int, cublasLtMatmulDescCreate, void** descriptor, int compute_type, int scale_type) {
  auto* attributes = fake::New<Attributes>();
  Put<int32_t>(attributes, 0, compute_type);
  Put<int32_t>(attributes, 1, scale_type);
  for (int name = 2; name <= 6; ++name) Put<int32_t>(attributes, name, 0);  // pointer mode, transposes, fill
  Put<uint32_t>(attributes, 7, 1);                                          // CUBLASLT_EPILOGUE_DEFAULT
  Put<const void*>(attributes, 8, nullptr);                                 // bias
  Put<int32_t>(attributes, 26, -1);                                         // its type
  *descriptor = attributes;
  return kSuccess;
}

FAKE(int, cublasLtMatmulDescDestroy, void* descriptor) { return behave_cublasLtDestroy(descriptor); }
FAKE(int, cublasLtMatrixLayoutDestroy, void* layout) { return behave_cublasLtDestroy(layout); }
FAKE(int, cublasLtMatmulPreferenceDestroy, void* preference) { return behave_cublasLtDestroy(preference); }
FAKE(int, cublasLtMatrixTransformDescDestroy, void* descriptor) { return behave_cublasLtDestroy(descriptor); }
FAKE(int, cublasLtMatmulPreferenceCreate, void** preference) { return behave_cublasLtCreate(preference); }

FAKE(int, cublasLtMatrixTransformDescCreate, void** descriptor, int scale_type) {
  auto* attributes = fake::New<Attributes>();
  Put<int32_t>(attributes, 0, scale_type);
  for (int name = 1; name <= 3; ++name) Put<int32_t>(attributes, name, 0);
  *descriptor = attributes;
  return kSuccess;
}

FAKE(int, cublasLtMatrixLayoutCreate, void** layout, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  auto* attributes = fake::New<Attributes>();
  Put<uint32_t>(attributes, 0, static_cast<uint32_t>(type));
  Put<int32_t>(attributes, 1, 0);  // column order
  Put<uint64_t>(attributes, 2, rows);
  Put<uint64_t>(attributes, 3, columns);
  Put<int64_t>(attributes, 4, leading);
  Put<int32_t>(attributes, 5, 1);  // batch
  Put<int64_t>(attributes, 6, 0);
  *layout = attributes;
  return kSuccess;
}

// The program gives the address of the sizes, in the device's memory; the groups are counted as a batch.
FAKE(int, cublasLtGroupedMatrixLayoutCreate, void** layout, int type, int groups, const void* rows, const void* columns,
     const void* leading) {
  behave_cublasLtMatrixLayoutCreate(layout, type, 0, 0, 0);
  auto* attributes = static_cast<Attributes*>(*layout);
  Put<int32_t>(attributes, 5, groups);
  Put<uint32_t>(attributes, 8, 2);  // CUBLASLT_BATCH_MODE_GROUPED
  Put<const void*>(attributes, 9, rows);
  Put<const void*>(attributes, 10, columns);
  Put<const void*>(attributes, 11, leading);
  return kSuccess;
}

FAKE(int, cublasLtMatmulDescSetAttribute, void* d, int name, const void* value, size_t bytes) {
  return SetAttribute(d, name, value, bytes);
}
FAKE(int, cublasLtMatrixLayoutSetAttribute, void* d, int name, const void* value, size_t bytes) {
  return SetAttribute(d, name, value, bytes);
}
FAKE(int, cublasLtMatmulPreferenceSetAttribute, void* d, int name, const void* value, size_t bytes) {
  return SetAttribute(d, name, value, bytes);
}
FAKE(int, cublasLtMatrixTransformDescSetAttribute, void* d, int name, const void* value, size_t bytes) {
  return SetAttribute(d, name, value, bytes);
}

FAKE(int, cublasLtMatmulDescGetAttribute, const void* d, int name, void* value, size_t bytes, size_t* written) {
  return GetAttribute(d, name, value, bytes, written);
}

FAKE(int, cublasLtMatrixLayoutGetAttribute, const void* d, int name, void* value, size_t bytes, size_t* written) {
  return GetAttribute(d, name, value, bytes, written);
}

FAKE(int, cublasLtMatmulPreferenceGetAttribute, const void* d, int name, void* value, size_t bytes, size_t* written) {
  return GetAttribute(d, name, value, bytes, written);
}

FAKE(int, cublasLtMatrixTransformDescGetAttribute, const void* d, int name, void* value, size_t bytes,
     size_t* written) {
  return GetAttribute(d, name, value, bytes, written);
}

FAKE(int, cublasLtMatmulAlgoGetHeuristic, void*, const void*, const void*, const void*, const void*, const void*,
     const void*, int requested, void* results, int* returned) {
  *returned = 0;
  for (const Algorithm& algorithm : Candidates()) {
    if (*returned == requested) break;
    HeuristicResult result{};
    result.algorithm = algorithm;
    result.workspace_bytes = algorithm.split_k > 1 ? size_t{1} << 20 : 0;
    result.waves = 1;
    static_cast<HeuristicResult*>(results)[(*returned)++] = result;
  }
  return kSuccess;  // even without results: tests callers that then try another way
}

FAKE(int, cublasLtMatmulAlgoGetHeuristicForStream, void* handle, const void* description, const void* a, const void* b,
     const void* c, const void* d, const void* preference, int requested, void* results, int* returned, void*) {
  return behave_cublasLtMatmulAlgoGetHeuristic(handle, description, a, b, c, d, preference, requested, results,
                                               returned);
}

FAKE(int, cublasLtMatmulAlgoInit, void*, int, int, int, int, int, int, int id, void* algorithm) {
  Algorithm fresh{};
  fresh.id = id;
  fresh.split_k = 1;
  memcpy(algorithm, &fresh, sizeof fresh);
  return kSuccess;
}

FAKE(int, cublasLtMatmulAlgoCheck, void*, const void*, const void*, const void*, const void*, const void*,
     const void* algorithm, void* result) {
  HeuristicResult fresh{};
  memcpy(&fresh.algorithm, algorithm, sizeof fresh.algorithm);
  memcpy(result, &fresh, sizeof fresh);
  return kSuccess;
}

FAKE(int, cublasLtMatmulAlgoCheckForStream, void* handle, const void* description, const void* a, const void* b,
     const void* c, const void* d, const void* algorithm, void* result, void*) {
  return behave_cublasLtMatmulAlgoCheck(handle, description, a, b, c, d, algorithm, result);
}

FAKE(int, cublasLtMatmulAlgoConfigGetAttribute, const void* algorithm, int name, void* value, size_t bytes,
     size_t* written) {
  const Field* field = FieldOf(name);
  if (field == nullptr) return kInvalidValue;
  if (written != nullptr) *written = field->size;
  if (value == nullptr && bytes == 0 && written != nullptr) return kSuccess;
  if (bytes < field->size) return kInvalidValue;
  memcpy(value, static_cast<const char*>(algorithm) + field->offset, field->size);
  return kSuccess;
}

FAKE(int, cublasLtMatmulAlgoConfigSetAttribute, void* algorithm, int name, const void* value, size_t bytes) {
  const Field* field = FieldOf(name);
  if (field == nullptr || bytes < field->size) return kInvalidValue;
  memcpy(static_cast<char*>(algorithm) + field->offset, value, field->size);
  return kSuccess;
}

FAKE(int, cublasLtMatmul, void*, const void* description, const void*, const void*, const void* a_layout, const void*,
     const void*, const void*, const void*, const void*, void*, const void* d_layout, const void* algorithm, void*,
     size_t, void* stream) {
  const bool transposed = Value<int32_t>(description, 3, 0) != 0;
  const auto m = Value<int64_t>(d_layout, 2, 0), n = Value<int64_t>(d_layout, 3, 0);
  const auto k = Value<int64_t>(a_layout, transposed ? 2 : 3, 0);
  const auto batch = Value<int32_t>(d_layout, 5, 1);
  const int64_t nanoseconds = fake::ProductTime(m, n, k, batch);
  fake::Note("m=%lld n=%lld k=%lld batch=%d", static_cast<long long>(m), static_cast<long long>(n),
             static_cast<long long>(k), batch);
  fake::Note("trans_a=%d trans_b=%d", Value<int32_t>(description, 3, 0), Value<int32_t>(description, 4, 0));
  fake::Note("a_type=%d d_type=%d compute=%d", Value<int32_t>(a_layout, 0, -1), Value<int32_t>(d_layout, 0, -1),
             Value<int32_t>(description, 0, -1));
  fake::Note("epilogue=%u", Value<uint32_t>(description, 7, 0));
  fake::Note("scale_a=%d scale_b=%d", Value<int32_t>(description, 31, 0), Value<int32_t>(description, 32, 0));
  if (algorithm != nullptr) {
    const auto* chosen = static_cast<const Algorithm*>(algorithm);
    fake::Note("algo=%d tile=%d stages=%d split_k=%d", chosen->id, chosen->tile, chosen->stages, chosen->split_k);
  }
  fake::Note("ns=%lld", static_cast<long long>(nanoseconds));
  fake::Work(stream, nanoseconds, kGemmKernel);
  return kSuccess;
}

FAKE(int, cublasLtMatrixTransform, void*, const void*, const void*, const void*, const void*, const void*, const void*,
     const void*, void*, const void* c_layout, void* stream) {
  const int64_t elements = Value<int64_t>(c_layout, 2, 0) * Value<int64_t>(c_layout, 3, 0);
  fake::Work(stream, fake::Slowed(3000 + elements / 250));
  return kSuccess;
}

// --- used by the fake libcublas to call cublasLtMatmul (DLHOOK_FAKE_NESTED) ---

FAKE(void, cublasLt_for_cublas_describe, int64_t m, int64_t n, int64_t k, int64_t batch, void** descriptors) {
  behave_cublasLtMatmulDescCreate(&descriptors[0], 68, 0);  // CUBLAS_COMPUTE_32F, CUDA_R_32F
  behave_cublasLtMatrixLayoutCreate(&descriptors[1], 0, static_cast<uint64_t>(m), static_cast<uint64_t>(k), m);
  behave_cublasLtMatrixLayoutCreate(&descriptors[2], 0, static_cast<uint64_t>(k), static_cast<uint64_t>(n), k);
  behave_cublasLtMatrixLayoutCreate(&descriptors[3], 0, static_cast<uint64_t>(m), static_cast<uint64_t>(n), m);
  for (int i = 1; i < 4; ++i) Put<int32_t>(static_cast<Attributes*>(descriptors[i]), 5, static_cast<int32_t>(batch));
}

FAKE(void, cublasLt_for_cublas_forget, void** descriptors) {
  for (int i = 0; i < 4; ++i) behave_cublasLtDestroy(descriptors[i]);
}
