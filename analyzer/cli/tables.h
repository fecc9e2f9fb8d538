// Shared by commands that show tables: opening a run, the flags --table and those for layers, making tables.
#pragma once

#include "analyzer/analysis/layer_analysis.h"
#include "analyzer/calls/choices.h"
#include "analyzer/cli/output.h"
#include "analyzer/diff/diff_runs.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/peaks/peaks.h"
#include "analyzer/reader/load_run.h"
#include "analyzer/render/renderer.h"
#include "analyzer/steps/phases.h"
#include "analyzer/table/table.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer::inline cli {

// How much of a run is read: see LoadOptions.
struct Reading {
  uint64_t most_bytes = UINT64_MAX;
  size_t parts = 1;
};
// Tables count everything, and so do the commands made of tables: they read whole runs. The answer needs enough steady
// steps within a second or two. Many parts are spread more evenly, few parts have room for longer steps: tried in this
// order.
inline constexpr Reading kWholeReading = {};
inline constexpr Reading kAnswerReadings[] = {{16 << 20, 128}, {16 << 20, 8}, kWholeReading};
// Whether the steps in the parts that were read are enough. True if the whole run was read.
bool HasEnoughSteps(const TraceModel& model, const std::vector<StepTrack>& tracks);

// Reads a run, with progress on a terminal and including what killed processes left in their rings, and names its
// native stacks.
absl::StatusOr<LoadedRun> OpenRun(const std::string& path);
absl::StatusOr<LoadedRun> OpenRun(const std::vector<std::string>& paths, const Reading& reading, Progress& progress);

// The most recently changed folder in `folder` that contains process traces.
absl::StatusOr<std::string> LatestRun(const std::string& folder);

// All values of a flag that takes comma-separated lists and may be repeated.
std::vector<std::string> ListOf(const Args& args, absl::string_view flag);

inline constexpr absl::string_view kAllTables = "all";
// In the order requested, without duplicates; all for an empty list, or "all". InvalidArgument names the unknown one
// and the valid ones.
absl::StatusOr<std::vector<const TableKind*>> FindTables(const std::vector<std::string>& names);

// --by (and behind it the command's own), --interval, --depth, --evidence, --function and --only.
std::vector<std::string> ByWords();  // the values of --by
absl::string_view TableOfBy(By by);  // the first that has it
std::vector<Flag> TableFlags(const std::optional<Flag>& behind_by = std::nullopt);
absl::StatusOr<TableOptions> ReadTableFlags(const Args& args);
// How tables are printed: --format, by default text, and --color. An error with --html, too: the page is a format of its own.
struct OutputFlags {
  const Renderer* renderer = nullptr;
  bool color = false;
};
absl::StatusOr<OutputFlags> ReadOutputFlags(const Args& args);
// The last action of a command whose tables are of no run; returns the exit code. `most_rows`: of each in text.
int PrintTables(const OutputFlags& flags, std::vector<Table> tables, size_t most_rows = SIZE_MAX);
// --limit: rows of each table; unset: all.
absl::StatusOr<std::optional<size_t>> ReadLimitFlag(const Args& args, bool is_text);
// InvalidArgument: the run has no such function or kind of op.
absl::Status CheckFunctions(const TraceModel& model, const std::vector<std::string>& functions);

// What tables need from a run, computed once for all of them.
class RunAnalysis {
 public:
  // `model` must outlive it. Resolves its choices (calls/choices.h): call once per model. `wanted`: what flags say.
  explicit RunAnalysis(TraceModel* model, const TableOptions& wanted = {}, Peaks peaks = {});
  RunAnalysis(const RunAnalysis&) = delete;
  RunAnalysis& operator=(const RunAnalysis&) = delete;

  // One table per kind, checked.
  absl::StatusOr<std::vector<Table>> MakeTables(const std::vector<const TableKind*>& kinds,
                                                Progress* progress = nullptr) const;

  const TraceModel& model() const { return model_; }
  const TableOptions& options() const { return options_; }  // with what was computed
  const LayerAnalysis& layers() const { return layers_; }
  const RunTotals& totals() const { return totals_; }

 private:
  const TraceModel& model_;
  const Choices choices_;
  const RunTotals totals_;
  const LayerAnalysis layers_;
  const Peaks peaks_;
  TableOptions options_;
};

// dlhook diff on folders of runs.
absl::StatusOr<RunsDiff> DiffFolders(const std::vector<std::string>& base, const std::vector<std::string>& others);

// --ignore and --ignore-file: findings to leave out.
std::vector<Flag> IgnoreFlags();

// RULE or RULE:WHERE each. Without --ignore-file also those in the user's own .dlhook-ignore in the working folder, if
// there is one.
// InvalidArgument: an unknown rule (lists the known ones), or an unreadable file.
absl::StatusOr<std::vector<std::string>> ReadIgnored(const Args& args);

// `dlhook report --explain`: the columns, from the tables of an empty run, and the words of docs/glossary.md.

// One of each kind, with columns and without rows.
absl::StatusOr<std::vector<Table>> EmptyTables();

// `name`: a column, TABLE.COLUMN, a table (all its columns), a word of the glossary, or "all". Lines of at most `width`.
// InvalidArgument suggests what was probably meant.
absl::StatusOr<std::string> Explain(const std::vector<Table>& tables, const std::string& name, int width, bool color);

}  // namespace dlhook::analyzer::cli
