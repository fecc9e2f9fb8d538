// Taps: what both the shim and the analyzer need to know about each (preload/tap/README.md).
#pragma once

#include <iterator>

#include "preload/proto_fields.h"

namespace dlhook::inline format {

// In the reason of a capability that is on: a library of a release newer than those with which dlhook was tried, whose
// structure passed all checks. The release follows.
inline constexpr char kNotTriedWith[] = "not tried with";

// In the name of the range around an optimizer's step ("Optimizer.step#SGD.step"), and the name of a range of time in which
// operations were recorded, where they were not always.
inline constexpr char kOptimizerStep[] = "Optimizer.step#";
inline constexpr char kScopeWindowName[] = "[dlhook] scopes recorded";
// The same around a step that a bounded trace keeps because it was slow.
inline constexpr char kSlowStepName[] = "[dlhook] scopes recorded of a slow step";
// A range of no length behind an optimizer's step in which PyTorch's own profiler was on.
inline constexpr char kProfilerIsOn[] = "torch.profiler is on";

// Why there are no GPU times, where the program or its user wanted it so: no loss.
inline constexpr char kBetweenWindows[] = "between windows of DLHOOK_BUDGET";

// Advice to users: what to do, or what is missing, as a sentence; empty: none.
struct TapAdvice {
  const char* missing;            // if lost, absent, or refused by dlhook
  const char* off;                // if the user switched it off
  const char* refused = nullptr;  // if refused and something else helps
  // Refused, and nothing helps: in objects whose file name begins like this.
  const char* hopeless_object = nullptr;
  const char* hopeless = nullptr;
};

struct Tap {
  const char* capability;     // under which its state is reported
  const char* family;         // of DLHOOK_CAPTURE (preload/api/common.api)
  fields::TimeSource source;  // of the calls that it records; kUnknown: it records scopes (DLHOOK_SCOPES)
  const char* library;        // whose copies inside other libraries it also sees; empty: none
  TapAdvice advice;
};

inline constexpr Tap kOneDnnTap = {
    "onednn-tap",
    "onednn",
    fields::TimeSource::kOnednnLog,
    "oneDNN",
    {"", "Leave DLHOOK_ONEDNN and DLHOOK_CAPTURE as they are by default.",
     "If the program works under ONEDNN_VERBOSE=1 without dlhook, set DLHOOK_ONEDNN=force.", "libopenvino",
     "Its primitives fail while it logs; use OpenVINO's own profiling."}};

inline constexpr Tap kRecordFunctionTap = {
    "record-function-tap",
    "record_function",
    fields::TimeSource::kUnknown,
    "",
    {"Layers are then inferred from the calls alone; PyTorch 1.13 and 2.6 to 2.15 were tried.",
     "Leave DLHOOK_SCOPES and DLHOOK_CAPTURE as they are by default."}};

inline constexpr Tap kTraceMeTap = {"trace-me-tap",
                                    "trace_me",
                                    fields::TimeSource::kUnknown,
                                    "",
                                    {"Layers are then inferred from the calls and from Python frames.",
                                     "Leave DLHOOK_SCOPES and DLHOOK_CAPTURE as they are by default."}};

inline constexpr Tap kNvtxTap = {
    "nvtx-tap",
    "nvtx",
    fields::TimeSource::kUnknown,
    "",
    {"NVTX ranges are missing; everything else is recorded.",
     "Unset NVTX_INJECTION64_PATH and leave DLHOOK_SCOPES and DLHOOK_CAPTURE as they are by default."}};

inline constexpr Tap kJaxTap = {"jax-tap",
                                "jax",
                                fields::TimeSource::kUnknown,
                                "",
                                {"Compiled functions are then one row; jaxlib 0.9 to 0.12 on the CPU were tried.",
                                 "Leave DLHOOK_SCOPES and DLHOOK_CAPTURE as they are by default."}};

inline constexpr char kXlaCompiles[] = "XLA compiles ";  // before the program's name: a scope of kind kXlaCompilation

inline constexpr const Tap* kTaps[] = {&kOneDnnTap, &kRecordFunctionTap, &kTraceMeTap, &kNvtxTap, &kJaxTap};

// The tap that records calls with this time source; null: hooks do.
template <typename Source>
constexpr const Tap* TapOfSource(Source source) {
  for (const Tap* tap : kTaps) {
    if (tap->source != fields::TimeSource::kUnknown && static_cast<int>(tap->source) == static_cast<int>(source))
      return tap;
  }
  return nullptr;
}

struct ScopeKindFacts {
  fields::ScopeBatch::Kind kind;
  const Tap* tap;
  const char* plural;  // for the user
  bool is_bracket;     // a user's range around any kind of work; the others are ops or steps of a framework
  bool is_wait;        // a thread mostly waits in it for other threads that do the work
  bool is_compared;    // equally many in equal runs: the diff counts them
};

// In the order of the numbers in proto/call.proto.
inline constexpr ScopeKindFacts kScopeKinds[] = {
    {fields::ScopeBatch::Kind::kUnknown, &kRecordFunctionTap, "other", false, false, false},
    {fields::ScopeBatch::Kind::kFrameworkOp, &kRecordFunctionTap, "operators", false, false, true},
    {fields::ScopeBatch::Kind::kBackwardNode, &kRecordFunctionTap, "backward nodes", false, false, true},
    {fields::ScopeBatch::Kind::kFrameworkRange, &kRecordFunctionTap, "framework ranges", false, false, false},
    {fields::ScopeBatch::Kind::kUserRange, &kRecordFunctionTap, "user's ranges", true, false, true},
    {fields::ScopeBatch::Kind::kGraphNode, &kTraceMeTap, "graph nodes", false, false, true},
    {fields::ScopeBatch::Kind::kTraceMe, &kTraceMeTap, "TraceMe's events", false, true, false},
    {fields::ScopeBatch::Kind::kNvtxRange, &kNvtxTap, "NVTX ranges", true, false, false},
    {fields::ScopeBatch::Kind::kXlaOp, &kJaxTap, "XLA's operations", false, false, false},
    {fields::ScopeBatch::Kind::kXlaCompilation, &kJaxTap, "XLA's compilations", false, false, false},
};

// Unknown kinds are treated as kUnknown.
template <typename Kind>
constexpr const ScopeKindFacts& FactsOf(Kind kind) {
  const auto index = static_cast<size_t>(kind);
  return kScopeKinds[index < std::size(kScopeKinds) ? index : 0];
}

constexpr bool ScopeKindsAreInOrder() {
  for (size_t i = 0; i < std::size(kScopeKinds); ++i) {
    if (static_cast<size_t>(kScopeKinds[i].kind) != i) return false;
  }
  return true;
}
static_assert(ScopeKindsAreInOrder());

}  // namespace dlhook::inline format
