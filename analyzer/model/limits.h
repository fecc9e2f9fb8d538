// Limits on what a run may cost its reader: docs/limits.md. Beyond these the command fails with a message, instead of
// using all memory, or hours. No valid run comes near them.
#pragma once

#include <cstdint>
#include <limits>
#include <stdexcept>

#include "absl/strings/str_cat.h"

namespace dlhook::analyzer::inline model {

constexpr size_t kMaxNameBytes = 16 << 10;         // per name; the shim limits names to half of that
constexpr uint32_t kMaxIid = 1 << 20;              // ids of a writer start at 1; far more than any real trace has
constexpr uint64_t kMaxStackFrames = 1 << 22;      // over all distinct call stacks
constexpr uint64_t kMaxStackTextBytes = 64 << 20;  // over all distinct stacks in text form
constexpr uint64_t kMaxProfileSteps = 1 << 27;     // summed over all nodes of an exported call tree: steps to its root
constexpr uint64_t kMaxExportBytes = 100 << 20;    // per export that writes all stacks in full
constexpr uint64_t kMaxIntervals = 1 << 20;        // rows over time, over all processes and devices
constexpr size_t kMaxOpenScopes = 1024;            // nested, per thread; a writer keeps fewer
constexpr size_t kMaxPassLayers = 2048;            // per pass through a network; further layers begin another pass

// The only exception of dlhook: the limit may be detected deep inside a table. Caught in Main (cli/command.cc).
class LimitError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A growing amount with a limit.
class Limit {
 public:
  // `what`: "frames in distinct stacks".
  constexpr Limit(const char* what, uint64_t most) : what_(what), most_(most), left_(most) {}
  void Take(uint64_t amount) {
    if (amount > left_) throw LimitError(absl::StrCat("more than ", most_, " ", what_, ", the most that dlhook takes"));
    left_ -= amount;
  }

 private:
  const char* what_;
  uint64_t most_;
  uint64_t left_;
};

// Saturating, because values from traces may be damaged. For non-negative numbers.
inline int64_t SaturatedProduct(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}

inline void AddSaturated(int64_t amount, int64_t* sum) {
  if (__builtin_add_overflow(*sum, amount, sum)) *sum = std::numeric_limits<int64_t>::max();
}

}  // namespace dlhook::analyzer::model
