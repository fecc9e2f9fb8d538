// What dots and convolutions of an HLO module compute: sizes, types, memory formats. Pure functions.
#pragma once

#include <string>

#include "analyzer/xla/xla_profiles.h"

namespace dlhook::xla {
class HloInstruction;
class Shape;
}  // namespace dlhook::xla

namespace dlhook::analyzer::inline xla {

// oneDNN's names: "f32", "s8", "c32" for complex numbers of two f32; "?" if it has none.
std::string HloTypeName(const dlhook::xla::Shape& shape);

// Sums over any dimensions of the operands, as a batch of matrix products: "8x63x32:8x32x63".
XlaProduct ProductOfDot(const dlhook::xla::HloInstruction& dot, const dlhook::xla::Shape& left,
                        const dlhook::xla::Shape& right);

// XLA's convolution as it stands, which in a backward pass has other sizes than the program's own. Two kinds have numbers
// of their own:
// - Zeros between the elements of the input (base dilation) are no work: this is the gradient of a strided convolution's
//   input, or a transposed convolution.
// - Groups of images (batch_group_count; the gradient of a grouped convolution's weights) are groups of channels.
XlaProduct ProductOfConvolution(const dlhook::xla::HloInstruction& convolution, const dlhook::xla::Shape& left,
                                const dlhook::xla::Shape& right, XlaPass pass);

}  // namespace dlhook::analyzer::xla
