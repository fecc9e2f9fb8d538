// `dlhook report`; `dlhook run` prints the same at its end.
#ifndef DLHOOK_ANALYZER_CLI_REPORT_H_
#define DLHOOK_ANALYZER_CLI_REPORT_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/cli/tables.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline cli {

struct ReportOptions {
  std::vector<std::string> tables = {};  // empty: the answer screen if format is "text", else all
  std::string format = "text";
  bool is_page = false;  // HTML instead: page/report_page.h
  std::optional<std::string> sort_column = std::nullopt;
  std::optional<size_t> limit = std::nullopt;  // rows per table; unset: all
  int width = 80;
  bool color = false;
  LayerOptions layers = {};
  std::optional<std::string> calibration = std::nullopt;  // see run_peaks.h
  std::vector<std::string> ignored_findings = {};         // see findings/ignored.h
};

// The most recently changed folder in `folder` that contains process traces.
absl::StatusOr<std::string> LatestRun(const std::string& folder);

// Resolves the choices in the model (calls/choices.h): call once per model. `path`: of the run, as given to the
// command. InvalidArgument for a wrong option: names it and lists the valid ones. Unavailable: the answer needs more of
// the run than was read.
absl::StatusOr<std::string> MakeReport(const std::string& path, TraceModel& model, const ReportOptions& options,
                                       Progress& progress);

}  // namespace dlhook::analyzer::cli

#endif  // DLHOOK_ANALYZER_CLI_REPORT_H_
