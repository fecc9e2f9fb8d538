// Shared by the decoders of cuBLAS and cuBLASLt, which never dereference host scalars and device pointers. Pure.
#pragma once

#include "preload/abi/cuda_types.h"
#include "preload/hook_arguments.h"

namespace dlhook::inline decode {

// cublasOperation_t as BLAS's letter; CONJG (3) is the conjugate without transposition, 'R' as elsewhere.
inline char CublasOperation(int64_t operation) {
  return operation == 0 ? 'N' : operation == 1 ? 'T' : operation == 2 ? 'C' : operation == 3 ? 'R' : '?';
}

// The largest power of two, up to 256, that divides a set of addresses and distances.
class Alignment {
 public:
  void AddAddress(const void* address) { bits_ |= reinterpret_cast<uint64_t>(address); }
  // A distance in elements; zero (no batch) is ignored.
  void AddElements(int64_t elements, DataType type) { bits_ |= static_cast<uint64_t>(elements) * TypeBits(type) / 8; }
  uint8_t Log2() const { return static_cast<uint8_t>(__builtin_ctzll(bits_ | 256)); }

 private:
  uint64_t bits_ = 0;
};

}  // namespace dlhook::inline decode
