// Decodes cuDNN calls, with the terms of oneDNN's log, so that both libraries share tables.
#ifndef DLHOOK_ANALYZER_OPS_CUDNN_OP_H_
#define DLHOOK_ANALYZER_OPS_CUDNN_OP_H_

#include "analyzer/model/op.h"
#include "proto/op.pb.h"

namespace dlhook::analyzer::inline ops {

// Each sets all fields of `op` except those of the definition itself (function, family, time source, captured). A plan
// that was built from JSON is read from that text; `op.trouble` says which part could not be parsed.
void DecodeCudnn(const trace::Cudnn& cudnn, Op& op);

// A search is an op of kind "search" with the direction, tensors and text of its problem, and no cost.
void DecodeCudnnSearch(const trace::CudnnSearch& search, Op& op);

}  // namespace dlhook::analyzer::ops

#endif  // DLHOOK_ANALYZER_OPS_CUDNN_OP_H_
