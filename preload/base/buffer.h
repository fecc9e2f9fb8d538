// A growable byte buffer in pages of its own: the drain may run inside the host, whose heap it must not use.
// Thread: the drain's. Never shrinks.
#pragma once

#include <string.h>

#include <cstdint>

#include "preload/base/own_pages.h"

namespace dlhook::inline base {

class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (data_ != nullptr) munmap(data_, capacity_);
  }

  const char* data() const { return data_; }
  char* data() { return data_; }
  size_t size() const { return size_; }
  void Clear() {
    size_ = 0;
    has_failed_ = false;
  }
  // Since it was cleared there was no memory for something that should be in it.
  bool has_failed() const { return has_failed_; }
  void Resize(size_t size) {
    if (Reserve(size)) size_ = size;
  }

  // False if out of memory: the buffer is unchanged.
  bool Reserve(size_t bytes) {
    if (__builtin_expect(bytes <= capacity_, 1)) return true;
    return Grow(bytes);
  }

  // False if out of memory: nothing is appended.
  bool Append(const void* bytes, size_t count) {
    if (count == 0) return true;  // `bytes` may be null
    if (!Reserve(size_ + count)) return false;
    memcpy(data_ + size_, bytes, count);
    size_ += count;
    return true;
  }
  // With what that one lacks.
  void Append(const Buffer& other) {
    has_failed_ = has_failed_ || other.has_failed_;
    Append(other.data_, other.size_);
  }

  // After Reserve has made room.
  void AppendVarintUnchecked(uint64_t value) {
    char* at = data_ + size_;
    while (value >= 0x80) {
      *at++ = static_cast<char>(value | 0x80);
      value >>= 7;
    }
    *at++ = static_cast<char>(value);
    size_ = static_cast<size_t>(at - data_);
  }

  void AppendVarint(uint64_t value) {
    if (Reserve(size_ + 10)) AppendVarintUnchecked(value);
  }

 private:
  bool Grow(size_t bytes) {
    size_t capacity = capacity_ == 0 ? 4096 : capacity_;
    while (capacity < bytes) capacity *= 2;
    void* grown = data_ == nullptr ? MapOwnPages(capacity) : mremap(data_, capacity_, capacity, MREMAP_MAYMOVE);
    has_failed_ = has_failed_ || grown == nullptr || grown == MAP_FAILED;
    if (grown == nullptr || grown == MAP_FAILED) return false;
    data_ = static_cast<char*>(grown);
    capacity_ = capacity;
    return true;
  }

  char* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
  bool has_failed_ = false;
};

inline uint64_t ZigZag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}

}  // namespace dlhook::inline base
