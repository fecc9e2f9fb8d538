// Decodes LIBXSMM's layers, with the words of oneDNN's log, so that both libraries share tables.
#ifndef DLHOOK_ANALYZER_OPS_LIBXSMM_OP_H_
#define DLHOOK_ANALYZER_OPS_LIBXSMM_OP_H_

#include "analyzer/model/op.h"
#include "proto/op.pb.h"

namespace dlhook::analyzer::inline ops {

// Sets all fields of `op` except those of the definition itself (function, family, time source). Without numbers only the kind and
// the direction are known.
void DecodeLibxsmm(const trace::Libxsmm& libxsmm, Op& op);

}  // namespace dlhook::analyzer::ops

#endif  // DLHOOK_ANALYZER_OPS_LIBXSMM_OP_H_
