// `dlhook export`: run -> model -> profile -> exporter -> file or stdout.

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "analyzer/cli/run_file.h"
#include "analyzer/cli/tables.h"
#include "analyzer/export/exporter.h"
#include "analyzer/model/process_info.h"
#include "analyzer/profile/profile_builder.h"

namespace dlhook::analyzer::inline cli {
namespace {

struct Options {
  const Exporter* exporter = nullptr;
  ExportOptions of_format = {};
  ProfileOptions of_profile = {};
  std::optional<std::string> out = std::nullopt;  // unset: stdout
};

absl::StatusOr<FrameChoice> ReadFrames(const Args& args) {
  FrameChoice choice;
  if (!args.Has("frames")) return choice;
  choice = {.native = false, .python = false, .scopes = false};
  for (const std::string& name : ListOf(args, "frames")) {
    ASSIGN_OR_RETURN(const FrameWord* const word, FindNamed(FrameWords(), "frames", name));
    choice.*word->is_chosen = true;
  }
  return choice;
}

absl::StatusOr<Options> ExportOptionsOf(const Args& args) {
  Options options;
  ASSIGN_OR_RETURN(options.exporter, FindNamed(Exporters(), "format", args.Last("format").value_or("folded")));
  ASSIGN_OR_RETURN(const auto* const weight, FindNamed(WeightWords(), "weight", args.Last("weight").value_or("time")));
  options.of_format.weight = weight->weight;
  options.of_format.with_lines = args.Has("lines");
  options.of_format.python = args.Last("python").value_or(options.of_format.python);
  ASSIGN_OR_RETURN(options.of_profile.frames, ReadFrames(args));
  const std::string only = args.Last("only").value_or("host");
  if (only != "host" && only != "gpu" && only != "library") {
    return UnknownName("--only", only, {"host", "gpu", "library"});
  }
  if (only == "gpu") options.of_format.weight = Weight::kGpuTime;
  options.of_profile.library_only = only == "library";
  options.of_profile.layer = args.Last("layer").value_or("");
  options.of_profile.function = args.Last("function").value_or("");
  options.out = args.Last("output");
  if (options.exporter->of_tables != nullptr && !options.out) {
    return absl::InvalidArgumentError(absl::StrCat(options.exporter->name, options.exporter->is_folder
                                                                               ? " is a folder; expected -o FOLDER"
                                                                               : " is a file; expected -o FILE"));
  }
  std::error_code error;
  if (options.exporter->is_folder && std::filesystem::exists(*options.out, error)) {
    return absl::InvalidArgumentError(absl::StrCat(*options.out, " exists; expected the name of a new folder"));
  }
  if (options.exporter->is_binary && !options.out && isatty(STDOUT_FILENO) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.exporter->name, " is not for terminals; expected -o FILE, or a pipe"));
  }
  return options;
}

// A filter that matches nothing is a typing error.
absl::Status CheckFilters(const ProfileOptions& options, const RunAnalysis& analysis) {
  const auto check = [](absl::string_view what, const std::string& name, const std::vector<std::string>& known) {
    const bool is_known = name.empty() || absl::c_linear_search(known, name);
    return is_known ? absl::OkStatus() : UnknownName(what, name, known);
  };
  RETURN_IF_ERROR(check("function", options.function, FunctionNames(analysis.model())));
  if (options.layer.empty()) return absl::OkStatus();
  return check("layer", options.layer, LayerNames(analysis.layers().attribution()));
}

absl::Status CheckCalls(const TraceModel& model) {
  if (model.calls.size() > 0 || model.scopes.size() > 0 || !model.aggregates.empty()) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(model.name,
                                          ": neither calls nor operations were recorded, so there is nothing to "
                                          "export; `dlhook doctor -- PROGRAM` says why"));
}

Timeline TimelineOf(const RunAnalysis& analysis, Progress& progress) {
  return {analysis.model(), analysis.layers(),
          [&progress](uint64_t done, uint64_t all) { progress.Show("exporting", done, all); }};
}

absl::Status MakeExport(const Options& options, const RunAnalysis& analysis, Progress& progress, TakeOutput take) {
  if (options.exporter->of_profile != nullptr) {
    const Profile profile = BuildProfile(analysis.model(), analysis.layers(), options.of_profile);
    return take(options.exporter->of_profile(profile, options.of_format));
  }
  ExportOutput output(take);
  options.exporter->of_timeline(TimelineOf(analysis, progress), output);
  return output.Finish();
}

// Takes the place of the old file only when it is whole.
absl::Status WriteDatabase(const Options& options, const RunAnalysis& analysis, Progress& progress) {
  ASSIGN_OR_RETURN(const auto kinds, FindTables({}));
  ASSIGN_OR_RETURN(const std::vector<Table> tables, analysis.MakeTables(kinds, &progress));
  const std::string part = absl::StrCat(*options.out, ".part");
  std::error_code error;
  std::filesystem::remove_all(part, error);
  absl::Status status = options.exporter->of_tables(TimelineOf(analysis, progress), tables, options.of_format, part);
  if (status.ok() && rename(part.c_str(), options.out->c_str()) != 0) {
    status = absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", *options.out));
  }
  if (!status.ok()) std::filesystem::remove_all(part, error);
  return status;
}

absl::Status WriteExport(const Options& options, TraceModel* model, Progress& progress) {
  RETURN_IF_ERROR(CheckCalls(*model));
  ASSIGN_OR_RETURN(Peaks peaks, FindPeaks(*model, std::nullopt));
  const RunAnalysis analysis(model, {}, std::move(peaks));
  RETURN_IF_ERROR(CheckFilters(options.of_profile, analysis));
  progress.Show("finding layers and steps of");
  if (options.exporter->of_tables != nullptr) return WriteDatabase(options, analysis, progress);
  const OutputKind kind = options.exporter->is_binary ? OutputKind::kBytes : OutputKind::kText;
  const auto make = [&](TakeOutput take) { return MakeExport(options, analysis, progress, take); };
  if (options.out) return WriteOutputFile(*options.out, kind, make);
  const absl::Status status = make([&](absl::string_view piece) { return WriteOutput(piece, kind); });
  return absl::IsOutOfRange(status) ? absl::OkStatus() : status;  // the reader has seen enough
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

absl::StatusOr<int> RunExport(const Args& args) {
  ASSIGN_OR_RETURN(const Options options, ExportOptionsOf(args));
  const std::string& path = args.operands().front();
  Progress progress(path);
  ASSIGN_OR_RETURN(LoadedRun run, OpenRun({path}, kWholeReading, progress));
  progress.Clear();
  PrintNotes(run.model);
  if (!run.model.processes.empty()) {
    const absl::Status status = WriteExport(options, &run.model, progress);
    progress.Clear();
    RETURN_IF_ERROR(status);
  }
  const char* const rest = run.model.processes.empty() ? "" : "; the export holds what is whole";
  for (const absl::Status& status : run.damage) PrintError(absl::StrCat(status.message(), rest));
  return run.damage.empty() ? kExitOk : kExitBadInput;
}

std::string ExportLists() {
  constexpr int kNameWidth = 11;
  return RegistryText("formats", Exporters(), &Exporter::summary, kNameWidth) +
         RegistryText("frames", FrameWords(), &FrameWord::meaning, kNameWidth) +
         RegistryText("weights", WeightWords(), &WeightWord::meaning, kNameWidth);
}

}  // namespace

Command ExportCommand() {
  return {.name = "export",
          .summary = "convert a run for other tools: flame graphs, pprof, Perfetto, SQLite",
          .operands = "RUN",
          .flags = {{"format", "FORMAT", "how to write it: see below (default: folded)"},
                    {.name = "output",
                     .value = "FILE",
                     .help = "write to FILE instead of stdout",
                     .letter = 'o',
                     .alias = "out"},
                    {"weight", "WEIGHT", "folded: what to add up (default: time)"},
                    {"frames", "KIND[,KIND]...", "frames around a call (default: native,python,scopes)"},
                    {"lines", "", "folded: add line numbers to frames"},
                    {"python", "PYTHON", "parquet: interpreter with pyarrow (default: python3 in the PATH)"},
                    {"only", "WHAT", "host (default), gpu (as --weight gpu_time), library (by thread time)"},
                    {"layer", "NAME", "only what belongs to this layer"},
                    {"function", "NAME", "only calls of this function and calls inside them"}},
          .examples = {{"dlhook export RUN | flamegraph.pl --countname ns >run.svg", "a flame graph"},
                       {"dlhook export RUN --format pprof -o run.pb.gz",
                        "for go tool pprof -http : run.pb.gz, or speedscope"},
                       {"dlhook export RUN --format callgrind -o callgrind.out.run",
                        "for kcachegrind or callgrind_annotate"},
                       {"dlhook export RUN --format perfetto -o run.perfetto-trace", "a timeline, for ui.perfetto.dev"},
                       {"dlhook export RUN --format sqlite -o run.sqlite", "a database"},
                       {"dlhook export RUN --frames layer,native --layer features.0", "one layer's stacks"}},
          .operand_count = {1, 1},
          .details =
              "By stack (folded, pprof, callgrind): the time of steady steps, divided as in the table\n"
              "accounting: library calls, the framework's ops, what is not seen, data loading and waiting,\n"
              "each under Python's functions, the framework's operators or native functions; and what GPUs\n"
              "did. pprof and callgrind hold all weights, and lines. --only library: every library call\n"
              "of the run, by thread time.\n"
              "Timelines (perfetto, chrome): steps, threads, GPU streams and counters.\n"
              "Everything as tables: sqlite, parquet. The flags above choose stacks.\n",
          .lists = ExportLists,
          .run = RunExport};
}

}  // namespace dlhook::analyzer::cli
