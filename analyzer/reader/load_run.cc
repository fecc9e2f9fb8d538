// Opens the process traces of a run one after another; an unreadable one does not prevent reading the others.
#include "analyzer/reader/load_run.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/import/kineto/kineto_import.h"
#include "analyzer/io/byte_source.h"
#include "analyzer/io/packet_reader.h"
#include "analyzer/reader/one_job.h"
#include "analyzer/reader/trace_builder.h"

namespace dlhook::analyzer::inline reader {
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

// How much of each trace is read: in proportion, but all of such as an equal share holds.
class Shares {
 public:
  Shares(const LoadOptions& options, uint64_t all_bytes, size_t traces)
      : most_bytes_(all_bytes / 2 > options.most_bytes ? options.most_bytes : UINT64_MAX),
        equal_bytes_(most_bytes_ / std::max<size_t>(traces, 1)),
        fraction_(static_cast<double>(most_bytes_) / static_cast<double>(std::max<uint64_t>(all_bytes, 1))) {}

  double Of(uint64_t bytes) const { return bytes <= equal_bytes_ ? 1 : std::min(fraction_, 1.0); }

 private:
  const uint64_t most_bytes_;
  const uint64_t equal_bytes_;
  const double fraction_;
};

absl::Status LoadTrace(const std::string& path, const LoadOptions& options, double share, const ReadProgress& progress,
                       bool may_be_empty, TraceBuilder* builder) {
  if (IsKinetoTrace(path)) {
    const absl::StatusOr<ImportedTrace> imported = ImportKineto(path, progress);
    if (!imported.ok()) return imported.status();
    absl::Status status = builder->AddTrace(path, {ByteChunk(imported->packets)});
    return status.ok() ? imported->damage : status;
  }
  absl::StatusOr<TraceBytes> trace = TraceBytes::Open(path, options.drain_leftover);
  if (!trace.ok()) return trace.status();
  if (trace->empty() && !trace->leftover_status().ok()) return trace->leftover_status();
  const std::string& note = trace->leftover_note();
  if (trace->empty() && !note.empty()) return absl::DataLossError(absl::StrCat(path, ": the file is empty; ", note));
  if (!note.empty()) builder->Note(note);
  if (trace->empty() && may_be_empty) {
    builder->Note(absl::StrCat(builder->NameOf(path), ": empty: ", kWhyEmpty));
    return absl::OkStatus();
  }
  ReadParts parts;
  if (share < 1) parts = ChooseParts(trace->chunks(), share, options.parts);
  absl::Status status = builder->AddTrace(path, trace->chunks(), progress, std::move(parts));
  return status.ok() ? trace->leftover_status() : status;
}

}  // namespace

absl::StatusOr<LoadedRun> LoadRun(const std::string& path, const LoadOptions& options) {
  return LoadRun(std::vector<std::string>{path}, options);
}

absl::StatusOr<LoadedRun> LoadRun(const std::vector<std::string>& paths, const LoadOptions& options) {
  absl::StatusOr<RunFiles> files = FindRun(paths);
  if (!files.ok()) return files.status();
  if (absl::Status status = CheckOneJob(*files); !status.ok()) return status;
  if (!options.only.empty()) {
    std::erase_if(files->paths, [&](const std::string& file) { return options.only.count(BaseName(file)) == 0; });
  }
  const uint64_t all = SizeOf(files->paths);
  const bool holds_more = all > 0;  // than empty traces
  const Shares shares(options, all, files->paths.size());
  uint64_t done_before = 0;
  TraceBuilder builder(*files);
  for (const std::string& sentence : files->elsewhere) builder.Note(sentence);
  LoadedRun run;
  for (const std::string& file : files->paths) {
    ReadProgress progress;
    if (options.progress) progress = [&](uint64_t done) { options.progress(done_before + done, all); };
    const uint64_t bytes = SizeOf({file});
    absl::Status status = LoadTrace(file, options, shares.Of(bytes), progress, holds_more, &builder);
    if (!status.ok()) run.damage.push_back(std::move(status));
    done_before += bytes;
  }
  run.model = std::move(builder).Build();
  if (absl::Status status = CheckRanks(run.model); !status.ok()) return status;
  if (absl::Status status = CheckSameTime(run.model); !status.ok()) return status;
  return run;
}

}  // namespace dlhook::analyzer::reader
