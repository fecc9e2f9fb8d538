// A record as returned by EndCall: room for shape and addresses, filled with garbage.
#pragma once

#include <cstring>
#include <vector>

#include "preload/format/record.h"

namespace dlhook {

class TestRecord {
 public:
  TestRecord(uint8_t shape_words, uint8_t address_count, int32_t status = 0) {
    memset(words_, 0xa5, sizeof(words_));
    record()->header.shape_words = shape_words;
    record()->header.address_count = address_count;
    record()->status = status;
    last_ = sizeof(CallRecord) / 8 + shape_words + address_count;
  }

  CallRecord* record() { return reinterpret_cast<CallRecord*>(words_); }
  template <class Shape>
  Shape shape(int word = 0) {
    Shape shape;
    memcpy(&shape, record()->shape() + word, sizeof(shape));
    return shape;
  }
  std::vector<uint64_t> addresses() {
    return {record()->addresses(), record()->addresses() + record()->header.address_count};
  }
  bool untouched_behind() const { return words_[last_] == 0xa5a5a5a5a5a5a5a5u; }

 private:
  alignas(8) uint64_t words_[128];
  int last_;
};

inline const void* Pointer(uint64_t address) { return reinterpret_cast<const void*>(address); }

}  // namespace dlhook
