// Run -> model -> passes -> tables -> renderer -> stdout.
#include "analyzer/cli/report.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "analyzer/cli/commands.h"
#include "analyzer/cli/load_options.h"
#include "analyzer/cli/output.h"
#include "analyzer/model/load_run.h"
#include "analyzer/passes/pass.h"
#include "analyzer/render/renderer.h"
#include "analyzer/table/table_ops.h"

namespace dlhook::analyzer {
namespace {

constexpr size_t kTextLimit = 20;  // rows of a table that a person still reads

// The element of a registry with this name, or an error that lists all of them.
template <typename T>
absl::StatusOr<const T*> FindNamed(const std::vector<T>& registry, absl::string_view what,
                                   absl::string_view name) {
  for (const T& element : registry) {
    if (element.name == name) return &element;
  }
  const std::string known = absl::StrJoin(registry, ", ", [](std::string* out, const T& element) {
    absl::StrAppend(out, element.name);
  });
  return absl::InvalidArgumentError(
      absl::StrCat("unknown ", what, " '", name, "'; there are ", known));
}

absl::StatusOr<std::vector<const Pass*>> FindPasses(const std::vector<std::string>& names) {
  std::vector<const Pass*> passes;
  for (const std::string& name : names) {
    const absl::StatusOr<const Pass*> pass = FindNamed(Passes(), "table", name);
    if (!pass.ok()) return pass.status();
    if (std::find(passes.begin(), passes.end(), *pass) == passes.end()) passes.push_back(*pass);
  }
  if (names.empty()) {
    for (const Pass& pass : Passes()) passes.push_back(&pass);
  }
  return passes;
}

absl::StatusOr<std::vector<Table>> RunPasses(TraceModel& model,
                                             const std::vector<const Pass*>& passes,
                                             const ReportOptions& wanted) {
  const Choices choices = ResolveChoices(&model);
  const RunTotals totals = ComputeTotals(model);
  const LayerAnalysis analysis(model, {.use_framework_evidence = wanted.use_framework_evidence});
  const PassOptions options = {.choices = &choices,
                               .totals = &totals,
                               .analysis = &analysis,
                               .layers_by = wanted.layers_by,
                               .layers_depth = wanted.layers_depth};
  std::vector<Table> tables;
  for (const Pass* pass : passes) {
    absl::StatusOr<Table> table = pass->run(model, options);
    if (!table.ok()) return table.status();
    if (absl::Status status = CheckTable(*table); !status.ok()) return status;
    tables.push_back(*std::move(table));
  }
  return tables;
}

// Sorts those tables that have the column.
absl::Status SortTables(const std::string& name, std::vector<Table>* tables) {
  bool found = false;
  std::vector<std::string> known;
  for (Table& table : *tables) {
    for (const Column& column : table.columns) {
      if (std::find(known.begin(), known.end(), column.name) == known.end())
        known.push_back(column.name);
    }
    if (const std::optional<size_t> column = FindColumn(table, name)) {
      SortBy(*column, &table);
      found = true;
    }
  }
  if (found) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown column '", name, "' to sort by; there are ", absl::StrJoin(known, ", ")));
}

// For people who asked for everything: a program without GPU has nothing to say in half of the tables.
void LeaveOutEmpty(std::vector<Table>* tables) {
  std::vector<std::string> empty;
  for (const Table& table : *tables) {
    if (table.rows.empty()) empty.push_back(table.name);
  }
  if (empty.empty() || empty.size() == tables->size()) return;
  tables->erase(std::remove_if(tables->begin(), tables->end(), [](const Table& table) { return table.rows.empty(); }),
                tables->end());
  tables->back().notes.push_back(absl::StrCat("Tables without rows: ", absl::StrJoin(empty, ", "), "."));
}

constexpr std::pair<absl::string_view, LayersBy> kLayersBy[] = {{"layer", LayersBy::kLayer},
                                                                {"module", LayersBy::kModule},
                                                                {"type", LayersBy::kType},
                                                                {"op", LayersBy::kOp},
                                                                {"line", LayersBy::kLine}};

// --by, --depth and --evidence.
absl::Status ReadLayerFlags(const Args& args, ReportOptions* options) {
  const std::string by = args.Last("by").value_or("layer");
  const auto* const found =
      std::find_if(std::begin(kLayersBy), std::end(kLayersBy), [&](const auto& known) { return known.first == by; });
  if (found == std::end(kLayersBy)) {
    return absl::InvalidArgumentError(absl::StrCat("--by expects layer, module, type, op or line, found '", by, "'"));
  }
  options->layers_by = found->second;
  const std::string depth = args.Last("depth").value_or("0");
  if (!absl::SimpleAtoi(depth, &options->layers_depth) || options->layers_depth < 0) {
    return absl::InvalidArgumentError(absl::StrCat("--depth expects a number of parts of a name, found '", depth, "'"));
  }
  const std::string evidence = args.Last("evidence").value_or("all");
  if (evidence != "all" && evidence != "structure") {
    return absl::InvalidArgumentError(absl::StrCat("--evidence expects all or structure, found '", evidence, "'"));
  }
  options->use_framework_evidence = evidence == "all";
  return absl::OkStatus();
}

absl::StatusOr<ReportOptions> OptionsOf(const Args& args) {
  ReportOptions options;
  for (const std::string& list : args.All("table")) {
    for (absl::string_view name : absl::StrSplit(list, ',')) options.tables.emplace_back(name);
  }
  options.format = args.Last("format").value_or("text");
  options.sort_column = args.Last("sort");
  options.width = OutputWidth();
  if (options.format == "text") options.limit = kTextLimit;
  if (const std::optional<std::string> text = args.Last("limit")) {
    uint32_t limit = 0;
    if (!absl::SimpleAtoi(*text, &limit)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--limit expects a number of rows, found '", *text, "'"));
    }
    options.limit.reset();
    if (limit > 0) options.limit = limit;
  }
  if (absl::Status status = ReadLayerFlags(args, &options); !status.ok()) return status;
  // Before a large run is read for nothing.
  const auto passes = FindPasses(options.tables);
  if (!passes.ok()) return passes.status();
  const auto renderer = FindNamed(Renderers(), "format", options.format);
  if (!renderer.ok()) return renderer.status();
  return options;
}

int Fail(const absl::Status& status) {
  PrintError(absl::StrCat("report: ", status.message()));
  return kExitBadInput;
}

int RunReport(const Args& args) {
  const absl::StatusOr<ReportOptions> options = OptionsOf(args);
  if (!options.ok()) return Fail(options.status());
  const std::string& path = args.operands().front();
  absl::StatusOr<LoadedRun> run;
  {
    ReadingProgress progress(path);
    run = LoadRun(path,
                  {.drain_leftover = LeftoverDrain(),
                   .progress = [&](uint64_t done, uint64_t all) { progress.Update(done, all); }});
  }
  if (!run.ok()) return Fail(run.status());
  int exit_code = run->damage.empty() ? kExitOk : kExitBadInput;
  if (!run->model.processes.empty()) {
    const absl::StatusOr<std::string> report = MakeReport(run->model, *options);
    if (!report.ok()) return Fail(report.status());
    exit_code = std::max(exit_code, PrintOutput(*report));
  }
  for (const absl::Status& status : run->damage) PrintError(status.message());
  return exit_code;
}

std::string Details() {
  std::string text = "RUN is a folder of process traces (*.dlh) or one process trace.\n\ntables:\n";
  for (const Pass& pass : Passes())
    absl::StrAppend(&text, absl::StrFormat("  %-12s%s\n", pass.name, pass.summary));
  absl::StrAppend(&text, "\nformats:\n");
  for (const Renderer& renderer : Renderers()) {
    absl::StrAppend(&text, absl::StrFormat("  %-12s%s\n", renderer.name, renderer.summary));
  }
  absl::StrAppend(
      &text,
      "\nA damaged run is reported as far as it is whole; then the exit code is 2 and a\n"
      "message on stderr says what is wrong.\n");
  return text;
}

}  // namespace

absl::StatusOr<std::string> MakeReport(TraceModel& model, const ReportOptions& options) {
  const auto passes = FindPasses(options.tables);
  if (!passes.ok()) return passes.status();
  const auto renderer = FindNamed(Renderers(), "format", options.format);
  if (!renderer.ok()) return renderer.status();
  absl::StatusOr<std::vector<Table>> tables = RunPasses(model, *passes, options);
  if (!tables.ok()) return tables.status();
  if (options.sort_column) {
    if (absl::Status status = SortTables(*options.sort_column, &*tables); !status.ok())
      return status;
  }
  if (options.limit) {
    for (Table& table : *tables) LimitRows(*options.limit, &table);
  }
  if (options.tables.empty() && options.format == "text") LeaveOutEmpty(&*tables);
  return (*renderer)->render({&model, *std::move(tables), options.width});
}

Command ReportCommand() {
  return {.name = "report",
          .summary = "tables of where a run spent its time",
          .operands = "RUN",
          .flags = {{"table", "NAME[,NAME]...", "only these tables; may be repeated"},
                    {"format", "FORMAT", "how to write them (default: text)"},
                    {"sort", "COLUMN", "sort by it, largest first"},
                    {"by", "WHAT", "rows of the table layers: layer, module, type, op or line (default: layer)"},
                    {"depth", "N", "fold modules deeper than N into those around them"},
                    {"evidence", "WHICH",
                     "all, or structure: layers from calls alone, not from what the framework tells"},
                    {"limit", "N",
                     "first N rows of each table; 0: all (default: text 20, others all)"}},
          .min_operands = 1,
          .max_operands = 1,
          .details = Details,
          .run = RunReport};
}

}  // namespace dlhook::analyzer
