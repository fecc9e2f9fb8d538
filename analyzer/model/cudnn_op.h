// Calls of cuDNN made Ops, in the words that oneDNN's log has for the same things, so that both stand in one table.
#ifndef DLHOOK_ANALYZER_MODEL_CUDNN_OP_H_
#define DLHOOK_ANALYZER_MODEL_CUDNN_OP_H_

#include "analyzer/model/op.h"
#include "proto/op.pb.h"

namespace dlhook::analyzer::inline model {

// Each fills everything of `op` but what the definition itself says (function, family, time source, captured). A
// plan that was built from JSON is read from that text; what of it can't be understood is told in `op.trouble`.
void DecodeCudnn(const trace::Cudnn& cudnn, Op& op);

// A search is an op of kind "search" with its problem's direction, tensors and text, and no cost.
void DecodeCudnnSearch(const trace::CudnnSearch& search, Op& op);

}  // namespace dlhook::analyzer::model

#endif  // DLHOOK_ANALYZER_MODEL_CUDNN_OP_H_
