// The problem of a cuDNN call: one line in the form of oneDNN's problem descriptors, and its cost.
#pragma once

#include "analyzer/model/prelude.h"
#include "proto/op.pb.h"

namespace dlhook::analyzer::inline ops {

// The first tensor with one of these roles, in the order of the roles; null if none. Tensors with more dimensions than
// any library supports are ignored.
const trace::CudnnTensor* FindTensor(const trace::Cudnn& cudnn, std::initializer_list<trace::CudnnTensor::Role> roles);
const trace::CudnnTensor* FindTensor(const trace::Cudnn& cudnn, int64_t uid);

std::vector<int64_t> DimsOf(const trace::CudnnTensor& tensor);

// The node of a plan's graph that names it; null for legacy calls.
const trace::CudnnNode* MainNode(const trace::Cudnn& cudnn);

// By kind, in the form of oneDNN's log:
//   convolution               g2mb8_ic3oc16_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1
//   pooling                   mb4ic8_ih16oh8kh2sh2dh0ph0_iw16ow8kw2sw2dw0pw0
//   normalizations, lrn       mb4ic16ih14iw14
//   matmul, binary            4x8x16:4x16x10    (inputs)
//   rnn                       l2t5mb2slc16dic32 (layers, steps, batch, features of input and output)
//   reduction                 128x32:1x32       (input, output)
//   others                    4x8x16x16         (the first tensor)
// Unknown parts are omitted; without tensors the text is empty.
std::string CudnnProblem(const trace::Cudnn& cudnn, const std::string& kind);

// Convolution, with the whole kernel at every output point, the same in all three directions: 2 mb oc (ic/g) prod(out)
// prod(kernel); see op_cost.h. For graphs the products of all matmul nodes are added, 2 m n k for every matrix of the
// result. nullopt if there is neither.
std::optional<int64_t> CudnnFlops(const trace::Cudnn& cudnn, const std::string& kind);

// The memory order of a tensor by its strides: cuDNN's equivalent of a format tag. `dims` in logical order N, C, [D,
// [H,]] W. The letters of the dimensions from the outermost in memory to the innermost, if there are no gaps: "nchw",
// "nhwc", "ndhwc", "chwn", "cnhw"; "strided" otherwise (a slice, a broadcast); "abcdef" for more than five dimensions.
// Dimensions of one element have no position in memory: if several names fit, the program's strides for them decide,
// then the first of nchw, nhwc, chwn. Empty without dims or strides.
std::string TensorFormat(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides);

// Parses a cuDNN execution plan from its JSON text (CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION): the only source for
// a plan that a program built from such a text, as XLA does with its autotuning cache. Operation, tensors, nodes,
// engine and knobs, as in a fully recorded plan. The text comes from a program and is not trusted: fields of an
// unexpected type are ignored, lists are truncated at bounds far beyond cuDNN's. An error says what is missing: JSON,
// or an operation graph in it.
absl::StatusOr<trace::Cudnn> ParseCudnnPlanJson(absl::string_view json);

}  // namespace dlhook::analyzer::ops
