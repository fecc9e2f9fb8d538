// Several runs -> a row each -> one table -> renderer -> stdout.
#include "analyzer/diff/scaling.h"

#include "analyzer/cli/tables.h"
#include "analyzer/page/report_page.h"
#include "analyzer/render/renderer.h"
#include "analyzer/render/text_columns.h"
#include "analyzer/table/table_ops.h"

namespace dlhook::analyzer::inline cli {
namespace {

constexpr size_t kExplanationWidth = 84;

ScalingKind KindOf(const std::string& word) {
  return word == "strong" ? ScalingKind::kStrong : word == "weak" ? ScalingKind::kWeak : ScalingKind::kByBatch;
}

// Reads, measures and releases the run, so that only one of many large runs is in memory.
absl::StatusOr<ScalingRun> Measure(const std::string& path, bool* is_damaged) {
  ASSIGN_OR_RETURN(LoadedRun run, OpenRun(path));
  for (const absl::Status& status : run.damage) PrintError(status.message());
  *is_damaged = *is_damaged || !run.damage.empty();
  if (run.model.processes.empty()) {
    return absl::DataLossError(absl::StrCat(path, ": it has no process trace that can be read"));
  }
  const RunAnalysis analysis(&run.model);
  absl::StatusOr<ScalingRun> measured = MeasureScaling(run.model, analysis.layers().steps());
  if (!measured.ok()) {
    return absl::Status(measured.status().code(), absl::StrCat(path, ": ", measured.status().message()));
  }
  measured->name = path;
  return measured;
}

absl::StatusOr<int> RunScaling(const Args& args) {
  ASSIGN_OR_RETURN(const OutputFlags output, ReadOutputFlags(args));
  const std::vector<std::string>& paths = args.operands();
  if (std::set<std::string>(paths.begin(), paths.end()).size() < paths.size()) {
    return absl::InvalidArgumentError("the same run is given twice");
  }
  bool is_damaged = false;
  std::vector<ScalingRun> runs;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(ScalingRun run, Measure(path, &is_damaged));
    runs.push_back(std::move(run));
  }
  Table table = ScalingTable(std::move(runs), KindOf(args.Last("kind").value_or("auto")));
  RETURN_IF_ERROR(CheckTable(table));
  TakeAwayNonsense(&table);
  const std::optional<std::string> page = args.Last("html");
  ASSIGN_OR_RETURN(const int exit_code,
                   page ? PrintPage(*page, ComparisonPage("scaling", "Scaling", {.tables = {table}}))
                        : PrintTables(output, {table}));
  return is_damaged ? kExitBadInput : exit_code;
}

std::string ScalingLists() {
  std::string text = "\ncolumns:\n";
  for (const Column& column : ScalingTable({}, ScalingKind::kByBatch).columns) {
    absl::StrAppend(&text, "  ", column.name, column.unit.empty() ? "" : absl::StrCat(" (", column.unit, ")"), "\n");
    for (const std::string& line : Wrapped(column.explanation, kExplanationWidth)) {
      absl::StrAppend(&text, "      ", line, "\n");
    }
  }
  return text + RegistryText("formats", Renderers(), &Renderer::summary);
}

}  // namespace

Command ScalingCommand() {
  return {.name = "scaling",
          .summary = "compare runs on different numbers of devices: speed-up, efficiency",
          .operands = "RUN RUN...",
          .flags = {{"kind", "auto|strong|weak", "strong: same batch; weak: same for each device"},
                    {"format", "FORMAT", "text, csv or json (default: text)"},
                    {"html", "FILE", "write one HTML page with charts"},
                    ColorFlag()},
          .examples = {{"dlhook scaling ONE TWO FOUR", "speed-up and efficiency, and what grew with the devices"},
                       {"dlhook scaling ONE FOUR --kind weak", "the same, if the calls do not show the batch size"},
                       {"dlhook scaling ONE TWO FOUR --format csv >scaling.csv", "for a plot"}},
          .operand_count = {2, SIZE_MAX},
          .details =
              "RUNs are runs of one program on different numbers of devices, in any order. Compared are\n"
              "mean steady steps; the run with fewest devices is what the others are measured by.\n\n"
              "Strong scaling: more devices share the same batch. Weak scaling: each device keeps its\n"
              "batch. auto distinguishes them by the batch sizes in the calls; each process is taken to\n"
              "have a batch of its own (data parallel).\n",
          .lists = ScalingLists,
          .run = RunScaling};
}

}  // namespace dlhook::analyzer::cli
