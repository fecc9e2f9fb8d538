// Bytes as the memory of a process; nothing else is mapped.
#pragma once

#include <string.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "analyzer/io/outside_code.h"

namespace dlhook::analyzer {

class ByteMemory : public MemoryReader {
 public:
  ByteMemory(uint64_t base, std::string bytes) : base_(base), bytes_(std::move(bytes)) {}
  size_t Copy(uint64_t address, void* to, size_t bytes) const override {
    if (address < base_ || address - base_ > bytes_.size()) return 0;
    const size_t copied = std::min(bytes, bytes_.size() - (address - base_));
    memcpy(to, bytes_.data() + (address - base_), copied);
    return copied;
  }
  std::string& bytes() { return bytes_; }

 private:
  uint64_t base_;
  std::string bytes_;
};

}  // namespace dlhook::analyzer
