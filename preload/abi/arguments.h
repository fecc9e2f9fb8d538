// Converts arguments of the various BLAS interfaces to a common form for the decoders.
// Thread: any application thread, after the real function has returned.
// Pure; reads only what that function had to read, too.
#pragma once

#include <cstdint>

namespace dlhook::inline abi {

// An integer that Fortran passes by address; 0 if null.
inline int64_t IntegerAt(const int32_t* value) { return value == nullptr ? 0 : *value; }
inline int64_t IntegerAt(const int64_t* value) { return value == nullptr ? 0 : *value; }

// An option letter that Fortran passes by address, in upper case; '?' if it is not a letter.
inline char FortranOption(const char* value) {
  if (value == nullptr) return '?';
  const char upper = static_cast<char>(*value & ~0x20);
  return upper >= 'A' && upper <= 'Z' ? upper : '?';
}

// The Fortran letter of a CBLAS enumerator. Order becomes 'R' or 'C', a packing identifier 'A' or
// 'B'. Only the low half is the argument: the wrappers forward whole registers
// (preload/api/README.md, "Integers").
inline char CblasOption(int64_t value) {
  // From 101, 111 … 161 on: order, transposition (the last one: OpenBLAS, BLIS), triangle, diagonal, side, packed and which
  // matrix (both: MKL).
  constexpr char kLetters[7][10] = {"RC", "NTCR", "UL", "NU", "LR", "P", "AB"};
  const uint32_t place = static_cast<uint32_t>(value) - 101;
  const char letter = place < 70 ? kLetters[place / 10][place % 10] : '\0';
  return letter == '\0' ? '?' : letter;
}

// `option` if it is one of the allowed ones, else '?'.
template <char... kAllowed>
constexpr char OneOf(char option) {
  return ((option == kAllowed) || ...) ? option : '?';
}

// The integers of a batch call, one per group, in either width.
class IntegerArray {
 public:
  IntegerArray() = default;
  explicit IntegerArray(const int32_t* values) : narrow_(values) {}
  explicit IntegerArray(const int64_t* values) : wide_(values) {}

  int64_t operator[](int64_t i) const {
    if (wide_ != nullptr) return wide_[i];
    return narrow_ == nullptr ? 0 : narrow_[i];
  }

 private:
  const int32_t* narrow_ = nullptr;
  const int64_t* wide_ = nullptr;
};

// The options of a batch call, one per group: Fortran letters or CBLAS enumerators.
class OptionArray {
 public:
  OptionArray() = default;
  explicit OptionArray(const char* letters) : letters_(letters) {}
  explicit OptionArray(const int32_t* enumerators) : enumerators_(enumerators) {}

  char operator[](int64_t i) const {
    if (letters_ != nullptr) return FortranOption(letters_ + i);
    return enumerators_ == nullptr ? '?' : CblasOption(enumerators_[i]);
  }

 private:
  const char* letters_ = nullptr;
  const int32_t* enumerators_ = nullptr;
};

inline uint64_t Address(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }
inline uint64_t Address(uint64_t word) { return word; }  // a pointer in a structure of its own

// What describes a copy in one structure: cudaMemcpy3DParms, cudaMemcpy3DPeerParms, CUDA_MEMCPY2D, CUDA_MEMCPY3D,
// CUDA_MEMCPY3D_PEER.
enum class CopyStruct : uint8_t { kRuntime3d, kRuntime3dPeer, kDriver2d, kDriver3d, kDriver3dPeer };

// Structures that hooked functions take by value, known only by size and class: the wrappers pass them on unchanged.
// Thread: any. Plain data; no field of the memory classes is read.

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
