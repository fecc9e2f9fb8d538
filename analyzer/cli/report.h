// `dlhook report`: also what `dlhook run` shows at its end.
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
  std::vector<std::string> tables = {};  // empty: the answer screen where format is "text", else all
  std::string format = "text";
  std::optional<std::string> sort_column = std::nullopt;
  std::optional<size_t> limit = std::nullopt;  // rows of each table; unset: all
  int width = 80;
  bool color = false;
  LayerOptions layers = {};
  std::vector<std::string> ignored_findings = {};  // see findings/ignored.h
};

// Resolves the choices in the model (calls/choices.h): once for each model.
// `path`: of the run, as commands take it.
// InvalidArgument, naming what was given and listing what there is, where an option is wrong.
absl::StatusOr<std::string> MakeReport(const std::string& path, TraceModel& model, const ReportOptions& options);

}  // namespace dlhook::analyzer::cli

#endif  // DLHOOK_ANALYZER_CLI_REPORT_H_
