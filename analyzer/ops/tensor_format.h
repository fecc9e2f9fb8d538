// Names the memory order of a tensor by its strides: cuDNN's equivalent of a format tag.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dlhook::analyzer::inline ops {

// `dims` in logical order N, C, [D, [H,]] W. The letters of the dimensions from the outermost in memory to the
// innermost, if there are no gaps: "nchw", "nhwc", "ndhwc", "chwn", "cnhw"; "strided" otherwise (a slice, a broadcast);
// "abcdef" for more than five dimensions. Dimensions of one element have no position in memory: if several names fit,
// the program's strides for them decide, then the first of nchw, nhwc, chwn. Empty without dims or strides.
std::string TensorFormat(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides);

}  // namespace dlhook::analyzer::ops
