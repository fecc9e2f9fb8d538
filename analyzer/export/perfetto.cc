// Perfetto's own format: track events as protobuf (third_party/perfetto/), names once each. All in one sequence of packets.
#include "analyzer/export/exporter.h"
#include "analyzer/export/third_party/perfetto/trace.pb.h"

namespace dlhook::analyzer::inline exports {
namespace {

namespace pb = perfetto::protos;

constexpr uint32_t kSequence = 1;
constexpr uint32_t kStateCleared = 1;
constexpr uint32_t kNeedsState = 2;

class PerfettoWriter : public TimelineWriter {
 public:
  PerfettoWriter(const Timeline& timeline, const TimelineTexts& texts, ExportOutput& output)
      : ids_(timeline.model), texts_(texts), output_(output), processes_(timeline.model.processes.size()) {}

  void Process(ProcessIndex process, TextIndex name, TextIndex label) override {
    pb::TrackDescriptor* const track = Descriptor(process + 1);
    track->mutable_process()->set_pid(static_cast<int32_t>(ids_.Pid(process)));
    track->mutable_process()->set_process_name(texts_[name]);
    if (label != kNoText) track->mutable_process()->add_process_labels(texts_[label]);
    Write();
  }

  void Track(const TimelineTrack& added) override {
    pb::TrackDescriptor* const track = Descriptor(Uuid(added.index));
    if (added.kind == TrackKind::kThread) {
      pb::ThreadDescriptor* const thread = track->mutable_thread();
      thread->set_pid(static_cast<int32_t>(ids_.Pid(added.process)));
      thread->set_tid(ids_.Tid(added.thread));
      thread->set_thread_name(texts_[added.name]);
    } else {
      track->set_name(texts_[added.name]);
      track->set_parent_uuid(added.process + 1);
      track->set_sibling_order_rank(static_cast<int32_t>(added.index));
      if (added.kind == TrackKind::kCounter) track->mutable_counter()->set_unit_name(texts_[added.unit]);
    }
    Write();
  }

  void Begin(const TimelineSlice& slice) override { AddSlice(pb::TrackEvent::TYPE_SLICE_BEGIN, slice); }

  void End(TrackIndex track, int64_t time_ns) override {
    Event(pb::TrackEvent::TYPE_SLICE_END, track, time_ns);
    Write();
  }

  void Instant(const TimelineSlice& at) override { AddSlice(pb::TrackEvent::TYPE_INSTANT, at); }

  void Count(TrackIndex track, int64_t time_ns, double value) override {
    Event(pb::TrackEvent::TYPE_COUNTER, track, time_ns)->set_double_counter_value(value);
    Write();
  }

  bool ok() const override { return output_.ok(); }

 private:
  // Of what a text is interned.
  enum Use : uint8_t { kName = 1, kCategory = 2, kArgName = 4, kArgValue = 8 };

  uint64_t Uuid(TrackIndex track) const { return processes_ + track + 1; }

  pb::TrackDescriptor* Descriptor(uint64_t uuid) {
    packet_.mutable_track_descriptor()->set_uuid(uuid);
    return packet_.mutable_track_descriptor();
  }

  pb::TrackEvent* Event(pb::TrackEvent::Type type, TrackIndex track, int64_t time_ns) {
    packet_.set_timestamp(static_cast<uint64_t>(time_ns));
    pb::TrackEvent* const event = packet_.mutable_track_event();
    event->set_type(type);
    event->set_track_uuid(Uuid(track));
    return event;
  }

  void AddSlice(pb::TrackEvent::Type type, const TimelineSlice& slice) {
    pb::TrackEvent* const event = Event(type, slice.track, slice.start_ns);
    event->set_name_iid(Interned(slice.name, kName));
    event->add_category_iids(Interned(slice.kind, kCategory));
    for (const TimelineArg& arg : slice.args) {
      pb::DebugAnnotation* const added = event->add_debug_annotations();
      added->set_name_iid(Interned(arg.key, kArgName));
      if (const auto* number = std::get_if<int64_t>(&arg.value)) {
        added->set_int_value(*number);
      } else {
        added->set_string_value_iid(Interned(std::get<TextIndex>(arg.value), kArgValue));
      }
    }
    for (const TimelineFlow& flow : slice.starts) event->add_flow_ids(flow.id);
    for (const TimelineFlow& flow : slice.ends) event->add_terminating_flow_ids(flow.id);
    Write();
  }

  // The packet in which a text is first used defines it.
  uint64_t Interned(TextIndex text, Use use) {
    const auto place = static_cast<size_t>(text);
    if (place >= uses_.size()) uses_.resize(place + 1);
    const uint64_t iid = place + 1;
    if ((uses_[place] & use) != 0) return iid;
    uses_[place] |= use;
    pb::InternedData* const data = packet_.mutable_interned_data();
    switch (use) {
      case kName:
        Define(data->add_event_names(), iid, text);
        break;
      case kCategory:
        Define(data->add_event_categories(), iid, text);
        break;
      case kArgName:
        Define(data->add_debug_annotation_names(), iid, text);
        break;
      case kArgValue: {
        pb::InternedString* const value = data->add_debug_annotation_string_values();
        value->set_iid(iid);
        value->set_str(texts_[text]);
      }
    }
    return iid;
  }
  template <typename Message>
  void Define(Message* message, uint64_t iid, TextIndex text) {
    message->set_iid(iid);
    message->set_name(texts_[text]);
  }

  void Write() {
    packet_.set_trusted_packet_sequence_id(kSequence);
    packet_.set_sequence_flags(is_first_ ? kStateCleared | kNeedsState : kNeedsState);
    is_first_ = false;
    trace_.AppendToString(&output_.bytes());
    packet_.Clear();
    output_.Flush();
  }

  const TimelineIds ids_;
  const TimelineTexts& texts_;
  ExportOutput& output_;
  const uint64_t processes_;
  std::vector<uint8_t> uses_;  // by text: of Use
  bool is_first_ = true;
  pb::Trace trace_;  // of the next packet, which keeps its memory
  pb::TracePacket& packet_ = *trace_.add_packet();
};

}  // namespace

void ExportPerfetto(const Timeline& timeline, ExportOutput& output) {
  TimelineTexts texts;
  PerfettoWriter writer(timeline, texts, output);
  WalkTimeline(timeline, texts, writer);
}

}  // namespace dlhook::analyzer::exports
