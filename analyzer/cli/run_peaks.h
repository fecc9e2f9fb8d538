// The peaks of the machine that a run is from: measured by `dlhook calibrate`, else stated.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/peaks/peaks.h"

namespace dlhook::analyzer::inline cli {

// `calibration`: a file, or "off": stated peaks only. Not set: the one in the cache folder that fits, if there is one.
// Errors: the file can't be read, or is of another machine.
absl::StatusOr<Peaks> FindPeaks(const TraceModel& model, const std::optional<std::string>& calibration);

// $DLHOOK_CACHE, else $XDG_CACHE_HOME/dlhook, else ~/.cache/dlhook; empty: none ($DLHOOK_CACHE is "off").
std::string CacheFolder();

}  // namespace dlhook::analyzer::cli
