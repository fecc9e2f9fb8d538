// `dlhook report`: also what `dlhook run` shows at its end.
#ifndef DLHOOK_ANALYZER_CLI_REPORT_H_
#define DLHOOK_ANALYZER_CLI_REPORT_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/cli/command.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/passes/layer_groups.h"

namespace dlhook::analyzer {

struct ReportOptions {
  std::vector<std::string> tables = {};  // empty: all
  std::string format = "text";
  std::optional<std::string> sort_column = std::nullopt;
  std::optional<size_t> limit = std::nullopt;  // rows of each table; unset: all
  int width = 80;
  LayersBy layers_by = LayersBy::kLayer;  // of the table `layers`: see passes/pass.h
  int layers_depth = 0;
  bool use_framework_evidence = true;  // false: layers by operands, shapes and order alone
};

// Resolves the choices in the model (passes/choices.h): once for each model.
// InvalidArgument, naming what was given and listing what there is, where an option is wrong.
absl::StatusOr<std::string> MakeReport(TraceModel& model, const ReportOptions& options);

}  // namespace dlhook::analyzer

#endif  // DLHOOK_ANALYZER_CLI_REPORT_H_
