// Reads the encodings of .eh_frame: LEB128, pointers relative to various bases. Never reads past `end`: then sets
// `failed` and returns zeros.
// Thread: any; pure.
#pragma once

#include <cstdint>
#include <cstring>

namespace dlhook::inline unwind {

// DW_EH_PE_*: low four bits the format, the next three what it is relative to.
// clang-format off
enum PointerEncoding : uint8_t {
  kAbsolute = 0x00, kUleb128 = 0x01, kUdata2 = 0x02, kUdata4 = 0x03, kUdata8 = 0x04,
  kSleb128 = 0x09, kSdata2 = 0x0a, kSdata4 = 0x0b, kSdata8 = 0x0c,
  kRelativeToPlace = 0x10, kRelativeToData = 0x30, kIndirect = 0x80, kOmitted = 0xff,
};
// clang-format on

struct UnwindBytes {
  const uint8_t* at;
  const uint8_t* end;
  bool failed = false;

  bool AtEnd() const { return failed || at >= end; }

  template <typename T>
  T Fixed() {
    T value = 0;
    if (failed || static_cast<uint64_t>(end - at) < sizeof(T)) {
      failed = true;
      return 0;
    }
    memcpy(&value, at, sizeof value);
    at += sizeof value;
    return value;
  }

  uint64_t Uleb() {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      uint8_t byte = Fixed<uint8_t>();
      if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) return value;
    }
  }

  int64_t Sleb() {
    uint64_t value = 0;
    for (unsigned shift = 0;;) {
      uint8_t byte = Fixed<uint8_t>();
      if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
      shift += 7;
      if ((byte & 0x80) != 0) continue;
      if (shift < 64 && (byte & 0x40) != 0) value |= ~uint64_t{0} << shift;
      return static_cast<int64_t>(value);
    }
  }

  void Skip(uint64_t bytes) {
    if (failed || bytes > static_cast<uint64_t>(end - at)) {
      failed = true;
    } else {
      at += bytes;
    }
  }

  uint64_t Pointer(uint8_t encoding, uint64_t data_base) {
    uint64_t place = reinterpret_cast<uint64_t>(at);
    uint64_t value = Format(encoding & 0x0f);
    switch (encoding & 0x70) {
      case kAbsolute:
        break;
      case kRelativeToPlace:
        value += place;
        break;
      case kRelativeToData:
        value += data_base;
        break;
      default:
        failed = true;
    }
    if ((encoding & kIndirect) != 0) failed = true;  // for personalities only
    return failed ? 0 : value;
  }

 private:
  uint64_t Format(uint8_t format) {
    switch (format) {
      case kAbsolute:
      case kUdata8:
      case kSdata8:
        return Fixed<uint64_t>();
      case kUleb128:
        return Uleb();
      case kSleb128:
        return static_cast<uint64_t>(Sleb());
      case kUdata2:
        return Fixed<uint16_t>();
      case kUdata4:
        return Fixed<uint32_t>();
      case kSdata2:
        return static_cast<uint64_t>(int64_t{Fixed<int16_t>()});
      case kSdata4:
        return static_cast<uint64_t>(int64_t{Fixed<int32_t>()});
      default:
        failed = true;
        return 0;
    }
  }
};

}  // namespace dlhook::inline unwind
