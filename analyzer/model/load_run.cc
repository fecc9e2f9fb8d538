// Opens the process traces of a run one after another; an unreadable one does not prevent reading the others.
#include "analyzer/model/load_run.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/io/byte_source.h"
#include "analyzer/model/trace_builder.h"

namespace dlhook::analyzer::inline model {
namespace {

uint64_t SizeOf(const std::vector<std::string>& paths) {
  uint64_t size = 0;
  for (const std::string& path : paths) {
    std::error_code error;
    const uintmax_t bytes = std::filesystem::file_size(path, error);
    if (!error) size += bytes;
  }
  return size;
}

absl::Status LoadTrace(const std::string& path, const LoadOptions& options, const ReadProgress& progress,
                       bool may_be_empty, TraceBuilder* builder) {
  absl::StatusOr<TraceBytes> trace = TraceBytes::Open(path, options.drain_leftover);
  if (!trace.ok()) return trace.status();
  if (trace->empty() && !trace->leftover_status().ok()) return trace->leftover_status();
  const std::string& note = trace->leftover_note();
  if (trace->empty() && !note.empty()) return absl::DataLossError(absl::StrCat(path, ": the file is empty; ", note));
  if (!note.empty()) builder->Note(note);
  if (trace->empty() && may_be_empty) {
    builder->Note(absl::StrCat(BaseName(path), ": empty, its process was killed before anything was written"));
    return absl::OkStatus();
  }
  absl::Status status = builder->AddTrace(path, trace->chunks(), progress);
  return status.ok() ? trace->leftover_status() : status;
}

}  // namespace

absl::StatusOr<LoadedRun> LoadRun(const std::string& path, const LoadOptions& options) {
  absl::StatusOr<RunFiles> files = FindRun(path);
  if (!files.ok()) return files.status();
  if (!options.only.empty()) {
    std::erase_if(files->paths, [&](const std::string& file) { return options.only.count(BaseName(file)) == 0; });
  }
  const bool holds_more = SizeOf(files->paths) > 0;  // than empty traces
  const uint64_t all = options.progress ? SizeOf(files->paths) : 0;
  uint64_t done_before = 0;
  TraceBuilder builder(files->name);
  LoadedRun run;
  for (const std::string& file : files->paths) {
    ReadProgress progress;
    if (options.progress) progress = [&](uint64_t done) { options.progress(done_before + done, all); };
    absl::Status status = LoadTrace(file, options, progress, holds_more, &builder);
    if (!status.ok()) run.damage.push_back(std::move(status));
    if (options.progress) done_before += SizeOf({file});
  }
  run.model = std::move(builder).Build();
  return run;
}

}  // namespace dlhook::analyzer::model
