// Structures that hooked functions take by value, known only by size and class: the wrappers pass them on unchanged.
// Thread: any. Plain data; no field of the memory classes is read.
#pragma once

#include <cstdint>

namespace dlhook::inline abi {

// CUDA's dim3: 12 bytes, in two registers if available, else on the stack.
struct Dim3 {
  uint32_t x, y, z;
};

// Two integer registers.
struct Struct16 {
  uint64_t words[2];
};

// Larger ones are on the stack (System V class MEMORY), so only the size matters.
template <int kBytes>
struct StackStruct {
  uint64_t words[kBytes / 8];
};
using Struct24 = StackStruct<24>;
using Struct32 = StackStruct<32>;
using Struct64 = StackStruct<64>;
using Struct128 = StackStruct<128>;

static_assert(sizeof(Dim3) == 12 && sizeof(Struct16) == 16 && sizeof(Struct24) == 24);
static_assert(sizeof(Struct32) == 32 && sizeof(Struct64) == 64 && sizeof(Struct128) == 128);

}  // namespace dlhook::inline abi
