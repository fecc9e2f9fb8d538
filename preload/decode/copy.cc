#include <new>

#include "preload/abi/arguments.h"
#include "preload/base/own_memory.h"
#include "preload/link/library_api.h"
#include "preload/track/cuda_state.h"

namespace dlhook::inline decode {
namespace {

// A hash of some bytes of a copied buffer, so that a report can tell that the same contents are copied again.
// One system call, which reads nothing that does not exist: another thread may have freed the buffer of an asynchronous copy already.
constexpr uint64_t kPieces = 8;
constexpr uint64_t kPieceBytes = 128;
constexpr uint64_t kSampledWords = kPieces * kPieceBytes / 8;

// Of 8 pieces of 128 bytes, spread evenly with the first and the last. 0: not readable, or all of them are the same
// word: then the rest may well differ (padding, masks). `bytes` is at least kLeastSampledBytes.
uint64_t SampleContents(const void* buffer, uint64_t bytes) {
  iovec pieces[kPieces];
  for (uint64_t i = 0; i < kPieces; ++i) {
    uint64_t at = (bytes - kPieceBytes) / (kPieces - 1) * i;
    if (i == kPieces - 1) at = bytes - kPieceBytes;
    pieces[i] = {const_cast<char*>(static_cast<const char*>(buffer)) + at, kPieceBytes};
  }
  uint64_t words[kSampledWords];
  if (CopyOwnPieces(pieces, kPieces, words, sizeof words) != sizeof words) return 0;
  uint64_t hash = 0, differences = 0;
  for (uint64_t word : words) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
    differences |= word ^ words[0];
  }
  if (differences == 0) return 0;
  return hash == 0 ? 1 : hash;
}

bool OnDevice(HostMemory memory) { return memory == HostMemory::kNone; }

// cudaMemcpyDefault and the driver's cuMemcpy: the addresses determine it.
CopyDirection DirectionOf(HostMemory from, HostMemory to) {
  if (from == HostMemory::kUnknown || to == HostMemory::kUnknown) return CopyDirection::kUnknown;
  if (OnDevice(from)) return OnDevice(to) ? CopyDirection::kDeviceToDevice : CopyDirection::kDeviceToHost;
  return OnDevice(to) ? CopyDirection::kHostToDevice : CopyDirection::kHostToHost;
}

// At an address that the call says is the host's.
HostMemory HostSide(const void* address, const void* real) {
  HostMemory memory = HostMemoryAt(address, real);
  return OnDevice(memory) ? HostMemory::kUnknown : memory;
}

CopyDirection FromKind(int32_t kind) {
  static constexpr CopyDirection kDirections[] = {CopyDirection::kHostToHost, CopyDirection::kHostToDevice,
                                                  CopyDirection::kDeviceToHost, CopyDirection::kDeviceToDevice};
  return kind >= 0 && kind <= 3 ? kDirections[kind] : CopyDirection::kUnknown;
}

// Direction and host memory; queries the library only for what the call does not say.
void Classify(CallRecord* record, const void* dst, const void* src, const void* real, CopyShape* shape) {
  shape->host_memory = HostMemory::kNone;
  if (record->status != 0) {  // the addresses may be anything
    shape->host_memory = HostMemory::kUnknown;
    return;
  }
  if (shape->direction == CopyDirection::kUnknown) {
    HostMemory from = HostMemoryAt(src, real);
    HostMemory to = HostMemoryAt(dst, real);
    shape->direction = DirectionOf(from, to);
    shape->host_memory = OnDevice(to) ? from : to;
  } else if (shape->direction == CopyDirection::kHostToDevice || shape->direction == CopyDirection::kHostToHost) {
    shape->host_memory = HostSide(src, real);
  } else if (shape->direction == CopyDirection::kDeviceToHost) {
    shape->host_memory = HostSide(dst, real);
  }
}

// The GPU reads the source of a captured copy later, whenever the graph is launched.
uint64_t ContentsOf(const CopyShape& shape, const void* src) {
  bool is_read = shape.direction == CopyDirection::kHostToDevice && shape.captured == 0 && shape.width_bytes == 0 &&
                 (shape.host_memory == HostMemory::kPageable || shape.host_memory == HostMemory::kPinned);
  return is_read && shape.bytes >= kLeastSampledBytes ? SampleContents(src, shape.bytes) : 0;
}

void StoreEachAddress(CallRecord* record, const void* dst, const void* src, const void* stream) {
  // One store each: combined into a 16-byte store they would wait for the halves just written.
  volatile uint64_t* addresses = record->addresses();
  addresses[0] = Address(dst);
  addresses[1] = Address(src);
  addresses[2] = Address(stream);
}

template <typename T>
T FieldAt(const void* structure, size_t offset) {
  T value;
  memcpy(&value, static_cast<const char*>(structure) + offset, sizeof value);
  return value;
}

// Offsets of the structures' fields in bytes: cuda_runtime_api.h and cuda.h (unchanged from CUDA 8 to 13).
struct StructLayout {
  uint16_t source;  // pointer; in driver structures the host pointer, followed by the device pointer
  uint16_t destination;
  uint16_t extent;  // width, height (, depth)
  uint8_t extents;
  int16_t kind;         // runtime: cudaMemcpyKind; -1: none
  int16_t source_type;  // driver: CUmemorytype; -1: none
  int16_t destination_type;
};
constexpr StructLayout kLayouts[] = {
    {32, 96, 128, 3, 152, -1, -1},   // cudaMemcpy3DParms
    {32, 104, 144, 3, -1, -1, -1},   // cudaMemcpy3DPeerParms
    {24, 80, 112, 2, -1, 16, 72},    // CUDA_MEMCPY2D_v2
    {40, 128, 176, 3, -1, 32, 120},  // CUDA_MEMCPY3D_v2
    {40, 128, 176, 3, -1, 32, 120},  // CUDA_MEMCPY3D_PEER
};
constexpr uint32_t kHostType = 1;    // CU_MEMORYTYPE_HOST
constexpr uint32_t kDeviceType = 2;  // CU_MEMORYTYPE_DEVICE, arrays (3) are on the device too

const void* DriverPointer(const void* structure, uint16_t host, uint32_t type) {
  return FieldAt<const void*>(structure, type == kHostType ? host : host + 8u);
}

CopyDirection FromTypes(uint32_t from, uint32_t to) {
  bool known =
      (from == kHostType || from == kDeviceType || from == 3) && (to == kHostType || to == kDeviceType || to == 3);
  if (!known) return CopyDirection::kUnknown;  // unified: the addresses determine it
  if (from == kHostType) return to == kHostType ? CopyDirection::kHostToHost : CopyDirection::kHostToDevice;
  return to == kHostType ? CopyDirection::kDeviceToHost : CopyDirection::kDeviceToDevice;
}

// CUDA 12.8 and 12.9 have one more parameter before the stream, or before the flags.
template <typename Args>
const void* StreamOf(const Args& args) {
  return reinterpret_cast<const void*>(CudaRuntimeVersion(args.real) < 13000 ? args.last : args.stream);
}

}  // namespace

void DecodeCopy(const CopyArgs& args, CallRecord* record) {
  // Built in place: copied from the stack it would be read in larger pieces than it was written in (store forwarding
  // fails).
  CopyShape& shape = *new (record->shape()) CopyShape{};
  shape.direction = args.direction != CopyDirection::kUnknown ? args.direction : FromKind(args.kind);
  shape.asynchronous = args.asynchronous;
  shape.captured = IsCaptured(args.stream);
  shape.width_bytes = args.width * args.element_bytes;
  shape.height = args.height;
  shape.bytes = args.width != 0 ? shape.width_bytes * args.height : args.bytes + args.count * args.element_bytes;
  shape.source_device = args.src_device;
  shape.destination_device = args.dst_device;
  if (shape.direction < CopyDirection::kPeer) Classify(record, args.dst, args.src, args.real, &shape);
  StoreEachAddress(record, args.dst, args.src, args.stream);
  record->addresses()[3] = ContentsOf(shape, args.src);
}

void DecodeSet3d(const Set3dArgs& args, CallRecord* record) {
  CopyShape& shape = *new (record->shape()) CopyShape{};
  shape.direction = CopyDirection::kSet;
  shape.asynchronous = args.asynchronous;
  shape.captured = IsCaptured(args.stream);
  shape.width_bytes = args.extent.words[0];
  shape.height = args.extent.words[1];
  shape.depth = args.extent.words[2];
  shape.bytes = shape.width_bytes * shape.height * shape.depth;
  StoreEachAddress(record, reinterpret_cast<const void*>(args.pitched.words[0]), nullptr, args.stream);
}

void DecodeCopyStruct(const CopyStructArgs& args, CallRecord* record) {
  CopyShape& shape = *new (record->shape()) CopyShape{};
  shape.asynchronous = args.asynchronous;
  shape.captured = IsCaptured(args.stream);
  if (args.parameters == nullptr) return StoreEachAddress(record, nullptr, nullptr, args.stream);
  const StructLayout& layout = kLayouts[static_cast<int>(args.layout)];
  const void* from = args.parameters;
  shape.width_bytes = FieldAt<uint64_t>(from, layout.extent);
  shape.height = FieldAt<uint64_t>(from, layout.extent + 8u);
  shape.depth = layout.extents == 3 ? FieldAt<uint64_t>(from, layout.extent + 16u) : 0;
  shape.bytes = shape.width_bytes * shape.height * (layout.extents == 3 ? shape.depth : 1);
  const void* src;
  const void* dst;
  if (layout.source_type >= 0) {
    uint32_t source_type = FieldAt<uint32_t>(from, static_cast<size_t>(layout.source_type));
    uint32_t destination_type = FieldAt<uint32_t>(from, static_cast<size_t>(layout.destination_type));
    src = DriverPointer(from, layout.source, source_type);
    dst = DriverPointer(from, layout.destination, destination_type);
    shape.direction = FromTypes(source_type, destination_type);
  } else {
    src = FieldAt<const void*>(from, layout.source);
    dst = FieldAt<const void*>(from, layout.destination);
    // With an array (each precedes its position, 32 bytes before the pointer) the width counts elements whose size the
    // structure does not give: the number of bytes is unknown.
    bool has_array = FieldAt<const void*>(from, layout.source - 32u) != nullptr ||
                     FieldAt<const void*>(from, layout.destination - 32u) != nullptr;
    if (has_array) shape.bytes = shape.width_bytes = 0;
    if (layout.kind >= 0) shape.direction = FromKind(FieldAt<int32_t>(from, static_cast<size_t>(layout.kind)));
  }
  bool peer = args.layout == CopyStruct::kRuntime3dPeer || args.layout == CopyStruct::kDriver3dPeer;
  if (peer) shape.direction = CopyDirection::kPeer;
  if (args.layout == CopyStruct::kRuntime3dPeer) {  // the driver's has contexts instead of devices
    shape.source_device = FieldAt<int32_t>(from, 64);
    shape.destination_device = FieldAt<int32_t>(from, 136);
  }
  if (!peer) Classify(record, dst, src, args.real, &shape);
  StoreEachAddress(record, dst, src, args.stream);
}

void DecodeCopyOperations(const CopyOperationsArgs& args, CallRecord* record) {
  constexpr size_t kOperationBytes = 112, kSource = 8, kDestination = 48, kExtent = 80;
  constexpr uint32_t kArray = 2;  // the type of an operand, 8 bytes before it
  CopyShape& shape = *new (record->shape()) CopyShape{};
  shape.asynchronous = 1;
  shape.captured = IsCaptured(args.stream);
  if (args.count > 1) shape.copies = static_cast<uint32_t>(args.count);
  auto operation = static_cast<const char*>(args.operations);
  if (record->status != 0 || operation == nullptr || args.count == 0) {
    return StoreEachAddress(record, nullptr, nullptr, args.stream);
  }
  auto src = FieldAt<const void*>(operation, kSource);
  auto dst = FieldAt<const void*>(operation, kDestination);
  bool has_array = false;
  for (uint64_t i = 0; i < args.count; ++i, operation += kOperationBytes) {
    auto extent = [&](int axis) { return FieldAt<uint64_t>(operation, kExtent + 8 * static_cast<size_t>(axis)); };
    // With an array the extent counts elements whose size the structure does not give.
    has_array |= FieldAt<uint32_t>(operation, kSource - 8) == kArray;
    has_array |= FieldAt<uint32_t>(operation, kDestination - 8) == kArray;
    shape.bytes += extent(0) * extent(1) * extent(2);
    if (args.count > 1) continue;
    shape.width_bytes = extent(0);
    shape.height = extent(1);
    shape.depth = extent(2);
  }
  if (has_array) {
    shape.bytes = shape.width_bytes = 0;
    shape.host_memory = HostMemory::kUnknown;
  } else {
    Classify(record, dst, src, args.real, &shape);
  }
  StoreEachAddress(record, dst, src, args.stream);
}

void DecodeRuntimeCopyOperations(const RuntimeCopyOperationsArgs& args, CallRecord* record) {
  DecodeCopyOperations({args.operations, args.count, StreamOf(args), args.real}, record);
}

void DecodeCopyBatch(const CopyBatchArgs& args, CallRecord* record) {
  CopyShape& shape = *new (record->shape()) CopyShape{};
  shape.asynchronous = 1;
  shape.captured = IsCaptured(args.stream);
  shape.copies = static_cast<uint32_t>(args.count);
  const void* dst = nullptr;
  const void* src = nullptr;
  if (record->status == 0 && args.count > 0) {
    for (uint64_t i = 0; i < args.count; ++i) shape.bytes += args.bytes[i];
    dst = args.dst[0];
    src = args.src[0];
    Classify(record, dst, src, args.real, &shape);
  }
  StoreEachAddress(record, dst, src, args.stream);
}

void DecodeRuntimeCopyBatch(const RuntimeCopyBatchArgs& args, CallRecord* record) {
  DecodeCopyBatch({args.dst, args.src, args.bytes, args.count, StreamOf(args), args.real}, record);
}

void DecodeAllocation(const AllocationArgs& args, CallRecord* record) {
  AllocationShape shape = {};
  shape.kind = args.kind;
  shape.is_free = args.is_free;
  shape.bytes = args.bytes != 0 ? args.bytes : args.width * args.height;
  new (record->shape()) AllocationShape(shape);
  const void* memory = args.pointer;
  if (args.out != nullptr && record->status == 0) memory = *static_cast<const void* const*>(args.out);
  record->addresses()[0] = Address(memory);
  record->addresses()[1] = Address(args.stream);
}

}  // namespace dlhook::inline decode
