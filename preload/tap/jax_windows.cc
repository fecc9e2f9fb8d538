#include "preload/tap/jax_windows.h"

#include <string.h>

#include <algorithm>

namespace dlhook::inline tap {
namespace {

constexpr uint64_t kShortestNs = 100'000'000, kLongestNs = 2'000'000'000;
constexpr uint64_t kMostBytes = 1 << 20;
constexpr size_t kIdleBytes = 4096;  // fewer: nothing ran, as while the program compiles
constexpr uint64_t kShortestPauseNs = 500'000'000, kLongestPauseNs = 600'000'000'000;
constexpr uint64_t kNsPerByte = 40;      // by which the operations of a window were longer; measured: 10 to 40
constexpr uint64_t kCostsOfPause = 100;  // below 1 % on average

}  // namespace

void PlanNextWindow(size_t bytes, uint64_t window_ns, uint64_t stop_ns, WindowPlan* plan) {
  uint64_t next_ns = bytes == 0 ? window_ns * 2 : window_ns * kMostBytes / bytes;
  plan->window_ns = std::clamp(next_ns, kShortestNs, kLongestNs);
  uint64_t cost_ns = bytes * kNsPerByte + stop_ns;
  if (bytes >= kIdleBytes) ++plan->windows;
  plan->pause_ns = std::clamp(cost_ns * kCostsOfPause / 4 * plan->windows, kShortestPauseNs, kLongestPauseNs);
}

namespace {

bool ReadVarint(uint8_t** at, const uint8_t* end, uint64_t* value) {
  *value = 0;
  for (int shift = 0; *at < end && shift < 64; shift += 7) {
    uint8_t byte = *(*at)++;
    *value |= uint64_t{byte & 0x7fu} << shift;
    if ((byte & 0x80) == 0) return true;
  }
  return false;
}

// Zeros in all fields that `path`, ended by 0, leads to.
void Clear(uint8_t* at, const uint8_t* end, const uint32_t* path) {
  uint64_t tag = 0, length = 0;
  while (at < end && ReadVarint(&at, end, &tag)) {
    uint32_t type = tag & 7;
    if (type != 0 && type != 1 && type != 2 && type != 5) return;
    length = type == 1 ? 8 : type == 5 ? 4 : 0;
    if (type != 1 && type != 5 && !ReadVarint(&at, end, &length)) return;
    if (type == 0) continue;
    if (length > static_cast<uint64_t>(end - at)) return;
    if (type == 2 && tag >> 3 == path[0]) {
      if (path[1] == 0) {
        memset(at, 0, length);
      } else {
        Clear(at, at + length, path + 1);
      }
    }
    at += length;
  }
}

// Of the last shape before `end`: "(f32[2,3]{1,0}, s32[7])" would count as 7, but constants are no tuples.
uint64_t Elements(const char* begin, const char* end) {
  const char* at = end;
  while (at > begin && *at != '[' && *at != '\n') --at;
  uint64_t elements = 1, size = 0;
  if (*at != '[') return elements;
  for (++at; at < end; ++at) {
    if (*at >= '0' && *at <= '9') {
      size = size * 10 + static_cast<uint64_t>(*at - '0');
      continue;
    }
    if (*at == ',' || (*at == ']' && at[-1] != '[')) elements *= size;
    size = 0;
    if (*at == ']') break;
  }
  return elements;
}

}  // namespace

uint64_t ConstantElements(const char* text) {
  uint64_t elements = 0;
  for (const char* at = text; (at = strstr(at, " constant(")) != nullptr; ++at) elements += Elements(text, at);
  return elements;
}

void ClearConstants(void* module, size_t bytes) {
  constexpr uint32_t kComputations = 3, kInstructions = 2, kLiteral = 8;
  constexpr uint32_t kPath[] = {kComputations, kInstructions, kLiteral, 0};
  auto data = static_cast<uint8_t*>(module);
  Clear(data, data + bytes, kPath);
}

}  // namespace dlhook::inline tap
