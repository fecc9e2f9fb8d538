// One line of oneDNN's log made an Op. See onednn_text.h for the words, op_cost.h for the formulas.
#ifndef DLHOOK_ANALYZER_MODEL_ONEDNN_OP_H_
#define DLHOOK_ANALYZER_MODEL_ONEDNN_OP_H_

#include "analyzer/model/op.h"
#include "proto/op.pb.h"

namespace dlhook::analyzer::inline model {

// Fills everything of `op` but what the definition itself says (function, family, time source).
// What can't be understood stays in `problem` as text, without shapes.
void DecodeOneDnn(const trace::OneDnn& line, Op& op);

}  // namespace dlhook::analyzer::model

#endif  // DLHOOK_ANALYZER_MODEL_ONEDNN_OP_H_
