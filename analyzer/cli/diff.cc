// Two runs -> models -> differences -> renderer -> stdout.

#include <deque>

#include "analyzer/cli/tables.h"
#include "analyzer/diff/diff_runs.h"
#include "analyzer/findings/findings_table.h"
#include "analyzer/page/report_page.h"
#include "analyzer/reader/one_job.h"
#include "analyzer/render/renderer.h"
#include "analyzer/table/table_ops.h"
#include "analyzer/work/noise.h"

namespace dlhook::analyzer::inline cli {
namespace {

constexpr ptrdiff_t kTablesOfAll = 3;  // verdict, causes, differences
constexpr const char* kDefaultTables[] = {"layers", "work", "layout"};

struct DiffOptions {
  std::vector<const TableKind*> kinds;
  OutputFlags output;
  TableOptions of_tables;
  std::optional<size_t> limit;
  std::optional<double> fail_above_percent;
  bool hides_noise = false;                        // hide what is only noise
  std::optional<std::string> page = std::nullopt;  // the file of an HTML page instead of the renderer's output
};

// Distinguishes unknown tables from those that can't be compared.
absl::StatusOr<std::vector<const TableKind*>> FindComparable(const std::vector<std::string>& names) {
  const std::vector<std::string> known = NamesOf(ComparableTables());
  std::vector<const TableKind*> kinds;
  for (const std::string& name : names) {
    const absl::StatusOr<const TableKind*> kind = FindNamed(ComparableTables(), "table", name);
    if (!kind.ok() && FindNamed(ReportTables(), "table", name).ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the table ", name, " cannot be compared: its rows have no time per step; tables that can are ",
                       absl::StrJoin(known, ", ")));
    }
    if (!kind.ok()) return kind.status();
    if (!absl::c_linear_search(kinds, *kind)) kinds.push_back(*kind);
  }
  return kinds;
}

// "3%" or "3".
absl::StatusOr<double> ReadPercent(absl::string_view text) {
  absl::string_view number = text;
  absl::ConsumeSuffix(&number, "%");
  double percent = 0;
  if (!absl::SimpleAtod(number, &percent) || !std::isfinite(percent) || percent < 0) {
    return Unexpected("fail-above", "a percentage that is not negative, such as 3%", text);
  }
  return percent;
}

absl::StatusOr<DiffOptions> DiffOptionsOf(const Args& args) {
  DiffOptions options;
  std::vector<std::string> names = ListOf(args, "table");
  if (names.empty() && args.Last("html")) names = NamesOf(ComparableTables());
  if (names.empty()) names.assign(std::begin(kDefaultTables), std::end(kDefaultTables));
  options.page = args.Last("html");
  ASSIGN_OR_RETURN(options.kinds, FindComparable(names));
  ASSIGN_OR_RETURN(options.output, ReadOutputFlags(args));
  ASSIGN_OR_RETURN(options.of_tables, ReadTableFlags(args));
  const bool is_text = options.output.renderer->name == "text" && !options.page;
  options.hides_noise = is_text && !args.Last("limit");
  ASSIGN_OR_RETURN(options.limit, ReadLimitFlag(args, is_text));
  if (const std::optional<std::string> text = args.Last("fail-above")) {
    ASSIGN_OR_RETURN(options.fail_above_percent, ReadPercent(*text));
  }
  return options;
}

// Hides rows that only show noise; tables without other rows are named in one line.
void HideNoise(std::vector<Table>& tables) {
  std::vector<std::string> quiet;
  for (Table& table : tables) {
    const std::optional<size_t> verdict = FindColumn(table, "verdict");
    if (!verdict) continue;
    const size_t before = table.rows.size();
    std::erase_if(table.rows, [&](const Row& row) { return row[*verdict] == Cell("noise"); });
    const size_t hidden = before - table.rows.size();
    if (&table == &tables.front()) continue;
    if (table.rows.empty())
      quiet.push_back(hidden == 0 ? table.name : absl::StrCat(table.name, " (", hidden, " rows)"));
    if (hidden > 0)
      table.notes.push_back(absl::StrCat(hidden, " more rows differ within noise (--limit 0 shows them)."));
  }
  const auto is_quiet = [&](const Table& table) { return &table != &tables.front() && table.rows.empty(); };
  tables.erase(std::remove_if(tables.begin() + 1, tables.end(), is_quiet), tables.end());
  if (quiet.empty()) return;
  tables.back().notes.push_back(
      absl::StrCat("Nothing beyond noise in: ", absl::StrJoin(quiet, ", "), " (--limit 0 shows all)."));
}

// `paths`: several if they are parts of one run.
absl::StatusOr<LoadedRun> OpenSide(const char* side, const std::vector<std::string>& paths) {
  Progress progress(paths.front());
  absl::StatusOr<LoadedRun> run = OpenRun(paths, kWholeReading, progress);
  if (!run.ok()) return absl::Status(run.status().code(), absl::StrCat(side, ": ", run.status().message()));
  if (!run->model.processes.empty()) return run;
  const std::string why = run->damage.empty() ? paths.front() + ": it has no process trace that can be read"
                                              : std::string(run->damage.front().message());
  return absl::DataLossError(absl::StrCat(side, ": ", why));
}

// A side's runs, read. Their places don't change: analyses refer to them.
class OpenedSide {
 public:
  absl::Status Open(const char* side, const std::vector<std::string>& paths, const TableOptions& options) {
    for (const std::vector<std::string>& parts : RunsAmong(paths)) {
      const absl::Status status = Add(side, parts, options);
      RETURN_IF_ERROR(absl::IsOutOfRange(status) ? AddEach(side, parts, options) : status);
    }
    return absl::OkStatus();
  }

  const std::vector<AnalyzedRun>& analyzed() const { return analyzed_; }
  FindingsOfRuns findings() const {
    FindingsOfRuns findings;
    for (const AnalyzedRun& run : analyzed_) findings.push_back(FindAll(StepFacts(*run.model, run.options)));
    return findings;
  }

  // The first run, and those behind it.
  const TraceModel* first() const { return &runs_.front().model; }
  std::vector<const TraceModel*> others() const {
    std::vector<const TraceModel*> others;
    for (size_t i = 1; i < runs_.size(); ++i) others.push_back(&runs_[i].model);
    return others;
  }

  // True: some is damaged.
  bool PrintDamage() const {
    bool any = false;
    for (const LoadedRun& run : runs_) {
      for (const absl::Status& status : run.damage) PrintError(status.message());
      any |= !run.damage.empty();
    }
    return any;
  }

 private:
  absl::Status Add(const char* side, const std::vector<std::string>& parts, const TableOptions& options) {
    ASSIGN_OR_RETURN(LoadedRun run, OpenSide(side, parts));
    runs_.push_back(std::move(run));
    analyses_.emplace_back(&runs_.back().model, options);
    analyzed_.push_back({&runs_.back().model, analyses_.back().options(), runs_.back().failure});
    return absl::OkStatus();
  }

  // Different ranks, but at different times: of each job only one rank was recorded.
  absl::Status AddEach(const char* side, const std::vector<std::string>& paths, const TableOptions& options) {
    PrintError(absl::StrCat("diff: ", side, ": ", absl::StrJoin(paths, ", "),
                            " have different ranks but did not run at the same time: each counts as a separate run"));
    for (const std::string& path : paths) {
      RETURN_IF_ERROR(Add(side, {path}, options));
    }
    return absl::OkStatus();
  }

  std::deque<LoadedRun> runs_;
  std::deque<RunAnalysis> analyses_;
  std::vector<AnalyzedRun> analyzed_;
};

absl::StatusOr<int> PrintDiff(RunsDiff diff, const OpenedSide& base, const OpenedSide& new_side,
                              const DiffOptions& options) {
  if (options.hides_noise) HideNoise(diff.tables);
  if (options.limit) {
    for (Table& table : diff.tables) LimitRows(*options.limit, &table);
  }
  Report report;
  report.run = new_side.first();
  report.base = base.first();
  report.more_runs = new_side.others();
  report.more_bases = base.others();
  report.environment = std::move(diff.environment);
  report.tables = std::move(diff.tables);
  report.width = OutputWidth();
  report.color = options.output.color;
  if (!options.page) return PrintOutput(Rendered(*options.output.renderer, report));
  const std::string title = absl::StrCat(report.base->name, " → ", report.run->name);
  return PrintPage(*options.page, ComparisonPage("diff", title, report));
}

struct Paths {
  std::vector<std::string> base, new_side;
};

absl::Status CheckNoneTwice(const char* flag, const std::vector<std::string>& paths) {
  std::set<std::string> known;
  for (const std::string& path : paths) {
    if (known.insert(path).second) continue;
    return absl::InvalidArgumentError(absl::StrCat(flag, ": ", path, " is given twice: each must be a run of its own"));
  }
  return absl::OkStatus();
}

// BASE NEW, or --base and --new with any number of runs.
absl::StatusOr<Paths> PathsOf(const Args& args) {
  Paths paths = {args.All("base"), args.All("new")};
  if (paths.base.empty() && paths.new_side.empty()) return Paths{{args.operands()[0]}, {args.operands()[1]}};
  if (!args.operands().empty()) {
    return absl::InvalidArgumentError(absl::StrCat("expected BASE NEW or --base RUN... --new RUN..., found both ('",
                                                   args.operands().front(), "' stands behind no flag)"));
  }
  if (paths.base.empty()) return absl::InvalidArgumentError("--new needs --base RUN... to compare with");
  if (paths.new_side.empty()) return absl::InvalidArgumentError("--base needs --new RUN... to compare");
  RETURN_IF_ERROR(CheckNoneTwice("--base", paths.base));
  RETURN_IF_ERROR(CheckNoneTwice("--new", paths.new_side));
  return paths;
}

// Causes, for the first sentence: each with the first sentence of its own.
std::vector<OwnFinding> OwnFindingsOf(const std::vector<FindingChange>& changes) {
  std::vector<OwnFinding> own;
  for (const FindingChange& change : changes) {
    const RuleFinding* const found = change.found;
    const findings::Finding& finding = found->finding;
    if (finding.is_information || !IsCause(found->rule)) continue;
    std::string place = finding.where;
    if (!finding.line.empty() && !absl::StrContains(place, finding.line))
      absl::StrAppend(&place, place.empty() ? "" : ", ", finding.line);
    own.push_back({found->rule,
                   absl::StrCat(found->rule, place.empty() ? "" : absl::StrCat(" (", place, ")"), ": ",
                                absl::StripSuffix(finding.sentence.substr(0, finding.sentence.find(". ")), ".")),
                   finding.gain_ns, change.is_new, change.other_ns, finding.whole_ns});
  }
  return own;
}

absl::StatusOr<int> RunDiff(const Args& args) {
  ASSIGN_OR_RETURN(const DiffOptions options, DiffOptionsOf(args));
  ASSIGN_OR_RETURN(const Paths paths, PathsOf(args));
  OpenedSide base, new_side;
  RETURN_IF_ERROR(base.Open("BASE", paths.base, options.of_tables));
  RETURN_IF_ERROR(new_side.Open("NEW", paths.new_side, options.of_tables));
  const auto before = base.findings();
  const auto after = new_side.findings();
  const std::vector<FindingChange> changes = ChangedFindings(before, after);
  ASSIGN_OR_RETURN(RunsDiff diff,
                   DiffRuns(base.analyzed(), new_side.analyzed(), options.kinds, OwnFindingsOf(changes)));
  diff.tables.insert(diff.tables.begin() + kTablesOfAll, FindingsDiff(changes));
  const Gate gate = options.fail_above_percent ? diff.decision.SlowerThan(*options.fail_above_percent) : Gate::kPasses;
  const absl::StatusOr<int> printed = PrintDiff(std::move(diff), base, new_side, options);
  int exit_code = printed.value_or(kExitBadInput);
  const bool is_base_damaged = base.PrintDamage();
  if (new_side.PrintDamage() || is_base_damaged) exit_code = kExitBadInput;
  if (gate == Gate::kCannotTell) {
    PrintError(
        "diff: --fail-above: NEW is slower by more than this, but there are too few steady steps to tell whether that "
        "is noise");
    exit_code = kExitBadInput;
  }
  RETURN_IF_ERROR(printed.status());
  return exit_code == kExitOk && gate == Gate::kFails ? kExitThreshold : exit_code;
}

}  // namespace

absl::StatusOr<RunsDiff> DiffFolders(const std::vector<std::string>& base, const std::vector<std::string>& others) {
  OpenedSide before, after;
  RETURN_IF_ERROR(before.Open("BASE", base, {}));
  RETURN_IF_ERROR(after.Open("NEW", others, {}));
  return DiffRuns(before.analyzed(), after.analyzed(), {});
}

Command DiffCommand() {
  return {.name = "diff",
          .summary = "show what changed from one run to another, and why",
          .operands = "BASE NEW | --base RUN... --new RUN...",
          .flags = Joined({{{"base", "RUN...", "runs to compare with; their variation counts", 0, true, true},
                            {"new", "RUN...", "runs to compare; their variation counts", 0, true, true},
                            {"table", "NAME[,NAME]...", "only these tables; may be repeated"},
                            {"format", "FORMAT", "output format (default: text)"},
                            {"html", "FILE", "write everything as one HTML page with charts"}},
                           TableFlags(),
                           {{"limit", "N", "first N rows of each table; 0: all (default: 20 in text)"},
                            {"fail-above", "PERCENT", "exit with code 1 if a step got slower by more than this"},
                            ColorFlag()}}),
          .examples = {{"dlhook diff BEFORE AFTER", "whether a step got faster or slower, in which layers, and why"},
                       {"dlhook diff BEFORE AFTER --fail-above 3%", "in CI: exit code 1 if a step takes 3 % longer"},
                       {"dlhook diff --base A1 A2 A3 --new B1 B2 B3",
                        "several runs a side: the interval holds for the next run, too"},
                       {"dlhook diff BEFORE AFTER --table algorithms", "which algorithms the libraries chose instead"},
                       {"dlhook diff BEFORE AFTER --html diff.html", "the same as pictures, changed rows first"},
                       {"dlhook diff BEFORE AFTER --format json", "the same for programs"}},
          .operand_count = {2, 2},
          .details =
              "BASE and NEW are runs (folders of process traces) or process traces; with --base and --new\n"
              "several of each side, which shows how much runs vary; folders with different ranks of one\n"
              "job are one run. Times are compared per steady step, or for whole runs if one of the two\n"
              "has no steps. A change within its noise bound (from the spread over steps) is called noise,\n"
              "and text omits such rows; --limit 0 shows them.\n\n"
              "With --fail-above P the exit code is 1 if a step (a sample, where batches differ) takes\n"
              "longer in NEW by more than P percent and the noise bound together. Of comparisons of\n"
              "programs that are not slower by more than P percent at most 1 in 200 fails, provided that\n"
              "a run lasts six times as long as what disturbs the machine; P must leave room for what\n"
              "lasts for all of one run and not of the other. If NEW is slower by more than P percent and\n"
              "the noise is unknown (fewer than three steps), the exit code is 2. Of damaged runs the\n"
              "readable part is compared; the exit code is then 2.\n",
          .lists =
              [] {
                return RegistryText("tables (default: layers, work, layout)", ComparableTables(), &TableKind::summary) +
                       RegistryText("formats", Renderers(), &Renderer::summary);
              },
          .run = RunDiff};
}

}  // namespace dlhook::analyzer::cli
