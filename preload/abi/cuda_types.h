// Enumerators of CUDA's libraries -> DataType. Pure.
// Sources: library_types.h (CUDA 13.0), cudnn_graph_v9.h (9.24), nccl.h (2.30); numbers have never changed.
#pragma once

#include "preload/hook_arguments.h"

namespace dlhook::inline abi {

// cudaDataType_t
inline DataType CudaType(int64_t type) {
  constexpr DataType kTypes[] = {
      DataType::kF32,     DataType::kF64,     DataType::kF16,     DataType::kS8,      DataType::kC32,
      DataType::kC64,     DataType::kC16,     DataType::kUnknown, DataType::kU8,      DataType::kUnknown,
      DataType::kS32,     DataType::kUnknown, DataType::kU32,     DataType::kUnknown, DataType::kBf16,
      DataType::kCbf16,   DataType::kS4,      DataType::kUnknown, DataType::kU4,      DataType::kUnknown,
      DataType::kS16,     DataType::kUnknown, DataType::kU16,     DataType::kUnknown, DataType::kS64,
      DataType::kUnknown, DataType::kU64,     DataType::kUnknown, DataType::kF8E4m3,  DataType::kF8E5m2,
      DataType::kF8E8m0,  DataType::kUnknown, DataType::kUnknown, DataType::kF4E2m1};
  return type >= 0 && type < static_cast<int64_t>(sizeof kTypes) ? kTypes[type] : DataType::kUnknown;
}

// cudnnDataType_t. INT8x4 and similar types are s8 or u8 with a vector count, see CudnnVectorCount. FAST_FLOAT_FOR_FP8
// is f32 as a compute type.
inline DataType CudnnType(int64_t type) {
  constexpr DataType kTypes[] = {
      DataType::kF32,    DataType::kF64,    DataType::kF16, DataType::kS8,     DataType::kS32,    DataType::kS8,
      DataType::kU8,     DataType::kU8,     DataType::kS8,  DataType::kBf16,   DataType::kS64,    DataType::kBool,
      DataType::kF8E4m3, DataType::kF8E5m2, DataType::kF32, DataType::kF8E8m0, DataType::kF4E2m1, DataType::kS4,
      DataType::kU4,     DataType::kU32,    DataType::kC32, DataType::kC64};
  return type >= 0 && type < static_cast<int64_t>(sizeof kTypes) ? kTypes[type] : DataType::kUnknown;
}

// Elements per vector of a legacy vector type.
inline uint8_t CudnnVectorCount(int64_t type) { return type == 5 || type == 7 ? 4 : type == 8 ? 32 : 1; }

// ncclDataType_t
inline DataType NcclType(int64_t type) {
  constexpr DataType kTypes[] = {DataType::kS8,  DataType::kU8,   DataType::kS32,    DataType::kU32,
                                 DataType::kS64, DataType::kU64,  DataType::kF16,    DataType::kF32,
                                 DataType::kF64, DataType::kBf16, DataType::kF8E4m3, DataType::kF8E5m2};
  return type >= 0 && type < static_cast<int64_t>(sizeof kTypes) ? kTypes[type] : DataType::kUnknown;
}

// Bits of one element; 0 if not known.
inline uint32_t TypeBits(DataType type) {
  switch (type) {
    case DataType::kS4:
    case DataType::kU4:
    case DataType::kF4E2m1:
      return 4;
    case DataType::kS8:
    case DataType::kU8:
    case DataType::kBool:
    case DataType::kF8E4m3:
    case DataType::kF8E5m2:
    case DataType::kF8E8m0:
      return 8;
    case DataType::kF16:
    case DataType::kBf16:
    case DataType::kS16:
    case DataType::kU16:
      return 16;
    case DataType::kF32:
    case DataType::kTf32:
    case DataType::kS32:
    case DataType::kU32:
    case DataType::kC16:
    case DataType::kCbf16:
      return 32;
    case DataType::kF64:
    case DataType::kS64:
    case DataType::kU64:
    case DataType::kC32:
      return 64;
    case DataType::kC64:
      return 128;
    case DataType::kUnknown:
      break;
  }
  return 0;
}

// The time between two CUDA events as queried by the program: how frameworks measure kernels. Pure.
// Thread: any application thread, after the real function has returned.

// Nanoseconds for a time in milliseconds, as the libraries return it; 0 if invalid.
inline uint64_t Nanoseconds(float milliseconds) {
  return milliseconds > 0 && milliseconds < 1e12f ? static_cast<uint64_t>(static_cast<double>(milliseconds) * 1e6 + 0.5)
                                                  : 0;
}

// Needs no shape and 1 address, which holds the nanoseconds.
inline void DecodeElapsed(const ElapsedArgs& args, CallRecord* record) {
  bool known = record->status == 0 && args.out != nullptr;
  record->addresses()[0] = known ? Nanoseconds(*static_cast<const float*>(args.out)) : 0;
}

}  // namespace dlhook::inline abi
