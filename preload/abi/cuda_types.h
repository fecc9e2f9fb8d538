// Enumerators of CUDA's libraries -> DataType. Pure.
// Sources: library_types.h (CUDA 13.0), cudnn_graph_v9.h (9.24), nccl.h (2.30); numbers have never changed.
#pragma once

#include "preload/hook_arguments.h"

namespace dlhook::inline abi {

// cudaDataType_t
inline DataType CudaType(int64_t type) {
  using enum DataType;
  constexpr DataType kTypes[] = {kF32,     kF64,     kF16,     kS8,      kC32,     kC64,     kC16,   kUnknown, kU8,
                                 kUnknown, kS32,     kUnknown, kU32,     kUnknown, kBf16,    kCbf16, kS4,      kUnknown,
                                 kU4,      kUnknown, kS16,     kUnknown, kU16,     kUnknown, kS64,   kUnknown, kU64,
                                 kUnknown, kF8E4m3,  kF8E5m2,  kF8E8m0,  kUnknown, kUnknown, kF4E2m1};
  return type >= 0 && type < static_cast<int64_t>(sizeof kTypes) ? kTypes[type] : kUnknown;
}

// cudnnDataType_t. INT8x4 and similar types are s8 or u8 with a vector count, see CudnnVectorCount. FAST_FLOAT_FOR_FP8
// is f32 as a compute type.
inline DataType CudnnType(int64_t type) {
  using enum DataType;
  constexpr DataType kTypes[] = {kF32,  kF64,    kF16,    kS8,  kS32,    kS8,     kU8, kU8, kS8,  kBf16, kS64,
                                 kBool, kF8E4m3, kF8E5m2, kF32, kF8E8m0, kF4E2m1, kS4, kU4, kU32, kC32,  kC64};
  return type >= 0 && type < static_cast<int64_t>(sizeof kTypes) ? kTypes[type] : kUnknown;
}

// Elements per vector of a legacy vector type.
inline uint8_t CudnnVectorCount(int64_t type) { return type == 5 || type == 7 ? 4 : type == 8 ? 32 : 1; }

// ncclDataType_t
inline DataType NcclType(int64_t type) {
  using enum DataType;
  constexpr DataType kTypes[] = {kS8, kU8, kS32, kU32, kS64, kU64, kF16, kF32, kF64, kBf16, kF8E4m3, kF8E5m2};
  return type >= 0 && type < static_cast<int64_t>(sizeof kTypes) ? kTypes[type] : kUnknown;
}

// The time between two CUDA events as queried by the program: how frameworks measure kernels. Pure.
// Thread: any application thread, after the real function has returned.

// Nanoseconds for a time in milliseconds, as the libraries return it; 0 if invalid.
inline uint64_t Nanoseconds(float milliseconds) {
  return milliseconds > 0 && milliseconds < 1e12f ? static_cast<uint64_t>(static_cast<double>(milliseconds) * 1e6 + 0.5)
                                                  : 0;
}

// The address holds the nanoseconds.
inline void DecodeElapsed(const ElapsedArgs& args, CallRecord* record) {
  bool known = record->status == 0 && args.out != nullptr;
  record->addresses()[0] = known ? Nanoseconds(*static_cast<const float*>(args.out)) : 0;
}

}  // namespace dlhook::inline abi
