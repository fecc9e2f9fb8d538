// Functions inlined over three levels, templates as from two files, a function without a symbol, one in assembly
// without a size: test_witness.py looks up each byte.
#include <cmath>
#include <cstdlib>
#include <vector>

namespace victim {

__attribute__((always_inline)) inline double Innermost(double value) {
  if (value < 0) return std::cbrt(value);
  return value * value + 1;
}

template <typename T>
__attribute__((always_inline)) inline T Middle(T value) {
  T sum = 0;
  for (int i = 0; i < 3; ++i) sum += static_cast<T>(Innermost(value + i));
  return sum;
}

class Layer {
 public:
  __attribute__((noinline)) double Forward(const std::vector<double>& values) const;
};

double Layer::Forward(const std::vector<double>& values) const {
  double sum = 0;
  for (const double value : values) sum += Middle(value) + Middle(static_cast<float>(value));
  const auto scale = [&](double factor) __attribute__((noinline)) { return sum * factor + std::cbrt(factor); };
  return scale(sum);
}

namespace {
__attribute__((noinline)) double Hidden(double value) { return Middle(value) * 2; }
}  // namespace

}  // namespace victim

extern "C" double VictimEntry(double value) {
  const std::vector<double> values(8, value);
  if (std::isnan(value)) abort();
  return victim::Layer().Forward(values) + victim::Hidden(value);
}

asm(".text\n.globl victim_without_size\n.type victim_without_size,@function\nvictim_without_size:\n nop\n nop\n ret\n"
    ".globl victim_with_size\n.type victim_with_size,@function\nvictim_with_size:\n nop\n ret\n.size "
    "victim_with_size,2\n nop\n nop\n");
