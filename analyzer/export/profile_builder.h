// From a run to its profile: which calls, under which frames, with which weights.
#ifndef DLHOOK_ANALYZER_EXPORT_PROFILE_BUILDER_H_
#define DLHOOK_ANALYZER_EXPORT_PROFILE_BUILDER_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "analyzer/analysis/layer_analysis.h"
#include "analyzer/export/profile.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline exports {

// Which frames stand around a call's own, from the outermost.
struct FrameChoice {
  bool process = false;
  bool thread = false;
  bool layer = false;  // "features.0 forward"
  bool native = true;  // of a call without a native stack: as if it were false
  bool python = true;
  bool scopes = true;     // of calls without a native stack, which says the same
  bool plumbing = false;  // native functions that only pass a call on
};

struct FrameWord {
  absl::string_view name;
  absl::string_view meaning;
  bool FrameChoice::*is_chosen;
};
const std::vector<FrameWord>& FrameWords();

struct ProfileOptions {
  FrameChoice frames = {};
  // Only calls of this layer or of this function, and what runs inside of them; empty: all.
  std::string layer = {};
  std::string function = {};
};

// A call stands under the call that it was made in; calls of which only totals were kept under "[no stack kept]".
// Without filter the times add up to RunTotals.thread_time_ns. Bytes and FLOPs count once for a call and its other
// views (model/same_work.h). `analysis` is of `model`, which must outlive the profile.
Profile BuildProfile(const TraceModel& model, const LayerAnalysis& analysis, const ProfileOptions& options);

// What a filter may name, each once.
std::vector<std::string> LayerNames(const Attribution& attribution);
std::vector<std::string> FunctionNames(const TraceModel& model);

}  // namespace dlhook::analyzer::exports

#endif  // DLHOOK_ANALYZER_EXPORT_PROFILE_BUILDER_H_
