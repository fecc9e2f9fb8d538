#include "analyzer/reader/trace_tail.h"

#include "absl/strings/str_cat.h"
#include "analyzer/io/packet_reader.h"
#include "analyzer/reader/clock_map.h"
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

// The field of a packet that holds nothing else, and its contents.
uint64_t FieldOf(absl::string_view packet, absl::string_view* contents) {
  uint64_t key = 0, length = 0;
  if (!ConsumeVarint(&packet, &key) || !ConsumeVarint(&packet, &length) || length != packet.size()) return 0;
  *contents = packet;
  return key >> 3;
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
    absl::string_view contents;
    const uint64_t field = FieldOf(payload, &contents);
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
    absl::string_view contents;
    const uint64_t field = FieldOf(payload, &contents);
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

void TraceTail::StartOver() {
  header_bytes_.clear();
  process_ = {};
  definitions_.clear();
  stretches_.clear();
  clock_samples_.clear();
  ended_.reset();
  offset_ = stretch_bytes_ = calls_ = scopes_ = last_end_ticks_ = 0;
  has_dropped_ = has_reached_limit_ = has_light_scopes_ = false;
  is_recording_ = true;
}

absl::Status TraceTail::Read() {
  struct stat now;
  if (stat(path_.c_str(), &now) != 0) return absl::NotFoundError(absl::StrCat(path_, ": is gone"));
  const bool is_same = now.st_dev == file_.st_dev && now.st_ino == file_.st_ino;
  if (!is_same || static_cast<uint64_t>(now.st_size) < offset_) {
    StartOver();
    was_damaged_ = false;
  }
  file_ = now;
  const absl::StatusOr<ByteSource> file = ByteSource::Open(path_);
  if (!file.ok()) return file.status();
  absl::Status status = ReadFrom(*file);
  if (status.ok() || was_damaged_) return status;
  // It may have been cut off and written again since the last time.
  was_damaged_ = true;
  StartOver();
  return ReadFrom(*file);
}

absl::Status TraceTail::ReadFrom(const ByteSource& file) {
  std::string piece;
  while (offset_ < file.size()) {
    piece.resize(std::min(kPieceBytes, file.size() - offset_));
    if (absl::Status status = file.Read(offset_, absl::MakeSpan(piece)); !status.ok()) return status;
    std::vector<ByteChunk> chunks;
    if (has_header()) chunks.emplace_back(header_bytes_);
    chunks.emplace_back(piece);
    const uint64_t before = has_header() ? header_bytes_.size() : 0;
    PacketReader reader(path_, std::move(chunks));
    if (before > 0) reader.Next();
    uint64_t taken = 0;
    while (reader.Next()) {
      const uint64_t end = reader.bytes_read() - before;
      Take(reader.payload(), absl::string_view(piece).substr(taken, end - taken));
      taken = end;
    }
    offset_ += taken;
    const uint64_t rest = piece.size() - taken;
    const bool may_be_whole_later = rest == 0 || (piece[taken] == kPacketKey && rest <= kMaxPacketBytes);
    const bool is_refused = absl::IsFailedPrecondition(reader.status());  // of a newer version of the format
    if (taken == 0 && (is_refused || (!may_be_whole_later && !has_header()))) return reader.status();
    if (taken == 0 && !may_be_whole_later) {
      return absl::DataLossError(
          absl::StrCat(path_, ": byte ", offset_, ": expected a packet; what follows is not read"));
    }
    if (taken == 0) break;  // half written
  }
  DropOld();
  return absl::OkStatus();
}

void TraceTail::Record(uint64_t end_ticks) {
  last_end_ticks_ = std::max(last_end_ticks_, end_ticks);
  stretches_.back().has_records = true;
}

void TraceTail::Take(absl::string_view packet, absl::string_view framed) {
  absl::string_view contents;
  const uint64_t field = FieldOf(packet, &contents);
  if (!has_header()) {
    trace::Packet parsed;
    if (parsed.ParseFromArray(packet.data(), static_cast<int>(packet.size()))) {
      const trace::Process& process = parsed.header().process();
      process_ = {process.pid(), process.start_time_jiffies(), process.boot_id()};
      clock_ = static_cast<ClockKind>(parsed.header().clock().kind());
      ticks_per_second_ = parsed.header().clock().ticks_per_second();
    }
    header_bytes_ = std::string(framed);
  }
  if (stretches_.empty()) BeginStretch(0, 0);
  if (stretches_.back().bytes.size() > most_bytes_ / kStretchesKept && stretches_.back().has_records) {
    BeginStretch(last_end_ticks_, stretches_.back().start_realtime_ns);
  }
  if (field == trace::Packet::kCallBatchFieldNumber || field == trace::Packet::kScopeBatchFieldNumber) {
    const bool is_calls = field == trace::Packet::kCallBatchFieldNumber;
    const std::optional<BatchOutline> outline = is_calls ? OutlineOfCalls(contents, 1) : OutlineOfScopes(contents);
    (is_calls ? calls_ : scopes_) += outline ? static_cast<uint64_t>(outline->count) : 0;
    Record(outline ? outline->end_ticks : 0);
  } else if (!IsEvent(field) || field == trace::Packet::kCallAggregateFieldNumber ||
             field == trace::Packet::kFooterFieldNumber) {
    trace::Packet parsed;
    if (parsed.ParseFromArray(packet.data(), static_cast<int>(packet.size()))) TakeRest(parsed);
  }
  stretches_.back().bytes.append(framed.data(), framed.size());
  stretch_bytes_ += framed.size();
  DropOld();
}

void TraceTail::TakeRest(const trace::Packet& packet) {
  switch (packet.data_case()) {
    case trace::Packet::kClockSample:
      return TakeClockSample(packet.clock_sample());
    case trace::Packet::kCallAggregate:
      calls_ += packet.call_aggregate().count();
      has_reached_limit_ |= packet.call_aggregate().cause() == trace::CallAggregate::TRACE_LIMIT;
      return Record(packet.call_aggregate().window_end_ticks());
    case trace::Packet::kCaptureState:
      is_recording_ = packet.capture_state().recording();
      return;
    case trace::Packet::kFooter:
      ended_ = static_cast<ProcessEnd>(packet.footer().end());
      return;
    case trace::Packet::kInterned:
      for (const trace::InternedString& string : packet.interned().string()) {
        has_light_scopes_ |= string.value() == kScopeWindowName;
      }
      return;
    default:
      return;
  }
}

void TraceTail::TakeClockSample(const trace::ClockSample& sample) {
  if (clock_samples_.size() == 2) clock_samples_.pop_back();
  clock_samples_.push_back({sample.ticks(), sample.monotonic_ns()});
  if (stretches_.back().has_records) {
    BeginStretch(sample.ticks(), static_cast<int64_t>(sample.realtime_ns()));
  } else if (stretches_.back().start_realtime_ns == 0) {
    stretches_.back().start_realtime_ns = static_cast<int64_t>(sample.realtime_ns());
  }
}

void TraceTail::BeginStretch(uint64_t start_ticks, int64_t start_realtime_ns) {
  stretches_.emplace_back();
  stretches_.back().start_ticks = start_ticks;
  stretches_.back().start_realtime_ns = start_realtime_ns;
}

void TraceTail::DropOld() {
  bool has_reset = false;
  while (stretch_bytes_ > most_bytes_ && stretches_.size() > 1) {
    const std::string& bytes = stretches_.front().bytes;
    has_reset |= AppendDefinitions(bytes, &definitions_);
    stretch_bytes_ -= bytes.size();
    stretches_.pop_front();
    has_dropped_ = true;
  }
  if (has_reset) DropForgotten(&definitions_);
}

int64_t TraceTail::LastRecordNs() const {
  if (last_end_ticks_ == 0 || clock_ == ClockKind::kUnknown || clock_samples_.empty()) return 0;
  trace::Clock clock;
  clock.set_kind(static_cast<trace::Clock::Kind>(clock_));
  clock.set_ticks_per_second(ticks_per_second_);
  std::vector<trace::ClockSample> samples(clock_samples_.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i].set_ticks(clock_samples_[i].ticks);
    samples[i].set_monotonic_ns(clock_samples_[i].monotonic_ns);
  }
  return ClockMap(clock, std::move(samples), nullptr).ToNs(last_end_ticks_);
}

size_t TraceTail::FirstOf(int64_t realtime_ns) const {
  const auto after = absl::c_upper_bound(stretches_, realtime_ns,
                                         [](int64_t ns, const Stretch& s) { return ns < s.start_realtime_ns; });
  return after == stretches_.begin() ? 0 : static_cast<size_t>(after - stretches_.begin()) - 1;
}

int64_t TraceTail::StartOfLast(uint64_t bytes) const {
  uint64_t sum = 0;
  bool has_records = false;
  for (auto stretch = stretches_.rbegin(); stretch != stretches_.rend(); ++stretch) {
    sum += stretch->bytes.size();
    has_records |= stretch->has_records;
    if (sum >= bytes && has_records) return stretch->start_realtime_ns;
  }
  return stretches_.empty() ? 0 : stretches_.front().start_realtime_ns;
}

int64_t TraceTail::LastWrittenRealtimeNs() const {
  for (auto stretch = stretches_.rbegin(); stretch != stretches_.rend(); ++stretch) {
    if (stretch->has_records) return stretch->start_realtime_ns;
  }
  return 0;
}

TraceTail::Part TraceTail::Since(int64_t realtime_ns) const {
  Part part;
  const size_t first = FirstOf(realtime_ns);
  const bool is_whole = first == 0 && !has_dropped_;
  if (!is_whole) {
    auto definitions = std::make_unique<std::string>(definitions_);
    for (size_t i = 0; i < first; ++i) AppendDefinitions(stretches_[i].bytes, definitions.get());
    part.definitions = std::move(definitions);
    part.chunks.emplace_back(*part.definitions);
    part.parts = ReadParts({{0, 1}, {std::max<uint64_t>(stretches_[first].start_ticks, 1), UINT64_MAX}});
  }
  for (size_t i = first; i < stretches_.size(); ++i) part.chunks.emplace_back(stretches_[i].bytes);
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
