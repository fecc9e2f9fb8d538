// Matrix products of one layer: see products.h.
#include "analyzer/layers/structure/products.h"

#include <algorithm>
#include <utility>

namespace dlhook::analyzer::inline structure {
namespace {

bool HasSides(const ProductShape& product, int64_t rows, int64_t columns) {
  return std::minmax(product.m, product.n) == std::minmax(rows, columns);
}

bool Reads(const Operands& operands, const std::vector<uint64_t>& addresses) {
  return ContainsAddress(addresses, operands.a) || ContainsAddress(addresses, operands.b);
}

void AddOnce(uint64_t address, std::vector<uint64_t>& addresses) {
  if (address != 0 && !ContainsAddress(addresses, address)) addresses.push_back(address);
}

// Whether it comes right after one of the blocks seen so far.
bool FollowsOn(const std::vector<uint64_t>& addresses, int64_t bytes, uint64_t address) {
  return bytes > 0 && address > static_cast<uint64_t>(bytes) &&
         ContainsAddress(addresses, address - static_cast<uint64_t>(bytes));
}

}  // namespace

bool ContainsAddress(const std::vector<uint64_t>& addresses, uint64_t address) {
  return address != 0 && std::find(addresses.begin(), addresses.end(), address) != addresses.end();
}

bool MayBeGradientOfA(const ProductShape& forward, const ProductShape& gradient) {
  return gradient.batch == forward.batch && gradient.k == forward.n && HasSides(gradient, forward.m, forward.k);
}

bool MayBeGradientOfB(const ProductShape& forward, const ProductShape& gradient) {
  return gradient.batch == forward.batch && gradient.k == forward.m && HasSides(gradient, forward.k, forward.n);
}

bool HasSameSizes(const ProductShape& first, const ProductShape& second) {
  return HasSides(first, second.m, second.n) && first.k == second.k;
}

GradientOf GradientByOperands(const Forward& forward, const ProductShape& gradient, const Operands& operands) {
  const ProductShape& shape = forward.facts->product;
  if (MayBeGradientOfA(shape, gradient) && Reads(operands, forward.b)) return GradientOf::kA;
  if (MayBeGradientOfB(shape, gradient) && Reads(operands, forward.a)) return GradientOf::kB;
  return GradientOf::kNone;
}

GradientOf GradientByShapes(const Forward& forward, const OpFacts& gradient) {
  const ProductShape& shape = gradient.product;
  const bool of_a = MayBeGradientOfA(forward.facts->product, shape) && forward.gradients_of_a == 0 &&
                    gradient.direction != Direction::kBackwardWeights;
  const bool of_b = MayBeGradientOfB(forward.facts->product, shape) && forward.gradients_of_b == 0 &&
                    gradient.direction != Direction::kBackwardData;
  // If both fit: the weight gradient sums over the samples, so its left operand is transposed.
  if (of_b && (!of_a || shape.a_is_transposed)) return GradientOf::kB;
  return of_a ? GradientOf::kA : GradientOf::kNone;
}

uint64_t OutputGradient(const Forward& forward, GradientOf of, const Operands& operands) {
  const std::vector<uint64_t>& shared = of == GradientOf::kA ? forward.b : forward.a;
  return ContainsAddress(shared, operands.a) ? operands.b : operands.a;
}

bool ContinuesForward(const ProductShape& product, const Operands& operands, Forward& last) {
  if (operands.a == 0 || operands.b == 0 || product.batch > 1) return false;
  const bool a_same = ContainsAddress(last.a, operands.a), b_same = ContainsAddress(last.b, operands.b);
  const bool b_next = FollowsOn(last.b, product.b_bytes, operands.b) && !product.b_is_transposed;
  const bool is_next_result = FollowsOn(last.c, product.c_bytes, operands.c);
  const bool is_next_image = a_same && (b_same || b_next) && is_next_result;
  const bool is_next_group = FollowsOn(last.a, product.a_bytes, operands.a) && b_next && is_next_result;
  if (is_next_image || is_next_group) last.weights_are_a = true;
  return is_next_image || is_next_group || (b_same && !a_same && !last.weights_are_a);
}

bool ShareWeights(const Forward& first, const Forward& second) {
  if (!first.facts->is_product || !second.facts->is_product || first.ops[0] != second.ops[0]) return false;
  const ProductShape& shape = second.facts->product;
  if (shape.batch > 1 || !shape.b_is_transposed || first.weights_are_a || second.weights_are_a) return false;
  return !second.b.empty() && ContainsAddress(first.b, second.b[0]);
}

void AddOperands(const Operands& operands, Forward& forward) {
  AddOnce(operands.a, forward.a);
  AddOnce(operands.b, forward.b);
  AddOnce(operands.c, forward.c);
}

void DropAddresses(Forward& forward) {
  forward.parts = std::max<size_t>(forward.weights_are_a ? forward.a.size() : 1, 1);
  if (forward.b.size() > 1) forward.b.resize(1);
  forward.b.shrink_to_fit();
  for (std::vector<uint64_t>* dropped : {&forward.a, &forward.c, &forward.output_gradients}) {
    std::vector<uint64_t>().swap(*dropped);
  }
}

}  // namespace dlhook::analyzer::structure
