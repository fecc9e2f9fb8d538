// cuBLASLt: everything about a product is in opaque descriptors, which the library's own getters read (10 ns each, no
// GPU needed). Attribute numbers: cublasLt.h, none was changed from CUDA 11 to 13; a version that does not know one returns an
// error, and the field keeps the meaning of an unset attribute.
#include <initializer_list>
#include <new>

#include "preload/decode/cuda_gemm.h"
#include "preload/link/library_api.h"
#include "preload/track/cuda_state.h"

namespace dlhook::inline decode {
namespace {

using GetAttribute = int (*)(const void* object, int attribute, void* value, size_t bytes, size_t* written);

struct LtApi : FunctionTable {
  using FunctionTable::FunctionTable;
  GetAttribute description = Find("cublasLtMatmulDescGetAttribute");
  GetAttribute layout = Find("cublasLtMatrixLayoutGetAttribute");
  GetAttribute algorithm = Find("cublasLtMatmulAlgoConfigGetAttribute");
  GetAttribute transform = Find("cublasLtMatrixTransformDescGetAttribute");
};

// cublasLtMatmulDescAttributes_t
// clang-format off
enum { kComputeType = 0, kScaleType = 1, kTransA = 3, kTransB = 4, kEpilogue = 7, kFastAccumulation = 25, kScaleModeA = 31,
       kScaleModeB = 32, kScaleModeD = 34, kScaleModeOut = 37 };
// clang-format on
// cublasLtMatrixTransformDescAttributes_t
enum { kTransformTransA = 2, kTransformTransB = 3 };
// cublasLtMatrixLayoutAttribute_t
// clang-format off
enum { kType = 0, kOrder = 1, kRows = 2, kColumns = 3, kLeadingDimension = 4, kBatch = 5, kBatchStride = 6, kBatchMode = 8 };
// clang-format on
// cublasLtBatchMode_t. Except in the first mode, addresses are those of arrays of pointers; for groups the sizes are in
// device memory, and are 0 here.
enum { kStrided = 0, kPointerArray = 1, kGrouped = 2 };
// cublasLtMatmulAlgoConfigAttributes_t
// clang-format off
enum { kId = 0, kTile = 1, kSplitK = 2, kReduction = 3, kSwizzle = 4, kCustom = 5, kStages = 6, kInnerShape = 7, kCluster = 8 };
// clang-format on

template <typename T>
T Ask(GetAttribute get, const void* object, int attribute, T otherwise) {
  T value = otherwise;
  size_t written = 0;
  if (get == nullptr || object == nullptr || get(object, attribute, &value, sizeof value, &written) != 0)
    return otherwise;
  return value;
}

struct Layout {
  DataType type = DataType::kUnknown;
  uint32_t order = 0;  // cublasLtOrder_t + 1; 0: not known
  int64_t rows = 0, columns = 0, leading = 0, batch_stride = 0;
  int32_t batch = 1;
  uint32_t mode = kStrided;
};

Layout ReadLayout(const LtApi& api, const void* layout) {
  Layout result;
  if (layout == nullptr) return result;
  result.type = CudaType(Ask<int32_t>(api.layout, layout, kType, -1));
  result.order = Ask<uint32_t>(api.layout, layout, kOrder, UINT32_MAX) + 1;
  result.rows = static_cast<int64_t>(Ask<uint64_t>(api.layout, layout, kRows, 0));
  result.columns = static_cast<int64_t>(Ask<uint64_t>(api.layout, layout, kColumns, 0));
  result.leading = Ask<int64_t>(api.layout, layout, kLeadingDimension, 0);
  result.batch = Ask<int32_t>(api.layout, layout, kBatch, 1);
  result.batch_stride = Ask<int64_t>(api.layout, layout, kBatchStride, 0);
  result.mode = Ask<uint32_t>(api.layout, layout, kBatchMode, kStrided);
  return result;
}

CudaGemmShape UnknownShape() {
  CudaGemmShape shape = {};
  shape.lt = 1;
  shape.compute_type = shape.scale_type = shape.math_mode = shape.heuristic_rank = -1;
  shape.algorithm = -1;
  shape.epilogue = 1;
  return shape;
}

struct Problem {
  CudaGemmShape shape = UnknownShape();
  GemmGroups groups = {};
  Alignment alignment;
  bool is_direct = true;  // addresses are those of the matrices
};

// The product's sizes in terms of D (rows are m), whatever the memory orders, which are recorded separately.
template <typename Args>
Problem ReadProblem(const LtApi& api, const Args& problem) {
  Layout a = ReadLayout(api, problem.a_layout);
  Layout b = ReadLayout(api, problem.b_layout);
  Layout d = ReadLayout(api, problem.d_layout);
  Problem result;
  CudaGemmShape& shape = result.shape;
  int32_t trans_a = Ask<int32_t>(api.description, problem.description, kTransA, 0);
  shape.gemm.trans_a = CublasOperation(trans_a);
  shape.gemm.trans_b = CublasOperation(Ask<int32_t>(api.description, problem.description, kTransB, 0));
  shape.gemm.a_type = a.type;
  shape.gemm.b_type = b.type;
  shape.gemm.c_type = d.type;
  shape.gemm.m = d.rows;
  shape.gemm.n = d.columns;
  shape.gemm.k = trans_a == 0 ? a.columns : a.rows;
  shape.gemm.lda = a.leading;
  shape.gemm.ldb = b.leading;
  shape.gemm.ldc = d.leading;
  shape.gemm.batch = d.batch;
  shape.order_a = static_cast<uint8_t>(a.order);
  shape.order_b = static_cast<uint8_t>(b.order);
  shape.order_d = static_cast<uint8_t>(d.order);
  shape.compute_type = static_cast<int16_t>(Ask<int32_t>(api.description, problem.description, kComputeType, -1));
  shape.scale_type = static_cast<int16_t>(Ask<int32_t>(api.description, problem.description, kScaleType, -1));
  shape.epilogue = Ask<uint32_t>(api.description, problem.description, kEpilogue, 1);
  shape.fast_accumulation = Ask<int8_t>(api.description, problem.description, kFastAccumulation, 0) != 0;
  // Scales per block are computed for D if it has an output mode, else its mode is that of the scale it is given.
  auto scale_mode = [&](const Layout& layout, int attribute) {
    bool is_narrow = layout.type != DataType::kUnknown && TypeBits(layout.type) <= 8;
    return static_cast<uint8_t>(is_narrow ? Ask<int32_t>(api.description, problem.description, attribute, 0) : 0);
  };
  shape.scale_mode_a = scale_mode(a, kScaleModeA);
  shape.scale_mode_b = scale_mode(b, kScaleModeB);
  shape.scale_mode_d = scale_mode(d, kScaleModeOut);
  if (shape.scale_mode_d == 0) shape.scale_mode_d = scale_mode(d, kScaleModeD);
  if (d.mode == kGrouped) result.groups.groups = d.batch;
  for (const Layout* layout : {&a, &b, &d}) {
    if (layout->mode != kStrided) result.is_direct = false;
    if (layout->mode == kGrouped) continue;
    result.alignment.AddElements(layout->leading, layout->type);
    if (layout->mode == kStrided && layout->batch > 1) result.alignment.AddElements(layout->batch_stride, layout->type);
  }
  return result;
}

void Store(CallRecord* record, const Problem& problem) {
  new (record->shape()) CudaGemmShape(problem.shape);
  new (record->shape_behind<CudaGemmShape>()) GemmGroups(problem.groups);
}

void ReadAlgorithm(const LtApi& api, const void* algorithm, CudaGemmShape* shape) {
  auto number = [&](int attribute) {
    return static_cast<uint16_t>(Ask<uint32_t>(api.algorithm, algorithm, attribute, 0));
  };
  shape->algorithm = Ask<int32_t>(api.algorithm, algorithm, kId, -1);
  shape->tile = number(kTile);
  shape->split_k = number(kSplitK);
  shape->reduction = number(kReduction);
  shape->swizzle = number(kSwizzle);
  shape->custom_option = number(kCustom);
  shape->stages = number(kStages);
  shape->inner_shape = Ask<uint16_t>(api.algorithm, algorithm, kInnerShape, 0);
  shape->cluster_shape = Ask<uint16_t>(api.algorithm, algorithm, kCluster, 0);
}

constexpr size_t kAlgorithmBytes = 64;
constexpr size_t kResultBytes = 96;  // cublasLtMatmulHeuristicResult_t: the algorithm, 32 bytes more

uint64_t HashAlgorithm(const void* algorithm) {
  uint64_t words[kAlgorithmBytes / 8];
  memcpy(words, algorithm, sizeof words);
  uint64_t hash = 0x9e3779b97f4a7c15u;
  for (uint64_t word : words) hash = (hash ^ word) * 0xff51afd7ed558ccdu ^ (hash >> 29);
  return hash | 1;
}

// The heuristics' results, by the algorithm's bytes: the last result counts. Two words, each written atomically; a
// mixture of two writers is detected by the low bits of the hash in the second.
struct HeuristicAnswer {
  std::atomic<uint64_t> hash;
  std::atomic<uint64_t> place;  // hash's low 16 bits << 48 | requested << 32 | returned << 16 | rank
};
// Four places for each value of eight bits, so that answers to one question hardly ever replace each other.
constexpr uint32_t kPlaces = 4;
HeuristicAnswer g_answers[256][kPlaces];
std::atomic<uint32_t> g_next_place;

HeuristicAnswer* AnswersOf(uint64_t hash) { return g_answers[(hash >> 20) & 255]; }

const HeuristicAnswer* FindAnswer(uint64_t hash) {
  const HeuristicAnswer* answers = AnswersOf(hash);
  for (uint32_t i = 0; i < kPlaces; ++i) {
    if (answers[i].hash.load(std::memory_order_relaxed) == hash) return &answers[i];
  }
  return nullptr;
}

// The same algorithm's, else a free one, else any.
HeuristicAnswer& PlaceFor(uint64_t hash) {
  HeuristicAnswer* answers = AnswersOf(hash);
  for (uint64_t wanted : {hash, uint64_t{0}}) {
    for (uint32_t i = 0; i < kPlaces; ++i) {
      if (answers[i].hash.load(std::memory_order_relaxed) == wanted) return answers[i];
    }
  }
  return answers[g_next_place.fetch_add(1, std::memory_order_relaxed) % kPlaces];
}

void ReadChooser(const void* algorithm, CudaGemmShape* shape) {
  if (algorithm == nullptr) {
    shape->chooser = Chooser::kLibrary;
    return;
  }
  uint64_t hash = HashAlgorithm(algorithm);
  const HeuristicAnswer* answer = FindAnswer(hash);
  uint64_t place = answer == nullptr ? 0 : answer->place.load(std::memory_order_acquire);
  if (answer == nullptr || place >> 48 != (hash & 0xffff)) {
    shape->chooser = Chooser::kFixed;
    return;
  }
  shape->chooser = Chooser::kHeuristic;
  shape->heuristic_rank = static_cast<int16_t>(place & 0xffff);
  shape->heuristic_results = static_cast<uint16_t>(place >> 16);
  shape->heuristic_requested = static_cast<uint16_t>(place >> 32);
}

}  // namespace

void DecodeLtMatmul(const LtMatmulArgs& args, CallRecord* record) {
  const LtApi& api = ApiOf<LtApi>(args.real);
  Problem problem = ReadProblem(api, args);
  CudaGemmShape& shape = problem.shape;
  if (args.algorithm != nullptr) ReadAlgorithm(api, args.algorithm, &shape);
  ReadChooser(args.algorithm, &shape);
  bool direct = problem.is_direct;
  for (const void* operand : {args.a, args.b, args.c, args.d}) {
    if (direct) problem.alignment.AddAddress(operand);
  }
  shape.alignment_log2 = problem.alignment.Log2();
  shape.workspace_bytes = args.workspace_bytes;
  shape.captured = IsCaptured(args.stream);
  Store(record, problem);
  direct ? record->SetAddresses(args.a, args.b, args.d) : record->SetAddresses(nullptr, nullptr, nullptr);
}

void DecodeLtHeuristic(const LtHeuristicArgs& args, CallRecord* record) {
  Problem problem = ReadProblem(ApiOf<LtApi>(args.real), args);
  CudaGemmShape& shape = problem.shape;
  shape.gemm.kind = GemmKind::kHeuristic;
  shape.alignment_log2 = problem.alignment.Log2();
  shape.heuristic_requested = static_cast<uint16_t>(args.requested);
  bool answered = record->status == 0 && args.returned != nullptr;
  shape.heuristic_results = answered ? static_cast<uint16_t>(*args.returned) : 0;
  Store(record, problem);
  record->SetAddresses(nullptr, nullptr, nullptr);
}

// Remembers which algorithms the heuristics gave, so that a later matmul can say which one it used.
void TrackLtHeuristic(const LtHeuristicArgs& args) {
  if (args.status != 0 || args.returned == nullptr || args.results == nullptr) return;
  uint64_t count = static_cast<uint64_t>(*args.returned);
  for (uint64_t rank = 0; rank < count && rank < 256; ++rank) {
    uint64_t hash = HashAlgorithm(static_cast<const char*>(args.results) + rank * kResultBytes);
    HeuristicAnswer& answer = PlaceFor(hash);
    answer.hash.store(hash, std::memory_order_relaxed);
    uint64_t place = (static_cast<uint64_t>(args.requested) & 0xffff) << 32 | (count & 0xffff) << 16 | rank;
    answer.place.store(hash << 48 | place, std::memory_order_release);
  }
}

void DecodeLtTransform(const LtTransformArgs& args, CallRecord* record) {
  MatrixShape shape = {};
  CudaMatrixShape cuda = {};
  shape.kind = MatrixKind::kTransform;
  const LtApi& api = ApiOf<LtApi>(args.real);
  Layout a = ReadLayout(api, args.a_layout);
  Layout b = ReadLayout(api, args.b_layout);
  Layout c = ReadLayout(api, args.c_layout);
  shape.type = a.type;
  shape.trans = CublasOperation(Ask<int32_t>(api.transform, args.description, kTransformTransA, 0));
  shape.m = c.rows;
  shape.n = c.columns;
  shape.lda = a.leading;
  shape.ldb = b.leading;
  shape.ldc = c.leading;
  shape.batch = c.batch;
  bool second = args.b != nullptr;
  cuda.trans_b = second ? CublasOperation(Ask<int32_t>(api.transform, args.description, kTransformTransB, 0)) : '\0';
  cuda.order_a = static_cast<uint8_t>(a.order);
  cuda.order_c = static_cast<uint8_t>(c.order);
  cuda.c_type = c.type;
  cuda.captured = IsCaptured(args.stream);
  new (record->shape()) MatrixShape(shape);
  new (record->shape_behind<MatrixShape>()) CudaMatrixShape(cuda);
  record->SetAddresses(args.a, args.b, args.c);
}

}  // namespace dlhook::inline decode
