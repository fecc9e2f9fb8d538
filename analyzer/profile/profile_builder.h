// Makes the profile of a run: what took time, under which frames, with which weights.
#pragma once

#include "analyzer/analysis/layer_analysis.h"
#include "analyzer/profile/profile.h"

namespace dlhook::analyzer::inline profiles {

// Frames added around a call's own, from the outermost.
struct FrameChoice {
  bool process = false;
  bool thread = false;
  bool layer = false;  // "features.0 forward"
  bool native = true;  // ignored for calls without a native stack
  bool python = true;
  bool scopes = true;     // for calls without a native stack, which has the same information
  bool plumbing = false;  // native functions that only forward a call
};

struct FrameWord {
  absl::string_view name;
  absl::string_view meaning;
  bool FrameChoice::*is_chosen;
};
const std::vector<FrameWord>& FrameWords();

struct ProfileOptions {
  FrameChoice frames = {};
  bool library_only = false;  // only library calls, by thread time over the whole run
  bool with_kinds = true;  // names of operators and calls end in their kind, "sgemm [library]"; not with library_only
  // Only calls of this layer or function, including nested ones; empty: all.
  std::string layer = {};
  std::string function = {};
};

// The steady steps, divided as in the table `accounting`: library calls, framework, what is not seen, data loading, waiting, and
// what is unattributed; without steps the whole run. In addition each GPU's time in these steps, under a frame of its own. The
// times of the host add up to the wall shares of `accounting` exactly, those of a GPU to the duration of the steps. Calls of
// which only totals were kept have no part in it.
//
// With library_only every library call: the times add up to RunTotals.thread_time_ns; aggregated calls are under "[no stack
// kept]".
//
// A nested call is placed under the outer call. Bytes and FLOPs count once for a call and its other views
// (model/same_work.h). `analysis` belongs to `model`, which must outlive the profile.
Profile BuildProfile(const TraceModel& model, const LayerAnalysis& analysis, const ProfileOptions& options);

// The possible values of the filters, each once.
std::vector<std::string> LayerNames(const Attribution& attribution);
std::vector<std::string> FunctionNames(const TraceModel& model);

}  // namespace dlhook::analyzer::profiles
