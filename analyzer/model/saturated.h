// Saturating sums of values from traces, which may be damaged.
#ifndef DLHOOK_ANALYZER_MODEL_SATURATED_H_
#define DLHOOK_ANALYZER_MODEL_SATURATED_H_

#include <cstdint>
#include <limits>

namespace dlhook::analyzer::inline model {

// For non-negative numbers.
inline int64_t SaturatedProduct(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}

inline void AddSaturated(int64_t amount, int64_t* sum) {
  if (__builtin_add_overflow(*sum, amount, sum)) *sum = std::numeric_limits<int64_t>::max();
}

}  // namespace dlhook::analyzer::model

#endif  // DLHOOK_ANALYZER_MODEL_SATURATED_H_
