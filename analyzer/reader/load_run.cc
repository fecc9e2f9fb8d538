// Opens the process traces of a run one after another; an unreadable one does not prevent reading the others.
#include "analyzer/reader/load_run.h"

#include <filesystem>

#include "analyzer/import/imported_traces.h"
#include "analyzer/io/packet_reader.h"
#include "analyzer/reader/one_job.h"
#include "analyzer/reader/trace_builder.h"
#include "preload/format/taps.h"
#include "proto/outline.pb.h"
#include "proto/trace.pb.h"

namespace dlhook::analyzer::inline reader {
namespace {

constexpr uint64_t kMostTicks = uint64_t{1} << 62;  // no clock goes as far

// Of these parts would not do: GPUs' work stands apart from the calls that asked for it, and a light tap has parts of its own.
bool NeedsAll(const OnlyField& packet) {
  return packet.number == trace::Packet::kGpuActivityFieldNumber ||
         packet.number == trace::Packet::kGpuLinkFieldNumber ||
         packet.number == trace::Packet::kGpuGraphNodeFieldNumber ||
         (packet.number == trace::Packet::kInternedFieldNumber && absl::StrContains(packet.contents, kScopeWindowName));
}

template <typename Times>
std::optional<BatchOutline> OutlineOf(absl::string_view batch, uint64_t longest_tick) {
  Times times;
  if (!times.ParseFromArray(batch.data(), static_cast<int>(batch.size()))) return std::nullopt;
  if (times.end_delta_ticks_size() != times.duration_size()) return std::nullopt;
  BatchOutline outline = {.thread_id = times.thread_id(), .count = times.duration_size(), .start_ticks = UINT64_MAX};
  uint64_t end = times.base_end_ticks();
  for (int i = 0; i < times.duration_size(); ++i) {
    end += static_cast<uint64_t>(times.end_delta_ticks(i));
    const uint64_t duration = times.duration(i);
    const uint64_t most = duration > UINT64_MAX / longest_tick ? UINT64_MAX : duration * longest_tick;
    outline.start_ticks = std::min(outline.start_ticks, end - std::min(most, end));
    outline.end_ticks = std::max(outline.end_ticks, end);
  }
  return outline;
}

// 0: it is no batch.
uint64_t EndOfBatch(const OnlyField& packet) {
  const std::optional<BatchOutline> outline =
      packet.number == trace::Packet::kCallBatchFieldNumber    ? OutlineOfCalls(packet.contents, 1)
      : packet.number == trace::Packet::kScopeBatchFieldNumber ? OutlineOfScopes(packet.contents)
                                                               : std::nullopt;
  return outline ? outline->end_ticks : 0;
}

uint64_t SizeOf(const std::vector<std::string>& paths) {
  uint64_t size = 0;
  for (const std::string& path : paths) {
    std::error_code error;
    const uintmax_t bytes = std::filesystem::file_size(path, error);
    if (!error) size += bytes;
  }
  return size;
}

absl::Status LoadTrace(const std::string& path, const LoadOptions& options, double share, const ReadProgress& progress,
                       bool may_be_empty, TraceBuilder* builder) {
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

absl::Status ImportInto(const std::string& path, const ReadProgress& progress, LastTraces* imported) {
  absl::StatusOr<std::vector<ImportedTrace>> traces = ImportTraces(path, progress);
  if (traces.ok()) imported->Add(path, *std::move(traces));
  return traces.status();
}

}  // namespace

ReadParts::ReadParts(uint64_t first_end, uint64_t last_ticks, double fraction, size_t count) {
  spans_.emplace_back(0, first_end);
  const double stretch =
      static_cast<double>(last_ticks - first_end) / static_cast<double>(std::max<size_t>(count, 2) - 1);
  for (size_t i = 1; i < count; ++i) {
    const double end = stretch * static_cast<double>(i);
    spans_.emplace_back(first_end + static_cast<uint64_t>(end - stretch * fraction),
                        first_end + static_cast<uint64_t>(end));
  }
  spans_.back().second = UINT64_MAX;
}

bool ReadParts::Has(uint64_t start_ticks, uint64_t end_ticks) const {
  if (spans_.empty()) return true;
  const auto span =
      absl::c_upper_bound(spans_, start_ticks, [](uint64_t ticks, const Span& s) { return ticks < s.second; });
  return span != spans_.end() && span->first <= end_ticks;
}

ReadParts ChooseParts(std::vector<ByteChunk> chunks, double fraction, size_t count) {
  uint64_t bytes = 0;
  for (const ByteChunk& chunk : chunks) bytes += chunk.size();
  const double first_bytes = fraction * static_cast<double>(bytes) / 8;
  PacketReader reader("", std::move(chunks));
  uint64_t first_end = 0, last_ticks = 0;
  while (reader.Next()) {
    const OnlyField packet = OnlyFieldOf(reader.payload());
    if (NeedsAll(packet)) return {};
    if (first_end == 0 && static_cast<double>(reader.bytes_read()) >= first_bytes) first_end = EndOfBatch(packet);
    if (packet.number != trace::Packet::kClockSampleFieldNumber) continue;
    trace::ClockSample sample;
    if (!reader.Parse(packet.contents, &sample)) break;
    last_ticks = sample.ticks();
  }
  if (first_end == 0 || last_ticks <= first_end || last_ticks > kMostTicks) return {};
  return {first_end, last_ticks, fraction, count};
}

std::optional<BatchOutline> OutlineOfCalls(absl::string_view batch, uint64_t ticks_per_ns) {
  return OutlineOf<trace::CallTimes>(batch, ticks_per_ns);
}

std::optional<BatchOutline> OutlineOfScopes(absl::string_view batch) { return OutlineOf<trace::ScopeTimes>(batch, 1); }

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
  // How much of each trace is read: in proportion, but all of such as an equal share holds.
  const uint64_t most = all / 2 > options.most_bytes ? options.most_bytes : UINT64_MAX;
  const uint64_t equal_share = most / std::max<size_t>(files->paths.size(), 1);
  const double fraction = static_cast<double>(most) / static_cast<double>(std::max<uint64_t>(all, 1));
  uint64_t done_before = 0;
  TraceBuilder builder(*files);
  LastTraces imported;
  LoadedRun run;
  run.failure = files->failure;
  for (const std::string& file : files->paths) {
    ReadProgress progress;
    if (options.progress) progress = [&](uint64_t done) { options.progress(done_before + done, all); };
    const uint64_t bytes = SizeOf({file});
    const double share = bytes <= equal_share ? 1 : std::min(fraction, 1.0);
    absl::Status status = IsOthersTrace(file) ? ImportInto(file, progress, &imported)
                                              : LoadTrace(file, options, share, progress, holds_more, &builder);
    if (!status.ok()) run.damage.push_back(std::move(status));
    done_before += bytes;
  }
  if (const std::string note = imported.Note(); !note.empty()) builder.Note(note);
  // In a folder with traces there may be JSON of other kinds.
  std::erase_if(run.damage, [&](const absl::Status& status) {
    const bool is_other = paths.size() == 1 && !imported.is_empty() && absl::IsInvalidArgument(status);
    if (is_other) builder.Note(status.message());
    return is_other;
  });
  for (const LastTraces::Trace& trace : imported.Take()) {
    absl::Status status = builder.AddTrace(trace.path, {ByteChunk(trace.imported.packets)});
    if (status.ok()) status = trace.imported.damage;
    if (!status.ok()) run.damage.push_back(std::move(status));
  }
  run.model = std::move(builder).Build();
  if (absl::Status status = CheckProcesses(&run.model); !status.ok()) return status;
  return run;
}

}  // namespace dlhook::analyzer::reader
