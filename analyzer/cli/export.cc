// `dlhook export`: run -> model -> profile -> exporter -> file or stdout.
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "analyzer/cli/commands.h"
#include "analyzer/cli/names.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/tables.h"
#include "analyzer/export/exporter.h"
#include "analyzer/export/profile_builder.h"
#include "analyzer/model/losses.h"

namespace dlhook::analyzer::inline cli {
namespace {

struct Options {
  const Exporter* exporter = nullptr;
  ExportOptions of_format = {};
  ProfileOptions of_profile = {};
  std::optional<std::string> out = std::nullopt;  // unset: stdout
};

int Fail(const absl::Status& status) {
  PrintError(absl::StrCat("export: ", status.message()));
  return kExitBadInput;
}

absl::StatusOr<FrameChoice> ReadFrames(const Args& args) {
  FrameChoice choice;
  if (!args.Has("frames")) return choice;
  choice = {.native = false, .python = false, .scopes = false};
  for (const std::string& name : ListOf(args, "frames")) {
    const auto word = FindNamed(FrameWords(), "frames", name);
    if (!word.ok()) return word.status();
    choice.*(*word)->is_chosen = true;
  }
  return choice;
}

absl::StatusOr<double> ReadMinShare(const Args& args) {
  double percent = ExportOptions().min_percent;
  const std::optional<std::string> text = args.Last("min-share");
  if (text && (!absl::SimpleAtod(*text, &percent) || !(percent >= 0 && percent <= 100))) {
    return absl::InvalidArgumentError(absl::StrCat("--min-share expects a number of percent, found '", *text, "'"));
  }
  return percent;
}

absl::StatusOr<Options> OptionsOf(const Args& args) {
  Options options;
  const auto exporter = FindNamed(Exporters(), "format", args.Last("format").value_or("folded"));
  if (!exporter.ok()) return exporter.status();
  options.exporter = *exporter;
  const auto weight = FindNamed(WeightWords(), "weight", args.Last("weight").value_or("time"));
  if (!weight.ok()) return weight.status();
  options.of_format.weight = (*weight)->weight;
  options.of_format.with_lines = args.Has("lines");
  const absl::StatusOr<double> min_percent = ReadMinShare(args);
  if (!min_percent.ok()) return min_percent.status();
  options.of_format.min_percent = *min_percent;
  const absl::StatusOr<FrameChoice> frames = ReadFrames(args);
  if (!frames.ok()) return frames.status();
  options.of_profile.frames = *frames;
  options.of_profile.layer = args.Last("layer").value_or("");
  options.of_profile.function = args.Last("function").value_or("");
  options.out = args.Last("out");
  if (options.exporter->is_binary && !options.out && isatty(STDOUT_FILENO) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.exporter->name, " is not for terminals; expected --out FILE, or a pipe"));
  }
  return options;
}

// A filter that matches nothing is a typing error.
absl::Status CheckFilters(const ProfileOptions& options, const RunAnalysis& analysis) {
  const auto check = [](absl::string_view what, const std::string& name, const std::vector<std::string>& known) {
    const bool is_known = name.empty() || std::find(known.begin(), known.end(), name) != known.end();
    return is_known ? absl::OkStatus() : UnknownName(what, name, known);
  };
  if (absl::Status status = check("function", options.function, FunctionNames(analysis.model())); !status.ok())
    return status;
  if (options.layer.empty()) return absl::OkStatus();
  return check("layer", options.layer, LayerNames(analysis.layers().attribution()));
}

absl::StatusOr<std::string> MakeExport(const Options& options, TraceModel* model) {
  if (model->calls.size() == 0 && model->aggregates.empty()) {
    return absl::NotFoundError(absl::StrCat(model->name,
                                            ": no calls were recorded, so there is nothing to export; `dlhook "
                                            "doctor -- PROGRAM` says why"));
  }
  const RunAnalysis analysis(model);
  if (absl::Status status = CheckFilters(options.of_profile, analysis); !status.ok()) return status;
  const Profile profile = BuildProfile(*model, analysis.layers(), options.of_profile);
  return options.exporter->write(profile, options.of_format);
}

// What the export can't show.
void PrintNotes(const TraceModel& model) {
  for (const std::string& note : model.native_symbols.notes) PrintError(absl::StrCat("export: ", note));
  uint64_t lost = 0;
  for (const ProcessInfo& process : model.processes) {
    for (const Loss& loss : process.losses) lost += CountsCalls(loss.reason) ? loss.calls : 0;
  }
  if (lost > 0) PrintError(absl::StrCat("export: ", lost, " calls were lost and are not in it: see dlhook report"));
}

int RunExport(const Args& args) {
  const absl::StatusOr<Options> options = OptionsOf(args);
  if (!options.ok()) return Fail(options.status());
  absl::StatusOr<LoadedRun> run = OpenRun(args.operands().front());
  if (!run.ok()) return Fail(run.status());
  PrintNotes(run->model);
  int exit_code = run->damage.empty() ? kExitOk : kExitBadInput;
  if (!run->model.processes.empty()) {
    const absl::StatusOr<std::string> bytes = MakeExport(*options, &run->model);
    if (!bytes.ok()) return Fail(bytes.status());
    const OutputKind kind = options->exporter->is_binary ? OutputKind::kBytes : OutputKind::kText;
    if (!options->out) {
      exit_code = std::max(exit_code, PrintOutput(*bytes, kind));
    } else if (const absl::Status status = WriteOutputFile(*options->out, *bytes, kind); !status.ok()) {
      return Fail(status);
    }
  }
  const char* const rest = run->model.processes.empty() ? "" : "; the export holds what is whole";
  for (const absl::Status& status : run->damage) PrintError(absl::StrCat(status.message(), rest));
  return exit_code;
}

template <typename T>
void AppendWords(absl::string_view title, const std::vector<T>& words, absl::string_view T::*meaning,
                 std::string* text) {
  absl::StrAppend(text, "\n", title, ":\n");
  for (const T& word : words) absl::StrAppend(text, absl::StrFormat("  %-11s%s\n", word.name, word.*meaning));
}

std::string Details() {
  std::string text =
      "Every call appears in the stack in which it was made: Python's functions, the\n"
      "framework's operators or native functions, then the call with its problem.\n"
      "Calls of which only totals were kept appear under \"[no stack kept]\".\n";
  AppendWords("formats", Exporters(), &Exporter::summary, &text);
  AppendWords("frames", FrameWords(), &FrameWord::meaning, &text);
  AppendWords("weights", WeightWords(), &WeightWord::meaning, &text);
  absl::StrAppend(&text, "\npprof and callgrind hold all weights, and lines.\n");
  return text;
}

}  // namespace

Command ExportCommand() {
  return {.name = "export",
          .summary = "calls by stack, for flame graphs, pprof, KCachegrind, Graphviz",
          .operands = "RUN",
          .flags = {{"format", "FORMAT", "folded, pprof, callgrind or dot (default: folded)"},
                    {"out", "FILE", "write there instead of to stdout", 'o'},
                    {"weight", "WEIGHT", "of folded and dot: what counts (default: time)"},
                    {"frames", "KIND[,KIND]...", "frames around a call (default: native,python,scopes)"},
                    {"lines", "", "of folded: names of frames with lines"},
                    {"min-share", "PERCENT", "of dot: leave out what is below (default: 0.5)"},
                    {"layer", "NAME", "only calls of this layer"},
                    {"function", "NAME", "only calls of this function and calls inside them"}},
          .examples = {{"dlhook export RUN | flamegraph.pl --countname ns >run.svg", "a flame graph"},
                       {"dlhook export RUN --format pprof -o run.pb.gz",
                        "for go tool pprof -http : run.pb.gz, or speedscope"},
                       {"dlhook export RUN --format callgrind -o callgrind.out.run",
                        "for kcachegrind or callgrind_annotate"},
                       {"dlhook export RUN --format dot | dot -Tsvg >run.svg", "a graph of who calls whom"},
                       {"dlhook export RUN --frames layer,native --layer features.0", "one layer's stacks"}},
          .min_operands = 1,
          .max_operands = 1,
          .details = Details,
          .run = RunExport};
}

}  // namespace dlhook::analyzer::cli
