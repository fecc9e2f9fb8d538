// `dlhook import`: other tools' traces -> a run folder.

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/cli/command.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/run_file.h"
#include "analyzer/import/kineto/kineto_import.h"
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
    if (!IsKinetoTrace(path)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": is no trace of torch.profiler's (JSON, also packed by gzip or zstd)"));
    }
  }
  ASSIGN_OR_RETURN(const RunPlace place, MakeRunPlace(args, "import"));
  Progress progress(absl::StrJoin(args.operands(), " "));
  int exit_code = kExitOk, imported = 0;
  for (const std::string& path : files.paths) {
    const absl::StatusOr<ByteSource> file = ByteSource::Open(path);
    const uint64_t all = file.ok() ? file->size() : 0;
    const absl::StatusOr<ImportedTrace> trace =
        ImportKineto(path, [&](uint64_t done) { progress.Show("reading", done, all); });
    progress.Clear();
    if (!trace.ok()) {
      exit_code = Fail("import", trace.status());
      continue;
    }
    if (!trace->damage.ok()) {
      exit_code = Fail("import", absl::StrCat(trace->damage.message(), "; what is before it is imported"));
    }
    RETURN_IF_ERROR(WriteOutputFile(NewTrace(place.path, *trace), trace->packets, OutputKind::kBytes));
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
          .summary = "make a run of torch.profiler's traces",
          .operands = "TRACE...",
          .flags = {RunFolderFlag()},
          .examples = {{"dlhook import trace.json.gz -o RUN", "a run of one process"},
                       {"dlhook import rank*.json -o RUN", "of the ranks of a job"}},
          .operand_count = {1, SIZE_MAX},
          .run = RunImport};
}

}  // namespace dlhook::analyzer::cli
