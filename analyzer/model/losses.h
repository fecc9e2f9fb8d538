// What the losses of a trace are counted in.
#ifndef DLHOOK_ANALYZER_MODEL_LOSSES_H_
#define DLHOOK_ANALYZER_MODEL_LOSSES_H_

#include "proto/trace.pb.h"

namespace dlhook::analyzer {

// Of these, Loss.calls counts scopes.
inline bool CountsScopes(trace::Loss::Reason reason) {
  return reason == trace::Loss::SCOPES_TOO_DEEP || reason == trace::Loss::TRACE_LIMIT;
}

}  // namespace dlhook::analyzer

#endif  // DLHOOK_ANALYZER_MODEL_LOSSES_H_
