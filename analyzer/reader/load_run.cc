// Opens the process traces of a run one after another; an unreadable one does not prevent reading the others.
#include "analyzer/reader/load_run.h"

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/import/kineto/kineto_import.h"
#include "analyzer/io/packet_reader.h"
#include "analyzer/reader/one_job.h"
#include "analyzer/reader/trace_builder.h"
#include "preload/format/taps.h"
#include "proto/trace.pb.h"

namespace dlhook::analyzer::inline reader {
namespace {

constexpr uint64_t kMostTicks = uint64_t{1} << 62;  // no clock goes as far
constexpr uint64_t kWireBits = 3;                   // of a field's key
enum WireType : uint64_t { kVarint = 0, kBytes = 2 };

constexpr uint64_t KeyOf(uint64_t field, WireType type) { return field << kWireBits | type; }

// Of these parts would not do: GPUs' work stands apart from the calls that asked for it, and a light tap has parts of its own.
bool NeedsAll(uint64_t kind, absl::string_view packet) {
  return kind == trace::Packet::kGpuActivityFieldNumber || kind == trace::Packet::kGpuLinkFieldNumber ||
         kind == trace::Packet::kGpuGraphNodeFieldNumber ||
         (kind == trace::Packet::kInternedFieldNumber && absl::StrContains(packet, kScopeWindowName));
}

// The kind of a packet that holds nothing else: its first key.
uint64_t PacketKindOf(absl::string_view packet) {
  uint64_t key = 0;
  return ConsumeVarint(&packet, &key) ? key >> kWireBits : 0;
}

int64_t Decoded(uint64_t zigzag) { return static_cast<int64_t>(zigzag >> 1) ^ -static_cast<int64_t>(zigzag & 1); }

// Its fields, by number, where they are plain or packed as the schema has them.
struct Fields {
  uint64_t thread_id = 0;
  uint64_t base_end = 0;
  absl::string_view ends;
  absl::string_view durations;
};

struct Numbers {
  uint64_t thread_id, base_end, ends, durations;
};

// Each at most once.
std::optional<Fields> FieldsOf(absl::string_view batch, const Numbers& numbers) {
  Fields fields;
  while (!batch.empty()) {
    uint64_t key = 0, value = 0;
    if (!ConsumeVarint(&batch, &key) || !ConsumeVarint(&batch, &value)) return std::nullopt;
    const uint64_t field = key >> kWireBits;
    if (key == KeyOf(field, kVarint)) {
      if (field == numbers.ends || field == numbers.durations) return std::nullopt;  // not packed
      if (field == numbers.thread_id) fields.thread_id = value;
      if (field == numbers.base_end) fields.base_end = value;
      continue;
    }
    if (key != KeyOf(field, kBytes) || value > batch.size()) return std::nullopt;
    absl::string_view* array = field == numbers.ends        ? &fields.ends
                               : field == numbers.durations ? &fields.durations
                                                            : nullptr;
    if (array != nullptr && !array->empty()) return std::nullopt;
    if (array != nullptr) *array = batch.substr(0, value);
    batch.remove_prefix(value);
  }
  return fields;
}

// The values of a packed array, one after another.
class PackedValues {
 public:
  explicit PackedValues(absl::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}
  bool done() const { return at_ == end_; }
  // False: cut off, or longer than 64 bits.
  bool Take(uint64_t* value) {
    *value = 0;
    for (unsigned shift = 0; at_ != end_ && shift < 64; shift += 7) {
      const auto byte = static_cast<uint8_t>(*at_++);
      *value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }

 private:
  const char* at_;
  const char* end_;
};

std::optional<BatchOutline> OutlineOf(absl::string_view batch, const Numbers& numbers, uint64_t longest_tick) {
  const std::optional<Fields> fields = FieldsOf(batch, numbers);
  if (!fields) return std::nullopt;
  BatchOutline outline = {.thread_id = static_cast<uint32_t>(fields->thread_id), .start_ticks = UINT64_MAX};
  PackedValues ends(fields->ends), durations(fields->durations);
  uint64_t end = fields->base_end;
  for (; !ends.done() && !durations.done(); ++outline.count) {
    uint64_t delta = 0, duration = 0;
    if (!ends.Take(&delta) || !durations.Take(&duration)) return std::nullopt;
    end += static_cast<uint64_t>(Decoded(delta));
    const uint64_t most = duration > UINT64_MAX / longest_tick ? UINT64_MAX : duration * longest_tick;
    outline.start_ticks = std::min(outline.start_ticks, end - std::min(most, end));
    outline.end_ticks = std::max(outline.end_ticks, end);
  }
  if (!ends.done() || !durations.done()) return std::nullopt;
  return outline;
}

// Of a packet that is one; 0: it is none.
uint64_t EndOfBatch(uint64_t kind, absl::string_view packet) {
  uint64_t key = 0, length = 0;
  if (!ConsumeVarint(&packet, &key) || !ConsumeVarint(&packet, &length)) return 0;
  const std::optional<BatchOutline> outline = kind == trace::Packet::kCallBatchFieldNumber ? OutlineOfCalls(packet, 1)
                                              : kind == trace::Packet::kScopeBatchFieldNumber ? OutlineOfScopes(packet)
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
    const uint64_t kind = PacketKindOf(reader.payload());
    if (NeedsAll(kind, reader.payload())) return {};
    if (first_end == 0 && static_cast<double>(reader.bytes_read()) >= first_bytes) {
      first_end = EndOfBatch(kind, reader.payload());
    }
    if (kind != trace::Packet::kClockSampleFieldNumber) continue;
    trace::Packet packet;
    if (!reader.Parse(reader.payload(), &packet)) break;
    last_ticks = packet.clock_sample().ticks();
  }
  if (first_end == 0 || last_ticks <= first_end || last_ticks > kMostTicks) return {};
  return {first_end, last_ticks, fraction, count};
}

std::optional<BatchOutline> OutlineOfCalls(absl::string_view batch, uint64_t ticks_per_ns) {
  using Batch = trace::CallBatch;
  return OutlineOf(batch,
                   {Batch::kThreadIdFieldNumber, Batch::kBaseEndTicksFieldNumber, Batch::kEndDeltaTicksFieldNumber,
                    Batch::kDurationFieldNumber},
                   ticks_per_ns);
}

std::optional<BatchOutline> OutlineOfScopes(absl::string_view batch) {
  using Batch = trace::ScopeBatch;
  return OutlineOf(batch,
                   {Batch::kThreadIdFieldNumber, Batch::kBaseEndTicksFieldNumber, Batch::kEndDeltaTicksFieldNumber,
                    Batch::kDurationTicksFieldNumber},
                   1);
}

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
  LoadedRun run;
  run.failure = files->failure;
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
  if (absl::Status status = CheckTimesOfRanks(&run.model); !status.ok()) return status;
  return run;
}

}  // namespace dlhook::analyzer::reader
