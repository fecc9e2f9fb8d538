// The records that application threads put into their rings and the drain takes out.
// Thread: written by the thread that owns the ring, read by the drain (possibly of another process, possibly after the
// writer was killed). Self-contained plain data: no pointers into the host.
#pragma once

#include "preload/proto_fields.h"

namespace dlhook::inline format {

enum class RecordType : uint8_t {
  kPad = 0,          // fills the end of the ring; `words` is the number to skip
  kCall = 1,         // CallRecord, no shape
  kGemmCall = 2,     // CallRecord + GemmShape (+ GemmGroups) + addresses
  kMatrixCall = 3,   // CallRecord + MatrixShape + addresses
  kTapLine = 4,      // TapLineRecord + text
  kThreadBegin = 5,  // ThreadRecord
  kThreadEnd = 6,    // ThreadRecord
  kMapping = 7,      // MappingRecord + text
  kCapability = 8,   // CapabilityRecord + text
  // CallRecord + the named shape + addresses. All following types are calls.
  kCudaGemmCall = 9,     // CudaGemmShape (+ GemmGroups)
  kCopyCall = 10,        // CopyShape
  kLaunchCall = 11,      // LaunchShape
  kCudnnCall = 12,       // CudnnShape
  kPlanCall = 13,        // PlanShape
  kSearchCall = 14,      // SearchShape
  kCollectiveCall = 15,  // CollectiveShape
  kAllocationCall = 16,  // AllocationShape
  kScope = 32,           // ScopeRecord + name
  kPythonStack = 33,     // PythonStackRecord
  kPythonModule = 34,    // PythonModuleRecord + texts
  kCounters = 35,        // CounterRecord + values
  kGpuActivity = 36,     // GpuActivityRecord
  kGpuLink = 37,         // GpuLinkRecord
  kGpuGraphNode = 38,    // GpuGraphNodeRecord
  kGpuDevice = 39,       // GpuDeviceRecord + name
  kGpuWindow = 40,       // GpuWindowRecord + text
  kCallTotals = 41,      // CallTotalsRecord + a call's record (format/call_totals.h)
  kCompiledCode = 42,    // CompiledCodeRecord + text
  kProfile = 43,         // ProfileRecord + bytes
  kSample = 44,          // SampleRecord
  kMemory = 45,          // MemoryRecord
};

inline bool IsCall(RecordType type) {
  return (type >= RecordType::kCall && type <= RecordType::kMatrixCall) ||
         (type >= RecordType::kCudaGemmCall && type <= RecordType::kAllocationCall);
}

// First word of every record.
struct RecordHeader {
  uint16_t words;  // of the whole record, 8 bytes each, including this one; never 0 in a committed record
  RecordType type;
  uint8_t depth;  // number of recorded calls open around this one on this thread
  uint16_t hook;  // HookId
  uint8_t shape_words;
  uint8_t address_count;
};
static_assert(sizeof(RecordHeader) == 8);

// Of a call's shape, which may be one struct behind another. No part has padding: what is in it tells ops apart.
template <typename... Parts>
constexpr uint8_t kWords = (sizeof(Parts) + ...) / 8;

// Followed by shape_words words that, together with `hook`, define the op, then address_count operand addresses, then,
// if header.words includes one more, a CallTrailer.
struct CallRecord {
  RecordHeader header;
  uint64_t start_ticks;
  uint64_t end_ticks;
  uint64_t sequence;         // from 1, assigned when the call began
  uint32_t parent_distance;  // sequence - parent's sequence; 0: no parent
  int32_t status;            // the returned status, if the function returns one

  uint64_t* shape() { return reinterpret_cast<uint64_t*>(this + 1); }
  template <typename First>
  uint64_t* shape_behind() {
    return shape() + kWords<First>;
  }
  uint64_t* addresses() { return shape() + header.shape_words; }
  // Of three operands; null: the function lacks it.
  void SetAddresses(const void* a, const void* b, const void* c) {
    addresses()[0] = reinterpret_cast<uintptr_t>(a);
    addresses()[1] = reinterpret_cast<uintptr_t>(b);
    addresses()[2] = reinterpret_cast<uintptr_t>(c);
  }
};
static_assert(sizeof(CallRecord) == 40);

// Present only in some calls (process/call_detail.cc).
struct CallTrailer {
  uint32_t native_stack;  // StackNode of the innermost frame (format/stack_nodes.h), 0: none
  uint32_t reserved;
};
static_assert(sizeof(CallTrailer) == 8);

using DataType = fields::DataType;

// Bits of one element; 0 if not known. In the order of the enum.
inline uint32_t TypeBits(DataType type) {
  constexpr uint8_t kBits[] = {0, 32, 64, 64, 128, 16, 16, 8,  8,  16, 32, 64, 8,
                               8, 8,  4,  32, 8,   4,  4,  32, 16, 32, 64, 32};
  static_assert(sizeof kBits == static_cast<int>(DataType::kCbf16) + 1);
  return static_cast<size_t>(type) < sizeof kBits ? kBits[static_cast<size_t>(type)] : 0;
}

using GemmKind = fields::Gemm::Kind;

// Layout of trace::Gemm; see proto/op.proto for the meaning.
struct GemmShape {
  DataType a_type;
  DataType b_type;
  DataType c_type;
  uint8_t row_major;
  char trans_a;  // 'N', 'T', 'C', 'P'; '?' if the caller passed something else
  char trans_b;
  GemmKind kind;
  uint8_t reserved;
  int64_t m, n, k, lda, ldb, ldc, batch;
};
static_assert(sizeof(GemmShape) == 64);

// After GemmShape in calls over several groups of problems.
struct GemmGroups {
  int64_t groups;
  uint64_t flops;
};

using MatrixKind = fields::MatrixOp::Kind;

// Layout of trace::MatrixOp.
struct MatrixShape {
  MatrixKind kind;
  DataType type;
  uint8_t row_major;
  char side;  // 0 if the function has no such argument
  char uplo;
  char trans;
  char diag;
  uint8_t reserved;
  int64_t m, n, k, lda, ldb, ldc, batch;
};
static_assert(sizeof(MatrixShape) == 64);

// After MatrixShape in the calls of CUDA's libraries.
struct CudaMatrixShape {
  char trans_b;
  uint8_t order_a;  // cublasLtOrder_t + 1, 0: none
  uint8_t order_c;
  DataType c_type;
  uint8_t captured;
  uint8_t reserved[3];
  int64_t nonzeros;
};

using Chooser = fields::Chooser;

// Layout of trace::CudaGemm; see proto/op.proto. int16 numbers: -1 if none.
struct CudaGemmShape {
  GemmShape gemm;
  uint8_t lt;
  uint8_t captured;
  uint8_t fast_accumulation;
  Chooser chooser;
  uint8_t order_a;
  uint8_t order_b;
  uint8_t order_d;
  uint8_t alignment_log2;
  int16_t compute_type;
  int16_t scale_type;
  int16_t math_mode;
  int16_t heuristic_rank;
  int32_t algorithm;
  uint32_t epilogue;
  uint16_t tile;
  uint16_t stages;
  uint16_t split_k;
  uint16_t reduction;
  uint16_t swizzle;
  uint16_t custom_option;
  uint16_t inner_shape;
  uint16_t cluster_shape;
  uint16_t heuristic_requested;
  uint16_t heuristic_results;
  uint8_t scale_mode_a;
  uint8_t scale_mode_b;
  uint8_t scale_mode_d;
  uint8_t reserved;
  uint64_t workspace_bytes;
};
static_assert(sizeof(CudaGemmShape) == 120);

using CopyDirection = fields::Copy::Direction;
using HostMemory = fields::Copy::HostMemory;

// Layout of trace::Copy.
struct CopyShape {
  CopyDirection direction;
  HostMemory host_memory;
  uint8_t asynchronous;
  uint8_t captured;
  uint32_t copies;
  uint64_t bytes, width_bytes, height, depth;
  int32_t source_device;
  int32_t destination_device;
};
static_assert(sizeof(CopyShape) == 48);
constexpr uint64_t kLeastSampledBytes = 256 * 1024;  // of a copy whose contents are sampled, which takes 4 us

// Layout of trace::KernelLaunch. `kernel` is a definition (format/definitions.h), 0: not known.
struct LaunchShape {
  uint32_t kernel;
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t shared_bytes;
  uint8_t cooperative;
  uint8_t captured;
  uint8_t cluster[3];
  uint8_t programmatic;
  int8_t priority;
  uint8_t reserved;
};
static_assert(sizeof(LaunchShape) == 40);

using CudnnOperation = fields::Cudnn::Operation;
using TensorRole = fields::CudnnTensor::Role;

struct CudnnTensorShape {
  TensorRole role;  // kUnknown: absent
  DataType type;
  uint8_t dims;
  uint8_t vector_count;
  int32_t dim[8];
  int32_t stride[8];
};
static_assert(sizeof(CudnnTensorShape) == 68);

// Layout of a legacy trace::Cudnn. -1 if the function has no such number.
struct CudnnShape {
  static constexpr int kTensors = 5;
  CudnnOperation operation;
  uint8_t spatial_dims;
  DataType compute_type;
  uint8_t captured;
  int32_t algorithm;
  int32_t math_type;
  int32_t mode;
  int32_t groups;
  int32_t convolution_mode;
  int32_t pad[3];
  int32_t stride[3];
  int32_t dilation[3];
  uint32_t reserved;
  uint64_t workspace_bytes;
  CudnnTensorShape tensors[kTensors];
  uint32_t reserved2;
};
static_assert(sizeof(CudnnShape) == 72 + 5 * 68 + 4);

// An executed plan of the graph API: a definition with a serialized trace::Cudnn; 0: not known.
struct PlanShape {
  uint32_t plan;
  uint8_t pack_seen_before;
  uint8_t captured;
  uint8_t reserved[2];
};

// Layout of trace::CudnnSearch.
struct SearchCandidate {
  int32_t algorithm;
  int32_t status;
  uint64_t time_ns;
  uint64_t workspace_bytes;
  int32_t determinism;
  int32_t math_type;
};
struct SearchShape {
  static constexpr int kCandidates = 8;
  CudnnShape problem;
  uint8_t measured;
  uint8_t candidate_count;
  uint16_t requested;
  uint32_t reserved;
  SearchCandidate candidates[kCandidates];
};
static_assert(sizeof(SearchShape) % 8 == 0);

using CollectiveKind = fields::Collective::Kind;
struct CollectiveShape {
  CollectiveKind kind;
  DataType data_type;
  uint8_t blocking;
  uint8_t captured;
  int32_t reduction;
  int32_t peer;
  int32_t rank;
  int32_t ranks;
  uint32_t communicator;
  uint64_t bytes;
  uint64_t count;
};
static_assert(sizeof(CollectiveShape) == 40);

using AllocationKind = fields::Allocation::Kind;
struct AllocationShape {
  AllocationKind kind;
  uint8_t is_free;
  uint8_t reserved[6];
  uint64_t bytes;
};

// A line of a library's own log. Followed by `text_bytes` of text, truncated at kMaxTapTextBytes.
struct TapLineRecord {
  RecordHeader header;
  uint64_t end_ticks;
  uint64_t sequence;
  uint32_t parent_distance;
  uint32_t text_bytes;
  uint32_t source;        // the library of the process that wrote it (which has its own template and version lines),
                          // from 1
  uint32_t cut;           // 1: the line was longer
  uint32_t native_stack;  // as CallTrailer's
  uint32_t reserved;
};
constexpr size_t kMaxTapTextBytes = 4096;

using ScopeKind = fields::ScopeBatch::Kind;

// A scope that ended. Followed by `name_bytes` of its name, truncated at kMaxScopeNameBytes.
struct ScopeRecord {
  RecordHeader header;  // depth: number of scopes open around it
  uint64_t start_ticks;
  uint64_t end_ticks;
  uint64_t first_sequence;  // which the first call inside had or would have had; 0: not known
  int64_t link;             // -1: none
  uint32_t call_count;
  uint32_t python_stack;  // definition, 0: none
  uint16_t name_bytes;
  ScopeKind kind;
  uint8_t cut;  // 1: the name was longer
  uint32_t reserved;
};
static_assert(sizeof(ScopeRecord) == 56);
constexpr size_t kMaxScopeNameBytes = 1024;

// What a framework's allocator gave out or took back. header.hook: the device, as in trace::MemoryBatch.
struct MemoryRecord {
  RecordHeader header;
  uint64_t ticks;
  uint64_t address;
  uint64_t bytes;  // 0: freed
  // Only of GPUs: the allocator's totals after this.
  uint64_t allocated;
  uint64_t reserved;
};
static_assert(sizeof(MemoryRecord) == 48);

// From here on calls of this thread without the stack of a scope were made under this one (a definition; 0: not known).
struct PythonStackRecord {
  RecordHeader header;
  uint32_t python_stack;
  uint32_t reserved;
};

// trace::PythonModule. Followed by `text_bytes`: type NUL name NUL name NUL …
struct PythonModuleRecord {
  RecordHeader header;
  uint32_t object;
  uint32_t root;
  uint32_t parent;
  uint32_t text_bytes;
};

// trace::CompiledCode. Followed by `text_bytes`: its fields as text (numbers in decimal), in their order, each with a NUL.
struct CompiledCodeRecord {
  RecordHeader header;
  uint32_t text_bytes;
  uint32_t reserved;
};

using CounterSource = fields::CounterBatch::Source;

// A reading by the thread itself. Followed by header.shape_words values: as many as `set` has names.
struct CounterRecord {
  RecordHeader header;
  uint64_t ticks;
  uint32_t set;  // a definition (kText): names of counters, separated by commas
  CounterSource source;
  uint8_t is_process;  // 1: for the whole process, not the thread
  uint8_t reserved[2];
  uint64_t enabled_ns;  // both 0 if nothing is multiplexed
  uint64_t running_ns;
};
static_assert(sizeof(CounterRecord) == 40);
constexpr uint32_t kMaxCountersOfSet = 16;

struct ThreadRecord {
  RecordHeader header;
  uint64_t ticks;
  uint64_t slot_dropped;  // the slot's count of dropped calls so far: separates this thread's from its predecessor's
  uint32_t thread_id;
  uint32_t tid;
  uint64_t handle;  // pthread_t
  char name[16];
};

// Followed by `text_bytes` of text: path, then a NUL, then the detail (see trace::Mapping).
struct MappingRecord {
  RecordHeader header;
  uint64_t start;
  uint64_t end;
  uint32_t role;  // trace::Mapping::Role
  uint32_t text_bytes;
  uint8_t build_id[20];
  uint32_t build_id_bytes;
};

// Followed by `text_bytes` of text: name NUL object NUL reason; value = trace::Capability::State.
struct CapabilityRecord {
  RecordHeader header;
  uint64_t ticks;
  uint32_t value;
  uint32_t text_bytes;
};

using ProfileKind = fields::CompilerProfile::Kind;

// A piece of trace::CompilerProfile. Followed by `text_bytes` of it.
struct ProfileRecord {
  RecordHeader header;
  ProfileKind kind;
  uint8_t reserved[3];
  uint32_t number;
  uint64_t total_bytes;
  uint64_t offset;
  uint64_t start_ticks;
  uint64_t end_ticks;
  uint32_t text_bytes;
  uint32_t reserved2;
};
static_assert(sizeof(ProfileRecord) == 56);

using SampleState = fields::SampleBatch::State;

// Where a thread computed when some of its CPU time had passed. header.depth: recorded calls open on it.
struct SampleRecord {
  RecordHeader header;
  uint64_t ticks;
  uint64_t address;       // of the interrupted instruction; 0: not known
  uint32_t native_stack;  // StackNode of the frame outside of it, 0: none
  uint32_t python_stack;  // definition, 0: none
  uint32_t intervals;     // of CPU time that it stands for
  SampleState state;
  uint8_t cut;  // StackCut: why there is no frame outside
  uint8_t reserved[2];
};
static_assert(sizeof(SampleRecord) == 40);

constexpr size_t kMaxRecordBytes = 8192;

}  // namespace dlhook::inline format
