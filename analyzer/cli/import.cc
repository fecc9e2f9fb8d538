// `dlhook import`: other tools' traces -> a run folder.

#include "analyzer/cli/output.h"
#include "analyzer/cli/run_file.h"
#include "analyzer/import/imported_traces.h"
#include "analyzer/io/byte_source.h"

namespace dlhook::analyzer::inline cli {
namespace {

// "PROGRAM-PID[-N].dlh", as the shim names them.
std::string NewTrace(const std::string& folder, const ImportedTrace& trace) {
  const std::string stem = absl::StrCat(folder, "/", trace.program, "-", trace.pid);
  for (int number = 1;; ++number) {
    const std::string path = absl::StrCat(stem, number == 1 ? "" : absl::StrCat("-", number), kTraceSuffix);
    if (access(path.c_str(), F_OK) != 0) return path;
  }
}

absl::StatusOr<int> RunImport(const Args& args) {
  ASSIGN_OR_RETURN(const RunFiles files, FindRun(args.operands()));
  for (const std::string& path : files.paths) {
    if (!IsOthersTrace(path)) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": is neither a trace of torch.profiler's (JSON, also packed) nor an SQLite export of Nsight Systems"));
    }
  }
  ASSIGN_OR_RETURN(const RunPlace place, MakeRunPlace(args, "import"));
  Progress progress(absl::StrJoin(args.operands(), " "));
  int exit_code = kExitOk, imported = 0;
  LastTraces traces;
  for (const std::string& path : files.paths) {
    const absl::StatusOr<ByteSource> file = ByteSource::Open(path);
    const uint64_t all = file.ok() ? file->size() : 0;
    absl::StatusOr<std::vector<ImportedTrace>> of_file =
        ImportTraces(path, [&](uint64_t done) { progress.Show("reading", done, all); });
    progress.Clear();
    if (!of_file.ok()) {
      exit_code = Fail("import", of_file.status());
      continue;
    }
    if (const absl::Status& damage = of_file->front().damage; !damage.ok()) {
      exit_code = Fail("import", absl::StrCat(damage.message(), "; what is before it is imported"));
    }
    traces.Add(path, *std::move(of_file));
  }
  if (const std::string note = traces.Note(); !note.empty()) PrintError(absl::StrCat("import: ", note));
  for (const LastTraces::Trace& trace : traces.Take()) {
    RETURN_IF_ERROR(WriteOutputFile(NewTrace(place.path, trace.imported), trace.imported.packets, OutputKind::kBytes));
    ++imported;
  }
  if (imported == 0) {
    place.file->RemoveIfLast();
    rmdir(place.path.c_str());  // if it is empty
    return exit_code;
  }
  PrintOutput(absl::StrCat(imported, imported == 1 ? " trace" : " traces", " imported; next: dlhook report ",
                           place.path, "\n"));
  return exit_code;
}

}  // namespace

Command ImportCommand() {
  return {.name = "import",
          .summary = "make a run of traces of torch.profiler or Nsight Systems",
          .operands = "TRACE...",
          .flags = {RunFolderFlag()},
          .examples = {{"dlhook import trace.json.gz -o RUN", "a run of one process"},
                       {"dlhook import rank*.json -o RUN", "of the ranks of a job"}},
          .operand_count = {1, SIZE_MAX},
          .run = RunImport};
}

}  // namespace dlhook::analyzer::cli
