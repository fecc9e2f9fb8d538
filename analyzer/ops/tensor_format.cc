#include "analyzer/ops/tensor_format.h"

#include <algorithm>
#include <numeric>

namespace dlhook::analyzer::inline ops {
namespace {

constexpr size_t kMaxFormatDims = 12;  // more than any library takes

using Order = std::vector<size_t>;  // dimensions, outermost first

std::string Letters(size_t rank) {
  switch (rank) {
    case 1:
      return "n";
    case 2:
      return "nc";
    case 3:
      return "ncw";
    case 4:
      return "nchw";
    case 5:
      return "ncdhw";
    default:
      return std::string("abcdefghijkl").substr(0, rank);
  }
}

// nchw, nhwc, chwn and the equivalents for other ranks.
std::vector<Order> CommonOrders(size_t rank) {
  Order first(rank);
  std::iota(first.begin(), first.end(), 0);
  if (rank < 3) return {first};
  Order channels_last = first, batch_last = first;
  std::rotate(channels_last.begin() + 1, channels_last.begin() + 2, channels_last.end());
  std::rotate(batch_last.begin(), batch_last.begin() + 1, batch_last.end());
  return {first, channels_last, batch_last};
}

// Whether the elements are in this order without gaps. `exactly`: dimensions of one element, too, have the stride that
// this order gives them.
bool IsPacked(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides, const Order& order, bool exactly) {
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const size_t dim = order[i];
    if ((exactly || dims[dim] != 1) && strides[dim] != stride) return false;
    if (__builtin_mul_overflow(stride, dims[dim], &stride)) return false;
  }
  return true;
}

std::string Name(const Order& order) {
  const std::string letters = Letters(order.size());
  std::string name;
  for (size_t dim : order) name += letters[dim];
  return name;
}

}  // namespace

std::string TensorFormat(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides) {
  const size_t rank = dims.size();
  if (rank == 0 || rank > kMaxFormatDims || strides.size() != rank) return "";
  const std::vector<Order> common = CommonOrders(rank);
  for (const bool exactly : {true, false}) {
    for (const Order& order : common) {
      if (IsPacked(dims, strides, order, exactly)) return Name(order);
    }
  }
  Order by_stride = common[0];
  std::stable_sort(by_stride.begin(), by_stride.end(), [&](size_t a, size_t b) { return strides[a] > strides[b]; });
  return IsPacked(dims, strides, by_stride, /*exactly=*/false) ? Name(by_stride) : "strided";
}

}  // namespace dlhook::analyzer::ops
