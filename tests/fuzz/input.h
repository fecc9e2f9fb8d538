// Fuzzed bytes as a series of choices, and the check that stops a target whose promise is broken.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace dlhook {

// A promise of the code under test. Aborts: fuzzers treat that as a finding.
inline void Require(bool holds, const char* promise) {
  if (holds) return;
  fprintf(stderr, "broken promise: %s\n", promise);
  abort();
}

// Takes choices from the front of the input; zero after its end.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  bool empty() const { return size_ == 0; }
  uint8_t Byte() {
    uint8_t byte = 0;
    Take(&byte, 1);
    return byte;
  }
  template <typename T>
  T Number() {
    T number = 0;
    Take(&number, sizeof number);
    return number;
  }
  // Usually small, like sizes and ids.
  uint64_t Size() {
    const uint8_t kind = Byte();
    return kind < 192 ? kind : kind < 240 ? Number<uint16_t>() : Number<uint64_t>();
  }
  // At most `size` bytes.
  std::string Bytes(size_t size) {
    std::string bytes(std::min(size, size_), '\0');
    Take(bytes.data(), bytes.size());
    return bytes;
  }
  std::string Rest() { return Bytes(size_); }

 private:
  void Take(void* to, size_t size) {
    size = std::min(size, size_);
    if (size == 0) return;
    memcpy(to, data_, size);
    data_ += size;
    size_ -= size;
  }

  const uint8_t* data_;
  size_t size_;
};

}  // namespace dlhook
