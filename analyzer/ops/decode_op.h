// Decodes an op definition into an Op.
#ifndef DLHOOK_ANALYZER_OPS_DECODE_OP_H_
#define DLHOOK_ANALYZER_OPS_DECODE_OP_H_

#include "analyzer/model/op.h"

namespace dlhook::trace {
class OpDefinition;
}

namespace dlhook::analyzer::inline ops {

// Never fails: what can't be parsed remains text in `problem`, without shapes.
Op DecodeOp(const trace::OpDefinition& definition);

}  // namespace dlhook::analyzer::ops

#endif  // DLHOOK_ANALYZER_OPS_DECODE_OP_H_
