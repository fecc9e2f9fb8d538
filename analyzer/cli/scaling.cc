// Several runs -> a row each -> one table -> renderer -> stdout.
#include "analyzer/diff/scaling.h"

#include "analyzer/cli/command.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/tables.h"
#include "analyzer/page/report_page.h"
#include "analyzer/render/renderer.h"
#include "analyzer/render/text_columns.h"
#include "analyzer/table/table_ops.h"

namespace dlhook::analyzer::inline cli {
namespace {

constexpr size_t kExplanationWidth = 84;

absl::StatusOr<ScalingKind> ReadKind(const Args& args) {
  const std::string kind = args.Last("kind").value_or("auto");
  if (kind == "auto") return ScalingKind::kByBatch;
  if (kind == "strong") return ScalingKind::kStrong;
  if (kind == "weak") return ScalingKind::kWeak;
  return absl::InvalidArgumentError(absl::StrCat("--kind expects auto, strong or weak, found '", kind, "'"));
}

// Reads, measures and releases the run, so that only one of many large runs is in memory.
absl::StatusOr<ScalingRun> Measure(const std::string& path, bool* is_damaged) {
  absl::StatusOr<LoadedRun> run = OpenRun(path);
  if (!run.ok()) return run.status();
  for (const absl::Status& status : run->damage) PrintError(status.message());
  *is_damaged = *is_damaged || !run->damage.empty();
  if (run->model.processes.empty()) {
    return absl::DataLossError(absl::StrCat(path, ": it has no process trace that can be read"));
  }
  const RunAnalysis analysis(&run->model);
  absl::StatusOr<ScalingRun> measured = MeasureScaling(run->model, analysis.layers().steps());
  if (!measured.ok()) {
    return absl::Status(measured.status().code(), absl::StrCat(path, ": ", measured.status().message()));
  }
  measured->name = path;
  return measured;
}

int RunScaling(const Args& args) {
  const absl::StatusOr<ScalingKind> kind = ReadKind(args);
  if (!kind.ok()) return Fail("scaling", kind.status());
  const std::optional<std::string> page = args.Last("html");
  const absl::StatusOr<const Renderer*> renderer = ReadFormatFlag(args);
  if (!renderer.ok()) return Fail("scaling", renderer.status());
  const absl::StatusOr<bool> color = ReadColorFlag(args, STDOUT_FILENO);
  if (!color.ok()) return Fail("scaling", color.status());
  const std::vector<std::string>& paths = args.operands();
  if (std::set<std::string>(paths.begin(), paths.end()).size() < paths.size()) {
    return Fail("scaling", "the same run is given twice");
  }
  bool is_damaged = false;
  std::vector<ScalingRun> runs;
  for (const std::string& path : paths) {
    absl::StatusOr<ScalingRun> run = Measure(path, &is_damaged);
    if (!run.ok()) return Fail("scaling", run.status());
    runs.push_back(*std::move(run));
  }
  Report report;
  report.tables.push_back(ScalingTable(std::move(runs), *kind));
  if (absl::Status status = CheckTable(report.tables.front()); !status.ok()) return Fail("scaling", status);
  TakeAwayNonsense(&report.tables.front());
  report.width = OutputWidth(STDOUT_FILENO);
  report.color = *color;
  const int exit_code = page ? PrintPage("scaling", *page, ComparisonPage("scaling", "Scaling", report))
                             : PrintOutput(Rendered(**renderer, report));
  return is_damaged ? kExitBadInput : exit_code;
}

std::string ScalingDetails() {
  std::string text =
      "RUNs are runs of one program on different numbers of devices, in any order. Compared are\n"
      "mean steady steps; the run with fewest devices is what the others are measured by.\n\n"
      "Strong scaling: more devices share the same batch. Weak scaling: each device keeps its\n"
      "batch. auto distinguishes them by the batch sizes in the calls; each process is taken to\n"
      "have a batch of its own (data parallel).\n\n"
      "columns:\n";
  for (const Column& column : ScalingTable({}, ScalingKind::kByBatch).columns) {
    absl::StrAppend(&text, "  ", column.name, column.unit.empty() ? "" : absl::StrCat(" (", column.unit, ")"), "\n");
    for (const std::string& line : Wrapped(column.explanation, kExplanationWidth)) {
      absl::StrAppend(&text, "      ", line, "\n");
    }
  }
  AppendRegistry("formats", Renderers(), &Renderer::summary, &text);
  return text;
}

}  // namespace

Command ScalingCommand() {
  return {.name = "scaling",
          .summary = "compare runs on different numbers of devices: speed-up, efficiency",
          .operands = "RUN RUN...",
          .flags = {{"kind", "KIND", "auto, strong (same batch) or weak (same for each device)"},
                    {"format", "FORMAT", "text, csv or json (default: text)"},
                    {"html", "FILE", "write one HTML page with charts"},
                    ColorFlag()},
          .examples = {{"dlhook scaling ONE TWO FOUR", "speed-up and efficiency, and what grew with the devices"},
                       {"dlhook scaling ONE FOUR --kind weak", "the same, if the calls do not show the batch size"},
                       {"dlhook scaling ONE TWO FOUR --format csv >scaling.csv", "for a plot"}},
          .min_operands = 2,
          .max_operands = SIZE_MAX,
          .details = ScalingDetails,
          .run = RunScaling};
}

}  // namespace dlhook::analyzer::cli
