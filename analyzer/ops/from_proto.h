// Converts enumerations of protobuf messages to those of trace_enums.h.
#ifndef DLHOOK_ANALYZER_OPS_FROM_PROTO_H_
#define DLHOOK_ANALYZER_OPS_FROM_PROTO_H_

#include "analyzer/model/trace_enums.h"

namespace dlhook::analyzer::inline ops {

// A number that this schema does not know (from a newer trace, or a damaged one) becomes `otherwise`.
template <typename Enum>
Enum FromProto(int value, Enum otherwise = Enum{}) {
  const bool fits = value >= 0 && value <= 255;
  return fits && *EnumName(static_cast<Enum>(value)) != '\0' ? static_cast<Enum>(value) : otherwise;
}

}  // namespace dlhook::analyzer::ops

#endif  // DLHOOK_ANALYZER_OPS_FROM_PROTO_H_
