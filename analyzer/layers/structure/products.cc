#include "analyzer/layers/structure/network_pass.h"

namespace dlhook::analyzer::inline structure {
namespace {

bool HasSides(const ProductShape& product, int64_t rows, int64_t columns) {
  return std::minmax(product.m, product.n) == std::minmax(rows, columns);
}

bool Reads(const Operands& operands, const Addresses& addresses) {
  return addresses.Contains(operands.a) || addresses.Contains(operands.b);
}

// Whether it comes right after one of the blocks seen so far.
bool FollowsOn(const Addresses& addresses, int64_t bytes, uint64_t address) {
  return bytes > 0 && address > static_cast<uint64_t>(bytes) &&
         addresses.Contains(address - static_cast<uint64_t>(bytes));
}

}  // namespace

bool MayBeGradientOfA(const ProductShape& forward, const ProductShape& gradient) {
  return gradient.batch == forward.batch && gradient.k == forward.n && HasSides(gradient, forward.m, forward.k);
}

bool MayBeGradientOfB(const ProductShape& forward, const ProductShape& gradient) {
  return gradient.batch == forward.batch && gradient.k == forward.m && HasSides(gradient, forward.k, forward.n);
}

bool HasSameSizes(const ProductShape& first, const ProductShape& second) {
  return HasSides(first, second.m, second.n) && first.k == second.k;
}

GradientOf GradientByOperands(const OpenForward& forward, const ProductShape& gradient, const Operands& operands) {
  const ProductShape& shape = forward.facts->product;
  if (MayBeGradientOfA(shape, gradient) && Reads(operands, forward.b)) return GradientOf::kA;
  if (MayBeGradientOfB(shape, gradient) && Reads(operands, forward.a)) return GradientOf::kB;
  return GradientOf::kNone;
}

GradientOf GradientByShapes(const OpenForward& forward, const OpFacts& gradient) {
  const ProductShape& shape = gradient.product;
  const bool of_a = MayBeGradientOfA(forward.facts->product, shape) && forward.gradients_of_a == 0 &&
                    gradient.direction != Direction::kBackwardWeights;
  const bool of_b = MayBeGradientOfB(forward.facts->product, shape) && forward.gradients_of_b == 0 &&
                    gradient.direction != Direction::kBackwardData;
  // If both fit: the weight gradient sums over the samples, so its left operand is transposed.
  if (of_b && (!of_a || shape.a_is_transposed)) return GradientOf::kB;
  return of_a ? GradientOf::kA : GradientOf::kNone;
}

uint64_t OutputGradient(const OpenForward& forward, GradientOf of, const Operands& operands) {
  const Addresses& shared = of == GradientOf::kA ? forward.b : forward.a;
  return shared.Contains(operands.a) ? operands.b : operands.a;
}

bool ContinuesForward(const ProductShape& product, const Operands& operands, OpenForward& last) {
  if (operands.a == 0 || operands.b == 0 || product.batch > 1) return false;
  const bool a_same = last.a.Contains(operands.a), b_same = last.b.Contains(operands.b);
  const bool b_next = FollowsOn(last.b, product.b_bytes, operands.b) && !product.b_is_transposed;
  const bool is_next_result = FollowsOn(last.c, product.c_bytes, operands.c);
  const bool is_next_image = a_same && (b_same || b_next) && is_next_result;
  const bool is_next_group = FollowsOn(last.a, product.a_bytes, operands.a) && b_next && is_next_result;
  if (is_next_image || is_next_group) last.weights_are_a = true;
  return is_next_image || is_next_group || (b_same && !a_same && !last.weights_are_a);
}

bool ShareWeights(const Forward& first, const Forward& second) {
  if (!first.facts->is_product || !second.facts->is_product || first.first_op != second.first_op) return false;
  const ProductShape& shape = second.facts->product;
  if (shape.batch > 1 || !shape.b_is_transposed || first.weights_are_a || second.weights_are_a) return false;
  return second.first_b != 0 && first.first_b == second.first_b;
}

void AddOperands(const Operands& operands, OpenForward& forward) {
  forward.a.Add(operands.a);
  forward.b.Add(operands.b);
  forward.c.Add(operands.c);
}

Forward Finished(OpenForward&& forward) {
  forward.parts = forward.weights_are_a ? std::max<uint32_t>(static_cast<uint32_t>(forward.a.size()), 1) : 1;
  forward.first_op = forward.ops.empty() ? 0 : forward.ops.first();
  forward.first_b = forward.b.empty() ? 0 : forward.b.first();
  return std::move(forward);
}

}  // namespace dlhook::analyzer::structure
