#include "analyzer/cli/tables.h"

#include <filesystem>

#include "analyzer/cli/run_file.h"
#include "analyzer/findings/findings_table.h"
#include "analyzer/findings/rules.h"
#include "analyzer/io/ring_file.h"
#include "analyzer/model/beside.h"
#include "analyzer/symbols/add_symbols.h"
#include "analyzer/table/table_ops.h"
#include "analyzer/tables/calls/replayed.h"

namespace dlhook::analyzer::inline cli {
namespace {

constexpr int64_t kMaxIntervalMs = 24 * 3600 * 1000;

absl::Status ReadBy(const Args& args, TableOptions* options) {
  const std::optional<std::string> word = args.Last("by");
  if (!word) return absl::OkStatus();
  const auto* const known = absl::c_find(kByNames, *word);
  if (known == std::end(kByNames)) return UnknownName("word of --by", *word, ByWords());
  options->by = static_cast<By>(known - kByNames);
  const std::vector<std::string> tables = ListOf(args, "table");
  for (auto [table, choice] : RowChoices()) {
    if (!absl::c_linear_search(tables, table) || absl::c_linear_search(choice, *options->by)) continue;
    absl::c_sort(choice);
    std::vector<absl::string_view> expected;
    for (const By by : choice) expected.push_back(kByNames[static_cast<size_t>(by)]);
    return Unexpected(absl::StrCat("by of the table ", table), OneOf(expected), *word);
  }
  return absl::OkStatus();
}

constexpr char kFile[] = ".dlhook-ignore";
constexpr uint64_t kMostIgnoreBytes = 1 << 20;

absl::Status CheckRule(const std::string& ignored) {
  std::vector<std::string> known;
  for (const Rule& rule : Rules()) known.emplace_back(rule.id);
  const std::string rule(RuleOfIgnored(ignored));
  if (absl::c_linear_search(known, rule)) return absl::OkStatus();
  return UnknownName("rule", rule, known);
}

// One per line; # starts a comment.
absl::Status AddLines(const std::string& path, absl::string_view text, std::vector<std::string>* ignored) {
  int line = 0;
  for (const absl::string_view written : absl::StrSplit(text, '\n')) {
    ++line;
    const std::string entry(absl::StripAsciiWhitespace(written.substr(0, written.find('#'))));
    if (entry.empty()) continue;
    if (const absl::Status status = CheckRule(entry); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ":", line, ": ", status.message()));
    }
    ignored->push_back(entry);
  }
  return absl::OkStatus();
}

}  // namespace

bool HasEnoughSteps(const TraceModel& model, const std::vector<StepTrack>& tracks) {
  constexpr size_t kStepsInPart = 4;  // in the mean
  size_t steps = 0;
  for (const StepTrack& track : tracks) steps += track.steps.size();
  return steps >= kStepsInPart * model.read_spans.size();
}

absl::StatusOr<LoadedRun> OpenRun(const std::string& path) {
  Progress progress(path);
  return OpenRun({path}, kWholeReading, progress);
}

absl::StatusOr<LoadedRun> OpenRun(const std::vector<std::string>& paths, const Reading& reading, Progress& progress) {
  absl::StatusOr<LoadedRun> run =
      LoadRun(paths, {.drain_leftover = DrainLeftoverRings,
                      .progress = [&](uint64_t done, uint64_t all) { progress.Show("reading", done, all); },
                      .most_bytes = reading.most_bytes,
                      .parts = reading.parts});
  if (run.ok()) AddSymbols({.cache_folder = CacheFolder()}, &run->model);
  return run;
}

absl::StatusOr<std::string> LatestRun(const std::string& folder) {
  std::string latest;
  std::filesystem::file_time_type latest_time;
  std::error_code error;
  bool has_others = false;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (!entry.is_directory(error)) continue;
    if (!IsOwn(entry.path().string())) {
      has_others = true;
      continue;
    }
    for (const auto& file : std::filesystem::directory_iterator(entry.path(), error)) {
      const auto time = file.last_write_time(error);
      if (file.path().extension().string() != kTraceSuffix || error || (!latest.empty() && time <= latest_time))
        continue;
      latest = entry.path().lexically_normal().string();
      latest_time = time;
    }
  }
  if (!latest.empty()) return latest;
  return absl::NotFoundError(
      absl::StrCat("no run in this folder; expected a folder with process traces (*.dlh), as dlhook run makes one",
                   has_others ? "; those of other users must be named" : ""));
}

std::vector<std::string> ListOf(const Args& args, absl::string_view flag) {
  std::vector<std::string> names;
  for (const std::string& list : args.All(flag)) {
    for (absl::string_view name : absl::StrSplit(list, ',')) names.emplace_back(name);
  }
  return names;
}

absl::StatusOr<std::vector<const TableKind*>> FindTables(const std::vector<std::string>& names) {
  std::vector<const TableKind*> kinds;
  for (const std::string& name : names) {
    if (name == kAllTables) return FindTables({});
    ASSIGN_OR_RETURN(const TableKind* const kind, FindNamed(ReportTables(), "table", name));
    if (!absl::c_linear_search(kinds, kind)) kinds.push_back(kind);
  }
  if (names.empty()) {
    for (const TableKind& kind : ReportTables()) kinds.push_back(&kind);
  }
  return kinds;
}

std::vector<std::string> ByWords() { return {std::begin(kByNames), std::end(kByNames)}; }

absl::string_view TableOfBy(By by) {
  return absl::c_find_if(RowChoices(), [&](const auto& one) { return absl::c_linear_search(one.second, by); })->first;
}

std::vector<Flag> TableFlags(const std::optional<Flag>& behind_by) {
  return Joined({{{"by", "WHAT", "layer, module, type, op, line, function, library, stack; phase, ..."}},
                 behind_by ? std::vector<Flag>{*behind_by} : std::vector<Flag>(),
                 {{"interval", "MS", "rows of the ..._over_time tables in ms (default: one per step)"},
                  {"depth", "N", "fold modules deeper than N into those around them (0: none)"},
                  {"evidence", "all|structure", "structure: layers from calls alone (default: all)"},
                  {"function", "NAME[,NAME]...", "callers, stacks: only these functions or kinds (sgemm_, reorder)"},
                  {"only", "library", "stacks: every library call of the run instead of the steps' time"}}});
}

absl::StatusOr<OutputFlags> ReadOutputFlags(const Args& args) {
  if (args.Has("html") && args.Has("format")) {
    return absl::InvalidArgumentError("--html and --format exclude each other: the page is a format of its own");
  }
  ASSIGN_OR_RETURN(const Renderer* const renderer,
                   FindNamed(Renderers(), "format", args.Last("format").value_or("text")));
  return OutputFlags{renderer, WantsColor(args)};
}

int PrintTables(const OutputFlags& flags, std::vector<Table> tables, size_t most_rows) {
  for (Table& table : tables) {
    if (flags.renderer->name == "text") LimitRows(most_rows, &table);
  }
  return PrintOutput(
      Rendered(*flags.renderer, {.tables = std::move(tables), .width = OutputWidth(), .color = flags.color}));
}

absl::StatusOr<std::optional<size_t>> ReadLimitFlag(const Args& args, bool is_text) {
  size_t limit = is_text ? kTextLimit : 0;
  RETURN_IF_ERROR(ReadNumber<size_t>(args, "limit", "a number of rows", 0, UINT32_MAX, &limit));
  return limit > 0 ? std::optional<size_t>(limit) : std::nullopt;
}

absl::StatusOr<TableOptions> ReadTableFlags(const Args& args) {
  TableOptions options;
  RETURN_IF_ERROR(ReadBy(args, &options));
  int64_t interval_ms = 0;
  RETURN_IF_ERROR(
      ReadNumber<int64_t>(args, "interval", "milliseconds from 1 to a day", 1, kMaxIntervalMs, &interval_ms));
  options.interval_ns = interval_ms * 1'000'000;
  RETURN_IF_ERROR(ReadNumber(args, "depth", "a number of parts of a name (layer1.0.conv2 has three; 0: all of them)", 0,
                             INT_MAX, &options.layers_depth));
  options.use_framework_evidence = args.Last("evidence") != "structure";
  options.functions = ListOf(args, "function");
  const std::optional<std::string> only = args.Last("only");
  if (only && only != "library") return Unexpected("only", "library", *only);
  options.library_only = only.has_value();
  return options;
}

absl::Status CheckFunctions(const TraceModel& model, const std::vector<std::string>& functions) {
  const std::vector<std::string> known = FunctionsAndKinds(model);
  for (const std::string& name : functions) {
    if (!absl::c_linear_search(known, name)) return UnknownName("function", name, known);
  }
  return absl::OkStatus();
}

RunAnalysis::RunAnalysis(TraceModel* model, const TableOptions& wanted, Peaks peaks)
    : model_(*model),
      choices_(ResolveChoices(model)),
      totals_(ComputeTotals(*model)),
      layers_(*model, {.use_framework_evidence = wanted.use_framework_evidence}),
      peaks_(std::move(peaks)),
      options_(wanted) {
  options_.choices = &choices_;
  options_.totals = &totals_;
  options_.analysis = &layers_;
  options_.peaks = &peaks_;
}

absl::StatusOr<std::vector<Table>> RunAnalysis::MakeTables(const std::vector<const TableKind*>& kinds,
                                                           Progress* progress) const {
  std::vector<std::optional<absl::StatusOr<Table>>> made(kinds.size());
  std::atomic<size_t> next = 0;
  const auto make = [&](Progress* shown) {
    for (size_t i; (i = next++) < kinds.size();) {
      if (shown != nullptr) shown->Show(absl::StrCat("table ", kinds[i]->name, " of"));
      made[i] = MakeTable(*kinds[i], model_, options());
    }
  };
  auto others = Beside([&make, is_useful = kinds.size() > 1] {
    if (is_useful) make(nullptr);
  });
  make(progress);
  others.get();
  std::vector<Table> tables;
  for (std::optional<absl::StatusOr<Table>>& table : made) {
    if (!table->ok()) return table->status();
    AddReplayed(model_, &tables.emplace_back(std::move(**table)));
  }
  return tables;
}

std::vector<Flag> IgnoreFlags() {
  return {{"ignore", "RULE[:WHERE]", "leave out findings (of a layer, a line); repeatable"},
          {"ignore-file", "FILE", "file with one of these per line (default: .dlhook-ignore)"}};
}

absl::StatusOr<std::vector<std::string>> ReadIgnored(const Args& args) {
  std::vector<std::string> ignored = args.All("ignore");
  for (const std::string& entry : ignored) RETURN_IF_ERROR(CheckRule(entry));
  const std::optional<std::string> path = args.Last("ignore-file");
  const absl::StatusOr<std::string> text =
      ReadWholeFile(path.value_or(kFile), kMostIgnoreBytes, path ? FileIs::kNamed : FileIs::kFound);
  if (path && !text.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--ignore-file: can't read ", text.status().message()));
  }
  if (text.ok()) {
    RETURN_IF_ERROR(AddLines(path.value_or(kFile), *text, &ignored));
  } else if (!absl::IsNotFound(text.status())) {
    PrintError(absl::StrCat(text.status().message(), "; its rules are not used (--ignore-file names a file)"));
  }
  return ignored;
}

}  // namespace dlhook::analyzer::cli
