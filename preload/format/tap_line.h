// Splits a oneDNN log line into the fields of its template.
// Thread: the drain's; ParseMilliseconds: any. Pure; no allocation; the input is untrusted.
#pragma once

#include "preload/format/packet_writer.h"

namespace dlhook::inline format {

// Fields of trace::OneDnn.
enum OneDnnField {
  kOperation,
  kEngine,
  kPrimitive,
  kImplementation,
  kPropKind,
  kMemoryDescriptors,
  kAttributes,
  kAuxiliary,
  kProblem,
  kOther,
  kOneDnnFieldCount
};

struct TapLine {
  bool is_call;          // an execution or a creation, with a time
  uint64_t duration_ns;  // rounded from the log's milliseconds
  TextSpan identity;     // the line from its operation on, without time and timestamp: equal for equal ops
  TextSpan fields[kOneDnnFieldCount];
};

// `template_fields`: "operation,engine,primitive,…" from the library's own template line, or "" (releases before 2.1
// print none: the number of fields decides); null: do not split into fields. Example line:
// "onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,…,0.026123".
TapLine ParseTapLine(const char* text, size_t size, const char* template_fields);

// Converts milliseconds in printf's %g format ("0.0429688", "9.76562e-05") to nanoseconds. False: something else.
bool ParseMilliseconds(TextSpan text, uint64_t* nanoseconds);

}  // namespace dlhook::inline format
