// What the losses of a trace are counted in.
#ifndef DLHOOK_ANALYZER_MODEL_LOSSES_H_
#define DLHOOK_ANALYZER_MODEL_LOSSES_H_

#include "proto/trace.pb.h"

namespace dlhook::analyzer::inline model {

// Of these, Loss.calls counts scopes.
inline bool CountsScopes(trace::Loss::Reason reason) {
  return reason == trace::Loss::SCOPES_TOO_DEEP || reason == trace::Loss::TRACE_LIMIT;
}

// Of these, readings of counters.
inline bool CountsReadings(trace::Loss::Reason reason) { return reason == trace::Loss::READINGS_DROPPED; }

// Of these, what GPUs did, or who asked for it.
inline bool CountsGpuRecords(trace::Loss::Reason reason) {
  return reason == trace::Loss::GPU_BUFFERS_FULL || reason == trace::Loss::GPU_RECORDS_DROPPED;
}

inline bool CountsCalls(trace::Loss::Reason reason) {
  return !CountsScopes(reason) && !CountsReadings(reason) && !CountsGpuRecords(reason);
}

// The noun behind Loss.calls.
inline const char* LossNoun(trace::Loss::Reason reason, bool is_one) {
  if (CountsScopes(reason)) return is_one ? "scope" : "scopes";
  if (CountsReadings(reason)) return is_one ? "reading of counters" : "readings of counters";
  if (reason == trace::Loss::GPU_BUFFERS_FULL) return is_one ? "activity of a GPU" : "activities of GPUs";
  if (CountsGpuRecords(reason)) return is_one ? "record of GPU work" : "records of GPU work";
  return is_one ? "call" : "calls";
}

}  // namespace dlhook::analyzer::model

#endif  // DLHOOK_ANALYZER_MODEL_LOSSES_H_
