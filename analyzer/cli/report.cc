// Run -> model -> tables -> renderer -> stdout.

#include "analyzer/answer/answer.h"
#include "analyzer/cli/run_file.h"
#include "analyzer/cli/tables.h"
#include "analyzer/findings/findings_table.h"
#include "analyzer/io/child_process.h"
#include "analyzer/page/report_page.h"
#include "analyzer/render/renderer.h"
#include "analyzer/table/table_ops.h"

namespace dlhook::analyzer::inline cli {
namespace {

constexpr absl::string_view kProgramOrder = "program";  // value of --sort: rows in their original order

constexpr std::pair<absl::string_view, StepKind> kSteps[] = {
    {"training", StepKind::kTraining}, {"validation", StepKind::kValidation}, {"inference", StepKind::kInference}};

struct ReportOptions {
  bool is_answer = false;  // the answer instead of tables: the screen, or json
  bool asks_for_all = false;
  std::vector<const TableKind*> kinds;
  OutputFlags output;
  bool is_page = false;  // HTML instead: page/report_page.h
  std::optional<std::string> sort_column;
  std::optional<size_t> limit;  // rows per table; unset: all
  int width = OutputWidth(STDOUT_FILENO);
  TableOptions of_tables;
  std::optional<std::string> calibration;     // see FindPeaks
  std::vector<std::string> ignored_findings;  // see findings/findings_table.h
};

// Sorts those tables that have the column.
absl::Status SortTables(const std::string& name, std::vector<Table>* tables) {
  bool found = false;
  std::vector<std::string> known;
  for (Table& table : *tables) {
    for (const Column& column : table.columns) {
      if (!absl::c_linear_search(known, column.name)) known.push_back(column.name);
    }
    if (const std::optional<size_t> column = FindColumn(table, name)) {
      SortBy(*column, &table);
      found = true;
    }
  }
  if (found) return absl::OkStatus();
  return UnknownName("column", name, known, " (dlhook report --explain all says what they are)", " to sort by");
}

// Sorts layers by time, separately for each kind of step, because the heaviest matter most. `--sort program` leaves
// them in the order of the first forward pass.
void SortLayers(Table* table) {
  const size_t weight = ColumnOf(*table, Role::kWeight);
  if (table->name != "layers" || weight == kNoColumn) return;
  std::map<Cell, size_t> sets;  // by the column `step`, in their order
  for (const Row& row : table->rows) sets.try_emplace(row.front(), sets.size());
  absl::c_stable_sort(table->rows, [&](const Row& a, const Row& b) {
    const size_t set_a = sets.at(a.front()), set_b = sets.at(b.front());
    return set_a != set_b ? set_a < set_b : a[weight] > b[weight];
  });
}

// For reports of everything: without a GPU half of the tables are empty.
void LeaveOutEmpty(std::vector<Table>* tables) {
  std::vector<std::string> empty;
  for (const Table& table : *tables) {
    if (table.rows.empty()) empty.push_back(table.name);
  }
  if (empty.empty() || empty.size() == tables->size()) return;
  std::erase_if(*tables, [](const Table& table) { return table.rows.empty(); });
  tables->back().notes.push_back(absl::StrCat("Tables without rows: ", absl::StrJoin(empty, ", "), "."));
}

// Why a table that was asked for may have no rows.
void SayWhyEmpty(std::vector<Table>* tables) {
  constexpr std::pair<absl::string_view, absl::string_view> kWhy[] = {
      {"layers", "No layers were found in this run."},
      {"convolutions", "No convolution was recorded."},
      {"layout", "No tensor was converted to another memory format."},
      {"gemm", "No matrix product was recorded."},
      {"collectives ranks", "No communication between ranks was recorded."},
      {"copies kernels launches devices overlap overlap_over_time guided gpu_idle",
       "No GPU work was recorded; the table capabilities says what was observed."},
      {"compiled", "No compilation by torch.compile was recorded."},
      {"", "Nothing of this kind was recorded; the table capabilities says what was observed."}};
  for (Table& table : *tables) {
    if (!table.rows.empty() || !table.notes.empty()) continue;
    const auto* const why = std::find_if(std::begin(kWhy), std::end(kWhy) - 1, [&](const auto& one) {
      const std::vector<absl::string_view> names = absl::StrSplit(one.first, ' ');
      return absl::c_linear_search(names, table.name);
    });
    table.notes.emplace_back(why->second);
  }
}

// The tables that only flags imply; empty: none.
std::vector<std::string> TablesMeant(const Args& args, std::optional<By> by) {
  if (by) return {std::string(TableOfBy(*by))};
  if (args.Last("depth") || args.Last("step")) return {"layers"};
  if (args.Last("function")) return {"callers"};
  if (args.Last("only")) return {"stacks"};
  if (args.Last("sort") || args.Last("limit") || args.Last("interval")) return {std::string(kAllTables)};
  return {};
}

// --by, --step and --only choose the rows of these tables; they do not apply to others.
absl::Status CheckRowFlags(const Args& args, const std::vector<std::string>& tables) {
  for (const std::string& table : tables) {
    if (args.Last("only") && table != "stacks" && table != kAllTables) {
      return absl::InvalidArgumentError(
          absl::StrCat("--only has no meaning for the table ", table, ", only for stacks"));
    }
    if (table == "layers" || table == kAllTables) continue;
    if (args.Last("step")) {
      return absl::InvalidArgumentError(absl::StrCat("--step has no meaning for the table ", table,
                                                     ", only for layers; phases has all kinds of steps"));
    }
    if (!args.Last("by") || table == "counters" || table == "hotspots" || table == "threads") continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--by has no meaning for the table ", table,
                     ", only for layers, counters, hotspots and threads; work has every op by layer"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ReportOptions> ReportOptionsOf(const Args& args) {
  ReportOptions options;
  options.is_page = args.Has("html");
  ASSIGN_OR_RETURN(options.output, ReadOutputFlags(args));
  const absl::string_view format = options.is_page ? "" : options.output.renderer->name;
  options.sort_column = args.Last("sort");
  options.calibration = args.Last("calibration");
  ASSIGN_OR_RETURN(options.limit, ReadLimitFlag(args, format == "text"));
  ASSIGN_OR_RETURN(options.of_tables, ReadTableFlags(args));
  if (!options.sort_column && !options.is_page) options.of_tables.first_rows = options.limit;
  for (const auto& [word, kind] : kSteps) {
    if (args.Last("step") == word) options.of_tables.layers_of = kind;
  }
  ASSIGN_OR_RETURN(options.ignored_findings, ReadIgnored(args));
  std::vector<std::string> tables = ListOf(args, "table");
  RETURN_IF_ERROR(CheckRowFlags(args, tables));
  if (tables.empty() && !options.is_page) tables = TablesMeant(args, options.of_tables.by);
  ASSIGN_OR_RETURN(options.kinds, FindTables(tables));
  options.is_answer = tables.empty() && (format == "text" || format == "json");
  options.asks_for_all = tables.empty() || tables.front() == kAllTables;
  return options;
}

absl::StatusOr<int> RunExplain(const std::string& name, const ReportOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<Table> tables, EmptyTables());
  ASSIGN_OR_RETURN(const std::string text, Explain(tables, name, options.width, options.output.color));
  return PrintOutput(text);
}

// Resolves the choices in the model (calls/choices.h): call once per model. `path`: of the run, for commands. Unavailable: the answer needs more of the run than was read.
absl::StatusOr<std::string> MakeReport(const std::string& path, TraceModel& model, const ReportOptions& options,
                                       Progress& progress) {
  RETURN_IF_ERROR(CheckFunctions(model, options.of_tables.functions));
  ASSIGN_OR_RETURN(Peaks peaks, FindPeaks(model, options.calibration));
  progress.Show("adding up calls of");
  const RunAnalysis analysis(&model, options.of_tables, std::move(peaks));
  if (options.is_answer) {
    progress.Show("finding layers of");
    analysis.layers().attribution();
    progress.Show("finding steps of");
    if (!HasEnoughSteps(model, analysis.layers().steps())) {
      return absl::UnavailableError("too few steps lie in the parts of the run that were read");
    }
    progress.Show("what could be faster in");
    const StepFacts facts(model, analysis.options());
    const AnswerOptions of_answer = {.run = path,
                                     .width = static_cast<size_t>(options.width),
                                     .color = options.output.color,
                                     .ignored_findings = options.ignored_findings};
    if (options.output.renderer->name != "json") return MakeAnswer(facts, of_answer);
    return AnswerJson(facts, of_answer, [&](const std::string& name) -> absl::StatusOr<Table> {
      ASSIGN_OR_RETURN(const auto kinds, FindTables({name}));
      ASSIGN_OR_RETURN(std::vector<Table> tables, analysis.MakeTables(kinds));
      return std::move(tables.front());
    });
  }
  ASSIGN_OR_RETURN(std::vector<Table> tables, analysis.MakeTables(options.kinds, &progress));
  for (Table& table : tables) {
    if (table.name == "findings") LeaveOut(options.ignored_findings, &table);
  }
  const bool is_for_people = options.output.renderer->is_for_people && !options.is_page;
  if (!options.sort_column && is_for_people) {
    for (Table& table : tables) SortLayers(&table);
  } else if (options.sort_column && *options.sort_column != kProgramOrder) {
    RETURN_IF_ERROR(SortTables(*options.sort_column, &tables));
  }
  if (options.limit) {
    for (Table& table : tables) LimitRows(*options.limit, &table);
  }
  if (options.is_page) {
    progress.Show("the page of");
    return ReportPage(StepFacts(model, analysis.options()), tables);
  }
  if (options.asks_for_all && is_for_people) LeaveOutEmpty(&tables);
  SayWhyEmpty(&tables);
  progress.Clear();
  return Rendered(*options.output.renderer, {&model, std::move(tables), options.width, options.output.color});
}

absl::StatusOr<int> RunReport(const Args& args) {
  ASSIGN_OR_RETURN(const ReportOptions options, ReportOptionsOf(args));
  if (const auto name = args.Last("explain")) return RunExplain(*name, options);
  std::vector<std::string> paths = args.operands();
  if (paths.empty()) {
    ASSIGN_OR_RETURN(const std::string latest, LatestRun("."));
    paths.push_back(latest);
  }
  const std::string named = absl::StrJoin(paths, " ");
  const std::string words = absl::StrJoin(
      paths, " ", [](std::string* out, const std::string& path) { absl::StrAppend(out, ShellWord(path)); });
  Progress progress(named);
  absl::StatusOr<LoadedRun> run;
  absl::StatusOr<std::string> report;
  for (const Reading& reading : kAnswerReadings) {
    // Json has the numbers of tables, which count everything.
    const absl::string_view format = options.output.renderer->name;
    run = OpenRun(paths, options.is_answer && format == "text" ? reading : kWholeReading, progress);
    RETURN_IF_ERROR(run.status());
    if (run->model.processes.empty()) break;
    // What is kept in a file must say by itself what it lacks, if there is a place for it.
    const bool is_kept = options.is_page || (format != "text" && format != "csv");
    for (const absl::Status& status : run->damage) {
      if (is_kept) ++run->model.oddities[std::string(status.message())];
    }
    report = MakeReport(words, run->model, options, progress);
    if (!absl::IsUnavailable(report.status())) break;
  }
  progress.Clear();
  int exit_code = run->damage.empty() ? kExitOk : kExitBadInput;
  absl::StatusOr<int> printed = kExitOk;
  if (!run->model.processes.empty()) {
    RETURN_IF_ERROR(report.status());
    const std::optional<std::string> page = args.Last("html");
    printed = page ? PrintPage(*page, *report) : PrintOutput(*report);
    exit_code = std::max(exit_code, printed.value_or(kExitBadInput));
  }
  const char* const rest = run->model.processes.empty() ? "" : "; the tables show what is whole";
  for (const absl::Status& status : run->damage) PrintError(absl::StrCat(status.message(), rest));
  RETURN_IF_ERROR(printed.status());
  return exit_code;
}

}  // namespace

Command ReportCommand() {
  return {
      .name = "report",
      .summary = "show what is slow, why, and what to do about it",
      .operands = "[RUN]...",
      .flags =
          Joined({{{"table", "NAME[,NAME]...", "these tables, or all; may be repeated"},
                   {"format", "FORMAT", "output format (default: text)"},
                   {"html", "FILE", "write everything as one HTML page with charts"},
                   {"sort", "COLUMN", "sort by this column, largest first; program: layers in program order"}},
                  TableFlags(Flag{"step", "training|validation|inference", "layers in such steps (default: training)"}),
                  {{"limit", "N", "first N rows of each table; 0: all (default: 20 in text)"},
                   {"calibration", "FILE", "use the peaks in this file of dlhook calibrate; off: stated peaks"}},
                  IgnoreFlags(),
                  {{"explain", "WORD", "what a word of a report or a column (TABLE.COLUMN, TABLE, all) means", 0,
                    /*stands_alone=*/true},
                   ColorFlag()}}),
      .examples =
          {{"dlhook report", "the answer for the latest run here"},
           {"dlhook report RUN --table all", "every table that has rows"},
           {"dlhook report RUN --table findings", "what could be faster, with evidence and advice"},
           {"dlhook report RUN --ignore float64:fc1", "without a finding that is intended"},
           {"dlhook report RUN --format json", "the answer for programs and assistants: docs/schema.md"},
           {"dlhook report RUN --table layers,layout", "what each layer costs, and where tensors are converted"},
           {"dlhook report RUN --table ops --sort calls --limit 5", "the five problems that are computed most often"},
           {"dlhook report RUN --html report.html", "the same as one HTML page, which needs no network"},
           {"dlhook report RUN --table ops --format csv >ops.csv", "every row and every column, for a spreadsheet"},
           {"dlhook report RUN --table callers --function sgemm_", "who called this product: function, line, layer"},
           {"dlhook report --explain wall_share", "what the column wall_share holds, and which tables have it"},
           {"dlhook report RUN --color always | less -R", "colours in a pager"}},
      .operand_count = {0, SIZE_MAX},
      .details =
          "Without flags: what ran, where a step's time goes, the heaviest layers, and what could be\n"
          "faster. RUN is a folder of process traces (*.dlh) or one process trace; without RUN the\n"
          "latest one in this folder. Several folders, or a folder of folders, are one run if their\n"
          "traces are of one job. With --format json and no table: the same for programs, at most 8 KB\n"
          "(docs/schema.md). Of a damaged run the readable part is reported; the exit code is then 2,\n"
          "and a message on stderr says what is wrong.\n",
      .lists =
          [] {
            return RegistryText("tables", ReportTables(), &TableKind::summary) +
                   RegistryText("formats", Renderers(), &Renderer::summary);
          },
      .run = RunReport};
}

}  // namespace dlhook::analyzer::cli
