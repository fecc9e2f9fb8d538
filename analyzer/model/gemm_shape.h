// The shape of a matrix product of any library: BLAS, or oneDNN's matmul, inner_product and gemm.
#pragma once

#include "analyzer/model/op.h"

namespace dlhook::analyzer::inline model {

// C[m,n] = op(A)[m,k] op(B)[k,n], `batch` times. `order` "col": as in BLAS, "row": row-major (cblas with CblasRowMajor,
// cuBLASLt with layouts in row order, oneDNN). Only inner_product's shape depends on the direction:
//   forward           dst[mb,oc] = src[mb,ic] wei^T
//   backward-data     diff_src[mb,ic] = diff_dst[mb,oc] wei
//   backward-weights  diff_wei[oc,ic] = diff_dst^T src[mb,ic]
struct MatmulShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t batch = 1;
  std::string trans;  // for A and B, e.g. "TN"; empty if not known
  std::string order;
  auto operator<=>(const MatmulShape&) const = default;
};

// nullopt: the op is not a matrix product, or its shape is not known.
std::optional<MatmulShape> MatmulShapeOf(const Op& op);

// Whether the op is a matrix product.
bool IsMatrixProduct(const Op& op);

}  // namespace dlhook::analyzer::model
