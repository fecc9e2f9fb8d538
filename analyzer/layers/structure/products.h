// Matrix products of one layer: which belong together, and which is a gradient of which.
#pragma once

#include "analyzer/layers/structure/network_pass.h"

namespace dlhook::analyzer::inline structure {

enum class GradientOf : uint8_t { kNone, kA, kB };

// By sizes alone; both if the sizes are equal.
bool MayBeGradientOfA(const ProductShape& forward, const ProductShape& gradient);
bool MayBeGradientOfB(const ProductShape& forward, const ProductShape& gradient);

bool HasSameSizes(const ProductShape& first, const ProductShape& second);

// By sizes and addresses: the gradient reads the other operand of the forward product. kNone: no proof.
GradientOf GradientByOperands(const OpenForward& forward, const ProductShape& gradient, const Operands& operands);

// By sizes alone, for a layer that lacks it. For an op that reports its direction, only that one.
GradientOf GradientByShapes(const OpenForward& forward, const OpFacts& gradient);

// The operand of the gradient that the forward product does not have: the gradient of its result.
uint64_t OutputGradient(const OpenForward& forward, GradientOf of, const Operands& operands);

// Whether the product continues the forward work `last`, which came right before: the next image or group of an im2col
// convolution, the next step of a recurrence. Notes on which side the weights are.
bool ContinuesForward(const ProductShape& product, const Operands& operands, OpenForward& last);

// Whether two pieces of forward work use the same weights, on the right, as in y = x wT: a layer used twice. For
// untransposed operands this can't be decided: the columns of im2col convolutions are on the right, in a buffer that
// layers may share.
bool ShareWeights(const Forward& first, const Forward& second);

void AddOperands(const Operands& operands, OpenForward& forward);
// What is kept of it after its pass.
Forward Finished(OpenForward&& forward);

}  // namespace dlhook::analyzer::structure
