// The time between two CUDA events as queried by the program: how frameworks measure kernels. Pure.
// Thread: any application thread, after the real function has returned.
#pragma once

#include <cstdint>

#include "preload/format/record.h"

namespace dlhook::inline abi {

// Nanoseconds for a time in milliseconds, as the libraries return it; 0 if invalid.
inline uint64_t Nanoseconds(float milliseconds) {
  return milliseconds > 0 && milliseconds < 1e12f ? static_cast<uint64_t>(static_cast<double>(milliseconds) * 1e6 + 0.5)
                                                  : 0;
}

struct ElapsedArgs {
  const void* out = nullptr;  // float*, milliseconds
};

// Needs no shape and 1 address, which holds the nanoseconds.
inline void DecodeElapsed(const ElapsedArgs& args, CallRecord* record) {
  bool known = record->status == 0 && args.out != nullptr;
  record->addresses()[0] = known ? Nanoseconds(*static_cast<const float*>(args.out)) : 0;
}

}  // namespace dlhook::inline abi
