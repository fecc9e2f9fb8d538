// The JSON of Chrome's trace viewer ("Trace Event Format"), which Perfetto, Chrome and many tools read: an event a line.
// Times are microseconds with three decimals, which is exact.
#include <nlohmann/json.hpp>

#include "analyzer/export/exporter.h"
#include "analyzer/render/escape.h"

namespace dlhook::analyzer::inline exports {
namespace {

std::string Quoted(const std::string& text) {
  using Json = nlohmann::json;
  return EscapedJson(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
}

class ChromeWriter : public TimelineWriter {
 public:
  ChromeWriter(const Timeline& timeline, const TimelineTexts& texts, ExportOutput& output)
      : model_(timeline.model), ids_(timeline.model), texts_(texts), output_(output), out_(output.bytes()) {
    absl::StrAppend(&out_, "{\"displayTimeUnit\": \"ns\",\n\"otherData\": {\"run\": ", Quoted(VisibleText(model_.name)),
                    ", \"tool\": \"dlhook " DLHOOK_VERSION "\"},\n\"traceEvents\": [");
  }

  void Finish() { absl::StrAppend(&out_, "\n]}\n"); }

  void Process(ProcessIndex process, TextIndex name, TextIndex label) override {
    AddMetadata("process_name", process, 0, "name", Text(name));
    AddMetadata("process_sort_index", process, 0, "sort_index", absl::StrCat(process));
    if (label != kNoText) AddMetadata("process_labels", process, 0, "labels", Text(label));
  }

  void Track(const TimelineTrack& track) override {
    tracks_.push_back(track);
    if (track.kind == TrackKind::kCounter) return;
    AddMetadata("thread_name", track.process, Tid(track), "name", Text(track.name));
    AddMetadata("thread_sort_index", track.process, Tid(track), "sort_index", absl::StrCat(track.index));
  }

  void Begin(const TimelineSlice& slice) override {
    AddEvent("X", slice);
    absl::StrAppend(&out_, ", \"dur\": ");
    AppendTime(slice.end_ns - slice.start_ns);
    AddArgs(slice.args);
    for (const TimelineFlow& flow : slice.starts) AddFlow("s", flow, slice);
    for (const TimelineFlow& flow : slice.ends) AddFlow("f", flow, slice);
    output_.Flush();
  }

  void End(TrackIndex /*track*/, int64_t /*time_ns*/) override {}

  void Instant(const TimelineSlice& at) override {
    AddEvent("i", at);
    absl::StrAppend(&out_, ", \"s\": \"t\"");
    AddArgs(at.args);
    output_.Flush();
  }

  void Count(TrackIndex track, int64_t time_ns, double value) override {
    AddStart("C", tracks_[track], time_ns);
    absl::StrAppend(&out_, ", \"name\": ", Text(tracks_[track].name),
                    ", \"args\": {\"value\": ", absl::StrFormat("%.9g", value), "}}");
    output_.Flush();
  }

  bool ok() const override { return output_.ok(); }

 private:
  const std::string& Text(TextIndex index) {
    const auto place = static_cast<size_t>(index);
    if (place >= quoted_.size()) quoted_.resize(place + 1);
    if (quoted_[place].empty()) quoted_[place] = Quoted(texts_[index]);
    return quoted_[place];
  }

  int64_t Tid(const TimelineTrack& track) const {
    return track.kind == TrackKind::kThread ? ids_.Tid(track.thread) : TimelineIds::TidOfTrack(track.index);
  }

  void AppendTime(int64_t ns) {
    const std::string digits = absl::StrCat(ns % 1000);
    absl::StrAppend(&out_, ns / 1000, ".", std::string(3 - digits.size(), '0'), digits);
  }

  void AddMetadata(const char* what, ProcessIndex process, int64_t tid, const char* key, const std::string& value) {
    absl::StrAppend(&out_, Separator(), "{\"ph\": \"M\", \"pid\": ", ids_.Pid(process), ", \"tid\": ", tid,
                    ", \"name\": \"", what, "\", \"args\": {\"", key, "\": ", value, "}}");
  }

  void AddStart(const char* phase, const TimelineTrack& track, int64_t time_ns) {
    absl::StrAppend(&out_, Separator(), "{\"ph\": \"", phase, "\", \"pid\": ", ids_.Pid(track.process),
                    ", \"tid\": ", Tid(track), ", \"ts\": ");
    AppendTime(time_ns);
  }

  void AddEvent(const char* phase, const TimelineSlice& slice) {
    AddStart(phase, tracks_[slice.track], slice.start_ns);
    absl::StrAppend(&out_, ", \"name\": ", Text(slice.name), ", \"cat\": ", Text(slice.kind));
  }

  void AddArgs(absl::Span<const TimelineArg> args) {
    const char* separator = ", \"args\": {";
    for (const TimelineArg& arg : args) {
      absl::StrAppend(&out_, separator, Text(arg.key), ": ");
      if (const auto* number = std::get_if<int64_t>(&arg.value)) {
        absl::StrAppend(&out_, *number);
      } else {
        absl::StrAppend(&out_, Text(std::get<TextIndex>(arg.value)));
      }
      separator = ", ";
    }
    absl::StrAppend(&out_, args.empty() ? "}" : "}}");
  }

  // Bound to the slice by its start.
  void AddFlow(const char* phase, const TimelineFlow& flow, const TimelineSlice& slice) {
    const char* const name = flow.kind == FlowKind::kLaunch ? "launch" : "backward";
    AddStart(phase, tracks_[slice.track], slice.start_ns);
    absl::StrAppend(&out_, ", \"id\": ", flow.id, ", \"name\": \"", name, "\", \"cat\": \"", name, "\"",
                    *phase == 'f' ? ", \"bp\": \"e\"" : "", "}");
  }

  const char* Separator() { return std::exchange(is_first_, false) ? "\n" : ",\n"; }

  const TraceModel& model_;
  const TimelineIds ids_;
  const TimelineTexts& texts_;
  ExportOutput& output_;
  std::string& out_;
  std::vector<TimelineTrack> tracks_;
  std::deque<std::string> quoted_;  // by text; references stay valid while it grows
  bool is_first_ = true;
};

}  // namespace

void ExportChrome(const Timeline& timeline, ExportOutput& output) {
  TimelineTexts texts;
  ChromeWriter writer(timeline, texts, output);
  WalkTimeline(timeline, texts, writer);
  writer.Finish();
}

}  // namespace dlhook::analyzer::exports
