// Handles and tensors are opaque: their structures are in libxsmm_main.h, which is part of the library's own sources. They are read as
// release 1.17 has them, and only if what is read agrees with itself; else the call stays a timed one.
#include <stdio.h>

#include "preload/decode/gemm.h"
#include "preload/hook_arguments.h"
#include "preload/link/library_api.h"
#include "preload/runtime/jit_names.h"
#include "preload/runtime/registry.h"
#include "preload/runtime/thread_state.h"

namespace dlhook::inline decode {
namespace {

// libxsmm_datatype
DataType TypeOf(int32_t type) {
  constexpr DataType kTypes[] = {DataType::kF64, DataType::kF32, DataType::kBf16, DataType::kS64,
                                 DataType::kS32, DataType::kS16, DataType::kS8};
  return type >= 0 && type < 7 ? kTypes[type] : DataType::kUnknown;
}

char TransOf(const char* trans) { return trans == nullptr ? 'N' : FortranOption(trans); }

int64_t Or(const int32_t* value, int64_t otherwise) { return value == nullptr ? otherwise : *value; }

// Leading dimensions that are not given: those of matrices without gaps.
void SetLeading(const int32_t* lda, const int32_t* ldb, const int32_t* ldc, GemmArgs* gemm) {
  gemm->lda = Or(lda, gemm->trans_a == 'N' ? gemm->m : gemm->k);
  gemm->ldb = Or(ldb, gemm->trans_b == 'N' ? gemm->k : gemm->n);
  gemm->ldc = Or(ldc, gemm->m);
}

GemmShape* StoreProduct(const GemmArgs& gemm, CallRecord* record) {
  return new (record->shape())
      GemmShape{gemm.a_type, gemm.b_type, gemm.c_type, 0,        gemm.trans_a, gemm.trans_b, gemm.kind, 0,
                gemm.m,      gemm.n,      gemm.k,      gemm.lda, gemm.ldb,     gemm.ldc,     gemm.batch};
}

// libxsmm_mmkernel_info, libxsmm_kernel_info
struct KernelInfo {
  int32_t input, output;
  int32_t prefetch;
  int32_t lda, ldb, ldc;
  int32_t m, n, k;
  int32_t flags;
};
struct CodeInfo {
  int32_t kind;
  uint32_t operations;
  uint64_t bytes;
};

struct KernelApi : FunctionTable {
  using FunctionTable::FunctionTable;
  int (*info)(uint64_t kernel, KernelInfo* info) = Find("libxsmm_get_mmkernel_info");
  int (*code)(uint64_t kernel, CodeInfo* info) = Find("libxsmm_get_kernel_info");
};

constexpr int32_t kFlagTransA = 1, kFlagTransB = 2;  // libxsmm_gemm_flags

// The shape behind a kernel made from a descriptor. False: the library does not tell it.
bool AskShape(const void* real, uint64_t kernel, GemmArgs* gemm) {
  KernelInfo info = {};
  if (kernel == 0 || !Query(ApiOf<KernelApi>(real).info, kernel, &info)) return false;
  gemm->a_type = gemm->b_type = TypeOf(info.input);
  gemm->c_type = TypeOf(info.output);
  gemm->trans_a = (info.flags & kFlagTransA) != 0 ? 'T' : 'N';
  gemm->trans_b = (info.flags & kFlagTransB) != 0 ? 'T' : 'N';
  gemm->m = info.m;
  gemm->n = info.n;
  gemm->k = info.k;
  SetLeading(&info.lda, &info.ldb, &info.ldc, gemm);
  return true;
}

// Kernels that LIBXSMM handed out, which are never freed.
struct KnownKernel {
  std::atomic<uint64_t> address;  // 0: free
  std::atomic<uint64_t> ticks;    // when it was handed out first
};
// Of kernels beyond its capacity all count as known.
constexpr uint32_t kKernels = 16384;
KnownKernel g_kernels[kKernels];

// The kernel's place, or a free one, or null: there is no room.
KnownKernel* PlaceOf(uint64_t address) {
  uint64_t start = (address * 0x9e3779b97f4a7c15u) >> 50;
  for (uint64_t i = 0; i < 64; ++i) {
    KnownKernel& place = g_kernels[(start + i) % kKernels];
    uint64_t found = place.address.load(std::memory_order_acquire);
    if (found == address || found == 0) return &place;
  }
  return nullptr;
}

// Whether it was handed out before this time.
bool IsKnown(uint64_t kernel, uint64_t ticks) {
  if (kernel == 0) return false;
  const KnownKernel* place = PlaceOf(kernel);
  if (place == nullptr) return true;
  // Functions for a type call the one for all types, which was first.
  return place->address.load(std::memory_order_acquire) != 0 && place->ticks.load(std::memory_order_relaxed) < ticks;
}

// "libxsmm_kernel_f32_16x12x10", for samples: LIBXSMM's own perf map is not in Debian's build.
void NameCode(uint64_t kernel, const void* real) {
  constexpr uint64_t kMostBytes = 1 << 20;
  const KernelApi& api = ApiOf<KernelApi>(real);
  CodeInfo code = {};
  KernelInfo info = {};
  char name[96] = "libxsmm_kernel";
  if (!Query(api.code, kernel, &code) || code.bytes == 0 || code.bytes > kMostBytes) return;
  if (Query(api.info, kernel, &info) && TypeOf(info.input) != DataType::kUnknown)
    snprintf(name, sizeof name, "libxsmm_kernel_%s_%dx%dx%d", EnumName(TypeOf(info.input)), info.m, info.n, info.k);
  AddJitName(kernel, code.bytes, name);
}

// Where the description is in a handle, and what of it can be checked. Indices are of its numbers, -1: it has none. Nothing is read
// of layers that no program is known to use.
struct LayerForm {
  int offset;    // in bytes
  int count;     // of numbers
  int positive;  // so many at the beginning are sizes
  int threads;
  int input, output;  // data types
  int buffer_format, filter_format;
};
constexpr LayerForm kForms[] = {
    {},
    {8, 23, 9, 15, 16, 17, 18, 19},  // convolution
    {0, 12, 3, 6, 7, 8, 9, 10},      // fully connected
    {},                              // fused batch norm
    {},                              // fused group norm
    {0, 20, 8, 14, 15, 16, 18, -1},  // pooling
    {},                              // RNN cell
    {},                              // softmax loss
    {0, 10, 2, 5, 7, 8, -1, 9},      // optimizer
};

bool IsFormat(int32_t format) { return format > 0 && format < 512; }  // bits of libxsmm_dnn_tensor_format

bool IsPlausible(const LayerForm& form, const int32_t* numbers) {
  for (int i = 0; i < form.positive; ++i) {
    if (numbers[i] < 1) return false;
  }
  if (numbers[form.threads] < 1 || numbers[form.threads] > 65536) return false;
  if (TypeOf(numbers[form.input]) == DataType::kUnknown) return false;
  if (TypeOf(numbers[form.output]) == DataType::kUnknown) return false;
  if (form.buffer_format >= 0 && !IsFormat(numbers[form.buffer_format])) return false;
  return form.filter_format < 0 || IsFormat(numbers[form.filter_format]);
}

// libxsmm_dnn_layer: types, description, algorithm, formats, fused operations, options, sizes that follow from the description.
bool AgreesWithItself(const int32_t* handle, const int32_t* d) {
  const int32_t* after = handle + 2 + 23;
  return handle[0] == d[16] && handle[1] == d[17] && after[1] == d[18] && after[2] == d[19] && after[3] == d[22] &&
         after[4] == d[21] && after[5] == d[2] + 2 * d[11] && after[6] == d[3] + 2 * d[12] &&
         after[7] == (d[2] + 2 * d[9] - d[5]) / d[7] + 1 && after[8] == (d[3] + 2 * d[10] - d[6]) / d[8] + 1;
}

void ReadLayer(const void* handle, LibxsmmShape* shape) {
  const LayerForm& form = kForms[static_cast<int>(shape->layer)];
  if (handle == nullptr || form.count == 0) return;
  auto memory = static_cast<const int32_t*>(handle);
  const int32_t* numbers = memory + form.offset / 4;
  if (!IsPlausible(form, numbers)) return;
  bool is_convolution = shape->layer == LibxsmmLayer::kConvolution;
  if (is_convolution && !AgreesWithItself(memory, numbers)) return;
  memcpy(shape->numbers, numbers, static_cast<size_t>(form.count) * sizeof *numbers);
  // The algorithm that was chosen, where the program leaves it to the library.
  if (is_convolution) shape->numbers[20] = memory[2 + 23];
  shape->count = static_cast<uint8_t>(form.count);
}

// libxsmm_dnn_compute_kind
LibxsmmPass PassOf(int32_t kind) {
  return kind >= 0 && kind <= 3 ? static_cast<LibxsmmPass>(kind + 1) : LibxsmmPass::kUnknown;
}

// libxsmm_dnn_tensor_datalayout, a public structure; libxsmm_dnn_tensor, which begins with a pointer to it and one to the data.
struct TensorLayout {
  const int32_t* dim_type;
  const uint32_t* dim_size;
  uint32_t dims;
  int32_t format;
  int32_t type;
  int32_t tensor_type;
};
struct XsmmTensor {
  const TensorLayout* layout;
  const void* data;
};

struct TensorApi : FunctionTable {
  using FunctionTable::FunctionTable;
  const void* (*data)(const void* tensor, uint32_t* status) = Find("libxsmm_dnn_get_tensor_data_ptr");
};

void ReadCopy(const LibxsmmCopyArgs& args, LibxsmmShape* shape) {
  const TensorApi& api = ApiOf<TensorApi>(args.real);
  auto tensor = static_cast<const XsmmTensor*>(args.tensor);
  uint32_t status = 0;
  if (tensor == nullptr || api.data == nullptr) return;
  if (api.data(tensor, &status) != tensor->data || status != 0 || tensor->layout == nullptr) return;
  const TensorLayout& layout = *tensor->layout;
  constexpr uint32_t kBefore = 3, kMaxDims = (LibxsmmShape::kNumbers - kBefore) / 2;
  if (layout.dims == 0 || layout.dims > kMaxDims || TypeOf(layout.type) == DataType::kUnknown) return;
  int32_t* out = shape->numbers;
  *out++ = args.plain_format;
  *out++ = layout.type;
  *out++ = layout.tensor_type;
  for (uint32_t i = 0; i < layout.dims; ++i) {
    *out++ = layout.dim_type[i];
    *out++ = static_cast<int32_t>(layout.dim_size[i]);
  }
  shape->count = static_cast<uint8_t>(out - shape->numbers);
}

}  // namespace

void DecodeLibxsmmGemm(const LibxsmmGemmArgs& args, CallRecord* record) {
  GemmArgs gemm = GemmArgs::Like(args);
  gemm.a_type = gemm.b_type = args.input_precision < 0 ? args.input : TypeOf(args.input_precision);
  gemm.c_type = args.output_precision < 0 ? args.output : TypeOf(args.output_precision);
  gemm.trans_a = TransOf(args.trans_a);
  gemm.trans_b = TransOf(args.trans_b);
  gemm.m = Or(args.m, 0);
  gemm.k = Or(args.k, gemm.m);
  gemm.n = Or(args.n, gemm.k);
  SetLeading(args.lda, args.ldb, args.ldc, &gemm);
  DecodeGemm(gemm, record);
}

void DecodeLibxsmmBatch(const LibxsmmBatchArgs& args, CallRecord* record) {
  GemmArgs gemm = GemmArgs::Like(args);
  gemm.a_type = gemm.b_type = TypeOf(args.input_precision);
  gemm.c_type = TypeOf(args.output_precision);
  gemm.trans_a = TransOf(args.trans_a);
  gemm.trans_b = TransOf(args.trans_b);
  SetLeading(args.lda, args.ldb, args.ldc, &gemm);
  // As libxsmm_mmbatch_kernel divides them.
  int64_t size = args.batch < 0 ? -args.batch : args.batch;
  int64_t threads = args.threads < 1 ? 1 : args.threads;
  int64_t part = (size + threads - 1) / threads;
  int64_t left = size - part * args.thread;
  gemm.batch = left < 0 ? 0 : left < part ? left : part;
  StoreProduct(gemm, record);
}

void DecodeLibxsmmKernel(const LibxsmmKernelArgs& args, CallRecord* record) {
  GemmArgs gemm = GemmArgs::Like(args);
  gemm.kind = GemmKind::kDispatch;
  gemm.a_type = gemm.b_type = args.input;
  gemm.c_type = args.output;
  int64_t flags = Or(args.flags, 0);
  gemm.trans_a = (flags & kFlagTransA) != 0 ? 'T' : 'N';
  gemm.trans_b = (flags & kFlagTransB) != 0 ? 'T' : 'N';
  SetLeading(args.lda, args.ldb, args.ldc, &gemm);
  if (args.input == DataType::kUnknown) AskShape(args.real, args.result, &gemm);
  StoreProduct(gemm, record)->cache_hit = IsKnown(args.result, record->start_ticks);
}

// Notes which kernels were handed out, and that calls through their pointers are not seen. A lock is taken for the first
// kernel that the program itself asks for, and, where samples are taken, for new ones, whose names go into a file.
void TrackLibxsmmKernel(const LibxsmmKernelArgs& args) {
  const ThreadState* thread = dlhook_thread;
  if (args.result == 0 || thread == nullptr) return;
  KnownKernel* place = PlaceOf(args.result);
  if (place != nullptr && place->address.load(std::memory_order_relaxed) == 0) {
    // Two threads that want one place: the other's kernel counts as new once more.
    place->ticks.store(ReadTicks(thread->clock), std::memory_order_relaxed);
    place->address.store(args.result, std::memory_order_release);
    if (thread->session->sample_interval_ns != 0) NameCode(args.result, args.real);
  }
  // Inside another call it is LIBXSMM that calls the kernel, for what that call computes.
  static std::atomic<bool> is_said{false};
  if (thread->depth != 0 || is_said.load(std::memory_order_relaxed) || is_said.exchange(true)) return;
  ReportCapability("libxsmm-kernels", "", CapabilityState::kAbsent,
                   "the program calls kernels through pointers, which no hook sees");
}

void DecodeLibxsmmLayer(const LibxsmmLayerArgs& args, CallRecord* record) {
  auto shape = new (record->shape()) LibxsmmShape{};
  shape->layer = args.layer;
  shape->creation = args.creation;
  shape->pass = args.layer == LibxsmmLayer::kOptimizer ? LibxsmmPass::kUpdate : PassOf(args.kind);
  // Every thread of a parallel region calls with a number of its own, counted from start_thread: the first one computes always.
  shape->share = !args.creation && args.tid != args.start_thread;
  if (record->status == 0) ReadLayer(args.creation ? reinterpret_cast<const void*>(args.result) : args.handle, shape);
}

void DecodeLibxsmmCopy(const LibxsmmCopyArgs& args, CallRecord* record) {
  auto shape = new (record->shape()) LibxsmmShape{};
  shape->layer = args.layer;
  ReadCopy(args, shape);
}

}  // namespace dlhook::inline decode
