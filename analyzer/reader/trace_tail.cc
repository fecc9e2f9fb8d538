#include "analyzer/reader/trace_tail.h"

#include "analyzer/io/packet_reader.h"
#include "analyzer/reader/one_job.h"
#include "analyzer/reader/trace_builder.h"
#include "preload/format/taps.h"
#include "proto/trace.pb.h"

namespace dlhook::analyzer::inline reader {
namespace {

constexpr uint64_t kPieceBytes = 2 * kMaxPacketBytes;  // of the file, in memory at a time: at least one packet
constexpr uint64_t kStretchesKept = 16;  // at least, where clock samples are rare or calls many: a part begins with one
constexpr char kPacketKey = 0x0A;

// Splits the front packet off bytes that hold whole packets: its payload, and all of it.
std::pair<absl::string_view, absl::string_view> TakeFront(absl::string_view* bytes) {
  absl::string_view rest = bytes->substr(1);
  uint64_t length = 0;
  ConsumeVarint(&rest, &length);
  const absl::string_view payload = rest.substr(0, length);
  const absl::string_view framed = bytes->substr(0, bytes->size() - rest.size() + payload.size());
  bytes->remove_prefix(framed.size());
  return {payload, framed};
}

// What happened at a time, rather than what others refer to.
bool IsEvent(uint64_t field) {
  using Packet = trace::Packet;
  return field == Packet::kCallBatchFieldNumber || field == Packet::kScopeBatchFieldNumber ||
         field == Packet::kCallAggregateFieldNumber || field == Packet::kCounterBatchFieldNumber ||
         field == Packet::kLoadSampleFieldNumber || field == Packet::kGpuActivityFieldNumber ||
         field == Packet::kGpuLinkFieldNumber || field == Packet::kFooterFieldNumber;
}

// Appends those packets that later ones may need; of clock samples the first ones, which relate the run's clocks. Returns whether an
// interning period ended.
bool AppendDefinitions(absl::string_view bytes, std::string* to) {
  const bool is_beginning = to->empty();
  bool has_reset = false;
  while (!bytes.empty()) {
    const auto [payload, framed] = TakeFront(&bytes);
    const uint64_t field = OnlyFieldOf(payload).number;
    has_reset |= field == trace::Packet::kResetFieldNumber;
    if (IsEvent(field) || (field == trace::Packet::kClockSampleFieldNumber && !is_beginning)) continue;
    to->append(framed.data(), framed.size());
  }
  return has_reset;
}

// What an interning period defined is forgotten at its end, unless modules, of which a trace tells once, refer to its names.
void DropForgotten(std::string* definitions) {
  std::string kept, period;
  bool has_modules = false;
  for (absl::string_view rest = *definitions; !rest.empty();) {
    const auto [payload, framed] = TakeFront(&rest);
    const uint64_t field = OnlyFieldOf(payload).number;
    if (field == trace::Packet::kResetFieldNumber && !has_modules) period.clear();
    has_modules |= field == trace::Packet::kPythonModuleFieldNumber;
    if (field == trace::Packet::kResetFieldNumber) {
      kept.append(period);
      period.clear();
      has_modules = false;
    }
    const bool is_defined = field == trace::Packet::kInternedFieldNumber ||
                            field == trace::Packet::kPythonModuleFieldNumber ||
                            field == trace::Packet::kResetFieldNumber;
    (is_defined ? period : kept).append(framed.data(), framed.size());
  }
  *definitions = kept + period;
}

}  // namespace

absl::Status TraceTail::Read() {
  struct stat now;
  if (stat(path_.c_str(), &now) != 0) return absl::NotFoundError(absl::StrCat(path_, ": is gone"));
  const bool is_same = now.st_dev == file_.st_dev && now.st_ino == file_.st_ino;
  if (!is_same || static_cast<uint64_t>(now.st_size) < known_.offset) {
    known_ = Known();
    was_damaged_ = false;
  }
  file_ = now;
  const absl::StatusOr<ByteSource> file = ByteSource::Open(path_);
  if (!file.ok()) return file.status();
  absl::Status status = ReadFrom(*file);
  if (status.ok() || was_damaged_) return status;
  // It may have been cut off and written again since the last time.
  was_damaged_ = true;
  known_ = Known();
  return ReadFrom(*file);
}

absl::Status TraceTail::ReadFrom(const ByteSource& file) {
  std::string piece;
  while (known_.offset < file.size()) {
    piece.resize(std::min(kPieceBytes, file.size() - known_.offset));
    if (absl::Status status = file.Read(known_.offset, absl::MakeSpan(piece)); !status.ok()) return status;
    std::vector<ByteChunk> chunks;
    if (has_header()) chunks.emplace_back(known_.header_bytes);
    chunks.emplace_back(piece);
    const uint64_t before = has_header() ? known_.header_bytes.size() : 0;
    PacketReader reader(path_, std::move(chunks));
    if (before > 0) reader.Next();
    uint64_t taken = 0;
    while (reader.Next()) {
      const uint64_t end = reader.bytes_read() - before;
      Take(reader.payload(), absl::string_view(piece).substr(taken, end - taken));
      taken = end;
    }
    known_.offset += taken;
    const uint64_t rest = piece.size() - taken;
    const bool may_be_whole_later = rest == 0 || (piece[taken] == kPacketKey && rest <= kMaxPacketBytes);
    const bool is_refused = absl::IsFailedPrecondition(reader.status());  // of a newer version of the format
    if (taken == 0 && (is_refused || (!may_be_whole_later && !has_header()))) return reader.status();
    if (taken == 0 && !may_be_whole_later) {
      return absl::DataLossError(
          absl::StrCat(path_, ": byte ", known_.offset, ": expected a packet; what follows is not read"));
    }
    if (taken == 0) break;  // half written
  }
  DropOld();
  return absl::OkStatus();
}

void TraceTail::Record(uint64_t end_ticks) {
  known_.last_end_ticks = std::max(known_.last_end_ticks, end_ticks);
  known_.stretches.back().has_records = true;
}

void TraceTail::Take(absl::string_view packet, absl::string_view framed) {
  const auto [field, contents] = OnlyFieldOf(packet);
  if (!has_header()) {
    trace::Packet parsed;
    if (parsed.ParseFromArray(packet.data(), static_cast<int>(packet.size()))) {
      const trace::Process& process = parsed.header().process();
      known_.process = {process.pid(), process.start_time_jiffies(), process.boot_id()};
      known_.clock = static_cast<ClockKind>(parsed.header().clock().kind());
      known_.ticks_per_second = parsed.header().clock().ticks_per_second();
    }
    known_.header_bytes = std::string(framed);
  }
  if (known_.stretches.empty()) BeginStretch(0, 0);
  if (known_.stretches.back().bytes.size() > most_bytes_ / kStretchesKept && known_.stretches.back().has_records) {
    BeginStretch(known_.last_end_ticks, known_.stretches.back().start_realtime_ns);
  }
  if (field == trace::Packet::kCallBatchFieldNumber || field == trace::Packet::kScopeBatchFieldNumber) {
    const bool is_calls = field == trace::Packet::kCallBatchFieldNumber;
    const std::optional<BatchOutline> outline = is_calls ? OutlineOfCalls(contents, 1) : OutlineOfScopes(contents);
    (is_calls ? known_.calls : known_.scopes) += outline ? static_cast<uint64_t>(outline->count) : 0;
    Record(outline ? outline->end_ticks : 0);
  } else if (!IsEvent(field) || field == trace::Packet::kCallAggregateFieldNumber ||
             field == trace::Packet::kFooterFieldNumber) {
    trace::Packet parsed;
    if (parsed.ParseFromArray(packet.data(), static_cast<int>(packet.size()))) TakeRest(parsed);
  }
  known_.stretches.back().bytes.append(framed.data(), framed.size());
  known_.stretch_bytes += framed.size();
  DropOld();
}

void TraceTail::TakeRest(const trace::Packet& packet) {
  switch (packet.data_case()) {
    case trace::Packet::kClockSample:
      return TakeClockSample(packet.clock_sample());
    case trace::Packet::kCallAggregate:
      known_.calls += packet.call_aggregate().count();
      known_.has_reached_limit |= packet.call_aggregate().cause() == trace::CallAggregate::TRACE_LIMIT;
      return Record(packet.call_aggregate().window_end_ticks());
    case trace::Packet::kCaptureState:
      known_.is_recording = packet.capture_state().recording();
      return;
    case trace::Packet::kFooter:
      known_.ended = static_cast<ProcessEnd>(packet.footer().end());
      return;
    case trace::Packet::kInterned:
      for (const trace::InternedString& string : packet.interned().string()) {
        known_.has_light_scopes |= string.value() == kScopeWindowName;
      }
      return;
    default:
      return;
  }
}

void TraceTail::TakeClockSample(const trace::ClockSample& sample) {
  if (known_.clock_samples.size() == 2) known_.clock_samples.pop_back();
  known_.clock_samples.push_back({sample.ticks(), sample.monotonic_ns()});
  if (known_.stretches.back().has_records) {
    BeginStretch(sample.ticks(), static_cast<int64_t>(sample.realtime_ns()));
  } else if (known_.stretches.back().start_realtime_ns == 0) {
    known_.stretches.back().start_realtime_ns = static_cast<int64_t>(sample.realtime_ns());
  }
}

void TraceTail::BeginStretch(uint64_t start_ticks, int64_t start_realtime_ns) {
  known_.stretches.push_back({.bytes = "", .start_ticks = start_ticks, .start_realtime_ns = start_realtime_ns});
}

void TraceTail::DropOld() {
  bool has_reset = false;
  while (known_.stretch_bytes > most_bytes_ && known_.stretches.size() > 1) {
    const std::string& bytes = known_.stretches.front().bytes;
    has_reset |= AppendDefinitions(bytes, &known_.definitions);
    known_.stretch_bytes -= bytes.size();
    known_.stretches.pop_front();
    known_.has_dropped = true;
  }
  if (has_reset) DropForgotten(&known_.definitions);
}

int64_t TraceTail::LastRecordNs() const {
  if (known_.last_end_ticks == 0 || known_.clock == ClockKind::kUnknown || known_.clock_samples.empty()) return 0;
  trace::Clock clock;
  clock.set_kind(static_cast<trace::Clock::Kind>(known_.clock));
  clock.set_ticks_per_second(known_.ticks_per_second);
  std::vector<trace::ClockSample> samples(known_.clock_samples.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i].set_ticks(known_.clock_samples[i].ticks);
    samples[i].set_monotonic_ns(known_.clock_samples[i].monotonic_ns);
  }
  return ClockMap(clock, std::move(samples), nullptr).ToNs(known_.last_end_ticks);
}

size_t TraceTail::FirstOf(int64_t realtime_ns) const {
  const auto after = absl::c_upper_bound(known_.stretches, realtime_ns,
                                         [](int64_t ns, const Stretch& s) { return ns < s.start_realtime_ns; });
  return after == known_.stretches.begin() ? 0 : static_cast<size_t>(after - known_.stretches.begin()) - 1;
}

int64_t TraceTail::StartOfLast(uint64_t bytes) const {
  uint64_t sum = 0;
  bool has_records = false;
  for (auto stretch = known_.stretches.rbegin(); stretch != known_.stretches.rend(); ++stretch) {
    sum += stretch->bytes.size();
    has_records |= stretch->has_records;
    if (sum >= bytes && has_records) return stretch->start_realtime_ns;
  }
  return known_.stretches.empty() ? 0 : known_.stretches.front().start_realtime_ns;
}

int64_t TraceTail::LastWrittenRealtimeNs() const {
  for (auto stretch = known_.stretches.rbegin(); stretch != known_.stretches.rend(); ++stretch) {
    if (stretch->has_records) return stretch->start_realtime_ns;
  }
  return 0;
}

TraceTail::Part TraceTail::Since(int64_t realtime_ns) const {
  Part part;
  const size_t first = FirstOf(realtime_ns);
  const bool is_whole = first == 0 && !known_.has_dropped;
  if (!is_whole) {
    auto definitions = std::make_unique<std::string>(known_.definitions);
    for (size_t i = 0; i < first; ++i) AppendDefinitions(known_.stretches[i].bytes, definitions.get());
    part.definitions = std::move(definitions);
    part.chunks.emplace_back(*part.definitions);
    part.parts = ReadParts({{0, 1}, {std::max<uint64_t>(known_.stretches[first].start_ticks, 1), UINT64_MAX}});
  }
  for (size_t i = first; i < known_.stretches.size(); ++i) part.chunks.emplace_back(known_.stretches[i].bytes);
  return part;
}

absl::Status RecentRun::Read() {
  order_.clear();
  damage_.clear();
  const absl::StatusOr<RunFiles> files = FindRun(path_);
  if (!files.ok()) {
    tails_.clear();
    return files.status();
  }
  if (absl::Status status = CheckOneJob(*files); !status.ok()) return status;
  files_ = *files;
  std::erase_if(tails_, [&](const auto& tail) { return !absl::c_binary_search(files->paths, tail.first); });
  for (const std::string& path : files->paths) {
    std::unique_ptr<TraceTail>& tail = tails_[path];
    if (tail == nullptr) tail = std::make_unique<TraceTail>(path, most_bytes_ / files->paths.size());
    if (absl::Status status = tail->Read(); !status.ok()) damage_.emplace_back(status.message());
    if (tail->has_header()) order_.push_back(tail.get());
  }
  if (!order_.empty()) return absl::OkStatus();
  if (!damage_.empty()) return absl::DataLossError(damage_.front());
  return absl::NotFoundError(absl::StrCat(path_, ": nothing is recorded yet"));
}

int64_t RecentRun::calls() const {
  uint64_t sum = 0;
  for (const TraceTail* tail : order_) sum += tail->calls() + tail->scopes();
  return static_cast<int64_t>(sum);
}

TraceModel RecentRun::Last(int64_t seconds, uint64_t bytes, const std::vector<Leftover>& open) const {
  int64_t last_ns = 0, start_ns = 0;
  for (const TraceTail* tail : order_) last_ns = std::max(last_ns, tail->LastWrittenRealtimeNs());
  for (const TraceTail* tail : order_) start_ns = std::max(start_ns, tail->StartOfLast(bytes / order_.size()));
  start_ns = std::min(std::max(start_ns, last_ns - seconds * 1'000'000'000), last_ns);
  TraceBuilder builder(files_);
  for (size_t i = 0; i < order_.size(); ++i) {
    const TraceTail* const tail = order_[i];
    TraceTail::Part part = tail->Since(start_ns);
    if (i < open.size() && !open[i].packets.empty()) part.chunks.emplace_back(open[i].packets);
    const absl::Status status = builder.AddTrace(tail->path(), std::move(part.chunks), nullptr, std::move(part.parts));
    if (!status.ok()) builder.Note(status.message());
  }
  TraceModel model = std::move(builder).Build();
  for (ProcessIndex i = 0; i < model.processes.size() && i < order_.size(); ++i) {
    model.processes[i].calls = order_[i]->calls();
    const auto is_its = [&](const auto& window) { return window.process == i; };
    if (order_[i]->has_light_scopes() && absl::c_none_of(model.scope_windows, is_its)) {
      // Without any window the process would count as one with all scopes.
      model.scope_windows.push_back({i, model.start_ns, model.start_ns});
    }
  }
  absl::c_stable_sort(model.scope_windows,
                      [](const ScopeWindow& a, const ScopeWindow& b) { return a.process < b.process; });
  return model;
}

}  // namespace dlhook::analyzer::reader
