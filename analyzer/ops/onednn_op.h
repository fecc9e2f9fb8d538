// Decodes one line of oneDNN's log. See onednn_text.h for the syntax, op_cost.h for the formulas.
#ifndef DLHOOK_ANALYZER_OPS_ONEDNN_OP_H_
#define DLHOOK_ANALYZER_OPS_ONEDNN_OP_H_

#include "analyzer/model/op.h"
#include "proto/op.pb.h"

namespace dlhook::analyzer::inline ops {

// Sets all fields of `op` except those of the definition itself (function, family, time source). What can't be parsed
// remains text in `problem`, without shapes.
void DecodeOneDnn(const trace::OneDnn& line, Op& op);

}  // namespace dlhook::analyzer::ops

#endif  // DLHOOK_ANALYZER_OPS_ONEDNN_OP_H_
