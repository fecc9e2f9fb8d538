// Opens the process traces of a run one after another; one that cannot be read does not keep the
// others from being read.
#include "analyzer/model/load_run.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "analyzer/io/byte_source.h"
#include "analyzer/model/trace_builder.h"

namespace dlhook::analyzer {
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

absl::Status LoadTrace(const std::string& path, const LoadOptions& options,
                       const ReadProgress& progress, TraceBuilder* builder) {
  absl::StatusOr<TraceBytes> trace = TraceBytes::Open(path, options.drain_leftover);
  if (!trace.ok()) return trace.status();
  absl::Status status = builder->AddTrace(path, trace->chunks(), progress);
  return status.ok() ? trace->leftover_status() : status;
}

}  // namespace

absl::StatusOr<LoadedRun> LoadRun(const std::string& path, const LoadOptions& options) {
  absl::StatusOr<RunFiles> files = FindRun(path);
  if (!files.ok()) return files.status();
  const uint64_t all = options.progress ? SizeOf(files->paths) : 0;
  uint64_t done_before = 0;
  TraceBuilder builder(files->name);
  LoadedRun run;
  for (const std::string& file : files->paths) {
    ReadProgress progress;
    if (options.progress)
      progress = [&](uint64_t done) { options.progress(done_before + done, all); };
    absl::Status status = LoadTrace(file, options, progress, &builder);
    if (!status.ok()) run.damage.push_back(std::move(status));
    if (options.progress) done_before += SizeOf({file});
  }
  run.model = std::move(builder).Build();
  return run;
}

}  // namespace dlhook::analyzer
