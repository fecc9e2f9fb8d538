// The theoretical cost of an op: floating-point operations and bytes, from its shape alone.
//
// Conventions, the same for all ops:
// - FLOPs: an addition or a multiplication of real numbers is one, so a real multiply-add is 2, a complex one 8. FLOPs
//   are those of the mathematical definition, whatever the algorithm (a Winograd convolution counts as a direct one),
//   so that the FLOP/s of algorithms are comparable. Only products are counted: bias, scaling and fused post-ops are
//   ignored.
// - Bytes: every operand tensor once, at its logical size: the minimum traffic of a call. An operand that is read and
//   written (C of a gemm, B of trsm) counts once; dst counts once more if a fused `sum` reads it.
// nullopt: no formula, an unknown shape, or an overflow.
#pragma once

#include <initializer_list>

#include "analyzer/model/onednn_text.h"
#include "analyzer/model/op.h"

namespace dlhook::analyzer::inline model {

// For positive factors; nullopt if one is negative or the product overflows.
std::optional<int64_t> Product(std::initializer_list<int64_t> factors);
std::optional<int64_t> ElementCount(const Dims& dims);

// Bits per element: "f32" 32, "bf16" 16 …; oneDNN's names, and "c32", "c64".
std::optional<int> TypeBits(absl::string_view type);

// gemm 2mnk, gemv 2mk, ger 2mn (LAPACK Working Note 41, appendix C, without the scaling by alpha and beta); 8 instead
// of 2 for complex types, even for gemm3m, which needs only three real products for the same result; gemmt n(n+1)k: the
// triangle with its diagonal, as for syrk. Packing alone computes nothing: nullopt.
std::optional<int64_t> GemmFlops(const GemmCall& gemm);
std::optional<int64_t> GemmBytes(const GemmCall& gemm);

// LAPACK Working Note 41, appendix C: multiplications and additions of real data; a complex
// multiplication is 6, a complex addition 2.
//   symm, hemm    mults = adds = m^2 n (side L), m n^2 (side R)
//   syrk, herk    mults = adds = k n (n+1) / 2
//   syr2k, her2k  mults = k n^2, adds = k n^2 + n
//   trmm, trsm    mults = n m (m+1) / 2, adds = n m (m-1) / 2 (side L); m and n swapped (side R)
// Not listed there, by the same rules:
//   dgmm          mults = m n
//   spmm, sddmm, spmv   mults = adds = nonzeros n, nonzeros k, nonzeros
// geam and transform move a matrix: no FLOPs; bytes of A read, B if used, C written. For sparse operands bytes are not
// known: the width of their indices is not recorded.
std::optional<int64_t> MatrixFlops(const MatrixCall& op);
std::optional<int64_t> MatrixBytes(const MatrixCall& op);

// Convolution, with the whole kernel at every output point (as in the equivalent matrix product of im2col: m = K, n = P
// Q, k = C R S; Chetlur et al., "cuDNN: Efficient primitives for deep learning", 2014): 2 mb oc (ic/g) prod(out)
// prod(kernel), the same forward, for data and for weights. benchdnn leaves out points in the padding; the literature
// does not. Deconvolution: the same with the input's points instead of the output's.
// result: [mb, oc, out…], filter: [oc, ic/g, kernel…].
std::optional<int64_t> ConvolutionFlops(const Dims& result, const Dims& filter);
std::optional<int64_t> ConvolutionFlops(const ProblemNumbers& numbers, bool transposed);

// 2 mb oc ic prod(spatial): benchdnn, tests/benchdnn/ip/ip.hpp, count_ops.
std::optional<int64_t> InnerProductFlops(const ProblemNumbers& numbers);

// 2 m n k for every matrix of the batch: benchdnn, matmul.hpp, count_ops. dst: [batch…, m, n].
std::optional<int64_t> MatMulFlops(const Dims& src, const Dims& dst);

// Matrix products of all cells, directions x layers x steps x 2 gates dhc mb (sic + slc): benchdnn, rnn.hpp, count_ops.
std::optional<int64_t> RnnFlops(const ProblemNumbers& numbers, int gates, int directions);

// Sum over the defined tensors. "data" stands for the tensor read and the one written (oneDNN's log names only one if
// both have the same descriptor), "diff" beside it for the third one of a backward pass.
std::optional<int64_t> TensorBytes(const Op& op);

}  // namespace dlhook::analyzer::model
