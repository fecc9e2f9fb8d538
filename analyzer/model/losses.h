// What the losses of a trace count.
#pragma once

#include "analyzer/model/trace_enums.h"

namespace dlhook::analyzer::inline model {

// For these, Loss.calls counts scopes.
inline bool CountsScopes(LossReason reason) {
  return reason == LossReason::kScopesTooDeep || reason == LossReason::kTraceLimit;
}

// For these, counter readings.
inline bool CountsReadings(LossReason reason) { return reason == LossReason::kReadingsDropped; }

// For these, GPU activities, or links to their calls.
inline bool CountsGpuRecords(LossReason reason) {
  return reason == LossReason::kGpuBuffersFull || reason == LossReason::kGpuRecordsDropped;
}

// For these, intervals of CPU time without a sample.
inline bool CountsSamples(LossReason reason) { return reason == LossReason::kSamplesDropped; }

// For these, profiles and programs of a compiler's library.
inline bool CountsProfiles(LossReason reason) { return reason == LossReason::kProfilesDropped; }

inline bool CountsCalls(LossReason reason) {
  return !CountsScopes(reason) && !CountsReadings(reason) && !CountsGpuRecords(reason) && !CountsSamples(reason) &&
         !CountsProfiles(reason);
}

// The noun for Loss.calls.
inline const char* LossNoun(LossReason reason, bool is_one) {
  if (CountsScopes(reason)) return is_one ? "scope" : "scopes";
  if (CountsReadings(reason)) return is_one ? "reading of counters" : "readings of counters";
  if (CountsSamples(reason)) return is_one ? "sample" : "samples";
  if (CountsProfiles(reason)) return is_one ? "profile or program of XLA" : "profiles and programs of XLA";
  if (reason == LossReason::kGpuBuffersFull) return is_one ? "activity of a GPU" : "activities of GPUs";
  if (CountsGpuRecords(reason)) return is_one ? "record of GPU work" : "records of GPU work";
  return is_one ? "call" : "calls";
}

}  // namespace dlhook::analyzer::model
