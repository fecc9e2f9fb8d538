// The syntax of oneDNN's log, one field at a time: memory descriptors, post-ops, problem descriptors. Pure functions on
// text, for all releases from 0.16 to 3.x; what they can't parse is omitted or returned as is. Based on oneDNN's
// src/common/verbose.cpp (tags v0.21.5 (verbose.hpp), v1.0.4, v1.6, v2.4.4, v3.5, v3.7.1), the only definition.
#pragma once

#include "analyzer/model/op.h"

namespace dlhook::analyzer::inline model {

using Dims = std::vector<int64_t>;

// "src:f32:a:blocked:abcd::f0 wei:…" (3.6 and newer), "src_f32::blocked:abcd:f0 wei_…" (from 1.0 on) and "fsrc:nChw8c
// fwei:…" (0.x, without types), separated by blanks. Flags before the format kind: a = chosen by the library (format
// `any` was requested), p = padded, o and 0 = offsets.
std::vector<Tensor> ParseMemoryDescriptors(absl::string_view text);

// Names of the ops fused after this one, in order, without parameters:
//   3.x, 2.x  attr-post-ops:eltwise_relu:0.1+sum+binary_add:f32:2
//   1.x, 2.0  post_ops:'eltwise_relu;sum:2;'
std::vector<std::string> ParsePostOps(absl::string_view attributes);

// The value of `key` in "alg:eltwise_relu alpha:0 beta:0"; empty if absent.
absl::string_view AuxiliaryValue(absl::string_view auxiliary, absl::string_view key);

// "g2mb8_ic3oc16_ih32oh30kh3…" as {g: 2, mb: 8, …}. Values that are not integers (lrn's beta) are omitted; nullopt if
// the text has another form.
using ProblemNumbers = std::map<std::string, int64_t, std::less<>>;
std::optional<ProblemNumbers> ParseProblemNumbers(absl::string_view problem);

// "8x16:16x10" as {{8, 16}, {16, 10}}; nullopt if the text has another form or a dimension is not known yet ("*").
std::optional<std::vector<Dims>> ParseDimsList(absl::string_view problem);

}  // namespace dlhook::analyzer::model
