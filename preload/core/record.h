// The records that application threads put into their rings and the drain takes out again.
// Thread: written by the thread that owns the ring, read by the drain (perhaps of another process, perhaps after the
// writer was killed). Plain data that carries its own bytes: no pointer into the host, no id of the host's heap.
#ifndef DLHOOK_PRELOAD_CORE_RECORD_H_
#define DLHOOK_PRELOAD_CORE_RECORD_H_

#include <cstddef>
#include <cstdint>

namespace dlhook {

enum class RecordType : uint8_t {
  kPad = 0,          // fills the end of the ring; `words` says how far to skip
  kCall = 1,         // CallRecord, no shape
  kGemmCall = 2,     // CallRecord + GemmShape (+ GemmGroups) + addresses
  kMatrixCall = 3,   // CallRecord + MatrixShape + addresses
  kTapLine = 4,      // TapLineRecord + text
  kThreadBegin = 5,  // ThreadRecord
  kThreadEnd = 6,    // ThreadRecord
  kMapping = 7,      // MappingRecord + text
  kCapability = 8,   // CapabilityRecord + text
};

// First word of every record.
struct RecordHeader {
  uint16_t words;  // of the whole record, 8 bytes each, this one included; never 0 in a committed record
  RecordType type;
  uint8_t depth;  // number of recorded calls open on this thread around this one
  uint16_t hook;  // HookId
  uint8_t shape_words;
  uint8_t address_count;
};
static_assert(sizeof(RecordHeader) == 8);

// Followed by shape_words words that define the op together with `hook`, then address_count operand addresses.
struct CallRecord {
  RecordHeader header;
  uint64_t start_ticks;
  uint64_t end_ticks;
  uint64_t sequence;         // from 1, given when the call began
  uint32_t parent_distance;  // sequence - parent's sequence; 0: no parent
  int32_t status;            // what the function returned, where it returns a status
  uint64_t caller;           // return address

  uint64_t* shape() { return reinterpret_cast<uint64_t*>(this + 1); }
  uint64_t* addresses() { return shape() + header.shape_words; }
};
static_assert(sizeof(CallRecord) == 48);

// trace::DataType
enum class DataType : uint8_t { kUnknown, kF32, kF64, kC32, kC64, kF16, kBf16, kS8, kU8, kS16, kS32 };

// trace::Gemm::Kind
enum class GemmKind : uint8_t { kGemm, kGemv, kGer, kGemmt, kGemm3m, kCompute, kPack };

// Layout of trace::Gemm; see proto/op.proto for the meaning.
struct GemmShape {
  DataType a_type;
  DataType b_type;
  DataType c_type;
  uint8_t row_major;
  char trans_a;  // 'N', 'T', 'C', 'P'; '?' where the caller passed something else
  char trans_b;
  GemmKind kind;
  uint8_t reserved;
  int64_t m, n, k, lda, ldb, ldc, batch;
};
static_assert(sizeof(GemmShape) == 64);
constexpr uint8_t kGemmShapeWords = sizeof(GemmShape) / 8;

// After GemmShape in calls over several groups of problems.
struct GemmGroups {
  int64_t groups;
  uint64_t flops;
};
constexpr uint8_t kGroupedGemmShapeWords = (sizeof(GemmShape) + sizeof(GemmGroups)) / 8;

// trace::MatrixOp::Kind
enum class MatrixKind : uint8_t { kUnknown, kSymm, kHemm, kSyrk, kHerk, kSyr2k, kHer2k, kTrmm, kTrsm };

// Layout of trace::MatrixOp.
struct MatrixShape {
  MatrixKind kind;
  DataType type;
  uint8_t row_major;
  char side;  // 0 where the function has no such argument
  char uplo;
  char trans;
  char diag;
  uint8_t reserved;
  int64_t m, n, k, lda, ldb, ldc, batch;
};
static_assert(sizeof(MatrixShape) == 64);
constexpr uint8_t kMatrixShapeWords = sizeof(MatrixShape) / 8;

// A line of a library's own log. `text_bytes` of text follow, cut at kMaxTapTextBytes.
struct TapLineRecord {
  RecordHeader header;
  uint64_t end_ticks;
  uint64_t sequence;
  uint32_t parent_distance;
  uint32_t text_bytes;
  uint32_t source;  // which library of the process wrote it (its own template and version lines count), from 1
  uint32_t cut;     // 1: the line was longer
};
constexpr size_t kMaxTapTextBytes = 4096;

struct ThreadRecord {
  RecordHeader header;
  uint64_t ticks;
  uint64_t slot_dropped;  // the slot's count of dropped calls so far: tells this thread's from its predecessor's
  uint32_t thread_id;
  uint32_t tid;
  char name[16];
};

// `text_bytes` of text follow: path, then a NUL, then the detail (see trace::Mapping).
struct MappingRecord {
  RecordHeader header;
  uint64_t start;
  uint64_t end;
  uint32_t role;  // trace::Mapping::Role
  uint32_t text_bytes;
  uint8_t build_id[20];
  uint32_t build_id_bytes;
};

// `text_bytes` of text follow: name NUL object NUL reason; value = trace::Capability::State.
struct CapabilityRecord {
  RecordHeader header;
  uint64_t ticks;
  uint32_t value;
  uint32_t text_bytes;
};

constexpr size_t kMaxRecordBytes = 8192;

}  // namespace dlhook

#endif  // DLHOOK_PRELOAD_CORE_RECORD_H_
