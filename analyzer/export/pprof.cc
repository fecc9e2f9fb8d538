// pprof's profile.proto (third_party/pprof/), gzipped: calls, time, FLOPs and bytes of every distinct stack, with
// labels for `pprof -tagfocus`, `-tagroot` and its web view: kind, step, layer, direction, phase, op, thread, process.

#include "absl/strings/escaping.h"
#include "analyzer/export/exporter.h"
#include "analyzer/export/gzip.h"
#include "analyzer/export/third_party/pprof/profile.pb.h"
#include "analyzer/render/escape.h"
#include "analyzer/symbols/code_map.h"

namespace dlhook::analyzer::inline exports {
namespace {

namespace pprof = perftools::profiles;

// A count comes first, by convention. Readers show the last one by default if none is named; speedscope takes the field
// for the default as an index into these, so none is set.
std::vector<Weight> SampleTypes(const Profile& profile) {
  std::vector<Weight> types = {Weight::kCalls, Weight::kFlops, Weight::kBytes, Weight::kTime};
  if (HasGpuTime(profile)) types.insert(types.end() - 1, Weight::kGpuTime);
  return types;
}

class PprofWriter {
 public:
  explicit PprofWriter(const Profile& profile) : profile_(profile), sample_types_(SampleTypes(profile)) { Text(""); }

  std::string Write() {
    out_.set_duration_nanos(profile_.model().wall_ns());
    out_.add_comment(Text(absl::StrCat("dlhook " DLHOOK_VERSION ": ", profile_.model().name)));
    AddSampleTypes();
    AddMappings();
    AddFunctions();
    for (const ProfileSample& sample : profile_.samples()) AddSample(sample);
    return Gzip(out_.SerializeAsString());
  }

 private:
  // All strings of the file, escaped because readers print names as they are.
  int64_t Text(absl::string_view from_outside) {
    const std::string text = VisibleText(from_outside);
    const auto [at, is_new] = texts_.try_emplace(text, out_.string_table_size());
    if (is_new) out_.add_string_table(text);
    return at->second;
  }

  void AddSampleTypes() {
    for (Weight weight : sample_types_) {
      const WeightWord& word = WeightWords()[static_cast<size_t>(weight)];
      pprof::ValueType* type = out_.add_sample_type();
      type->set_type(Text(word.name));
      type->set_unit(Text(word.unit == "ns" ? "nanoseconds" : word.unit));
    }
  }

  // The first one is the program, as readers expect: "main binary".
  void AddMappings() {
    const std::vector<ProcessInfo>& processes = profile_.model().processes;
    if (!processes.empty()) AddMapping()->set_filename(Text(processes.front().program));
    mapping_begin_.push_back(out_.mapping_size());
    for (const ProcessInfo& process : processes) {
      maps_.emplace_back(process);
      for (const Mapping& mapping : process.mappings) {
        pprof::Mapping* added = AddMapping();
        added->set_memory_start(mapping.start);
        added->set_memory_limit(mapping.end);
        added->set_filename(Text(mapping.path));
        added->set_build_id(Text(absl::BytesToHexString(mapping.build_id)));
      }
      mapping_begin_.push_back(out_.mapping_size());
    }
  }

  // Marks names as complete, so that pprof does not look them up.
  pprof::Mapping* AddMapping() {
    pprof::Mapping* mapping = out_.add_mapping();
    mapping->set_id(out_.mapping_size());
    mapping->set_has_functions(true);
    mapping->set_has_filenames(true);
    mapping->set_has_line_numbers(true);
    mapping->set_has_inline_frames(true);
    return mapping;
  }

  void AddFunctions() {
    for (const ProfileFunction& function : profile_.functions()) {
      pprof::Function* added = out_.add_function();
      added->set_id(out_.function_size());
      added->set_name(Text(function.name));
      // If both are equal, pprof shortens the name itself, and "<module>" would vanish.
      if (!function.full_name.empty()) added->set_system_name(Text(function.full_name));
      added->set_filename(Text(function.file));
    }
  }

  uint64_t MappingOf(FrameIndex native) const {
    const NativeFrameColumns& frames = profile_.model().native_frames;
    const ProcessIndex process = frames.process[native];
    bool is_doubtful = false;
    const Mapping* const found = maps_[process].Find(frames.address[native], &is_doubtful);
    if (found == nullptr) return 0;
    const auto place = found - profile_.model().processes[process].mappings.data();
    return out_.mapping(mapping_begin_[process] + static_cast<int>(place)).id();
  }

  // `lines`: the innermost inlined function first.
  uint64_t LocationOf(const std::vector<ProfileFrameIndex>& lines) {
    const auto [at, is_new] = locations_.try_emplace(lines, out_.location_size() + 1);
    if (!is_new) return at->second;
    pprof::Location* location = out_.add_location();
    location->set_id(at->second);
    for (ProfileFrameIndex index : lines) {
      const ProfileFrame& frame = profile_.frames()[index];
      pprof::Line* line = location->add_line();
      line->set_function_id(frame.function + 1);
      line->set_line(frame.line);
    }
    const FrameIndex native = profile_.frames()[lines.front()].native;
    if (native == kNone) return at->second;
    location->set_address(profile_.model().native_frames.address[native]);
    location->set_mapping_id(MappingOf(native));
    return at->second;
  }

  // Frames inlined into the next one share its location.
  void AddLocations(NodeIndex node, pprof::Sample* sample) {
    std::vector<ProfileFrameIndex> lines;
    for (; node != kRoot; node = profile_.nodes()[node].parent) {
      lines.push_back(profile_.nodes()[node].frame);
      const ProfileFrame& frame = profile_.FrameOf(node);
      const NodeIndex outer = profile_.nodes()[node].parent;
      const bool goes_on = frame.is_inlined && outer != kRoot && profile_.FrameOf(outer).native == frame.native;
      if (goes_on) continue;
      sample->add_location_id(LocationOf(lines));
      lines.clear();
    }
  }

  void AddLabel(const std::string& key, const std::string& value, pprof::Sample* sample) {
    if (value.empty()) return;
    pprof::Label* label = sample->add_label();
    label->set_key(Text(key));
    label->set_str(Text(value));
  }

  void AddSample(const ProfileSample& sample) {
    pprof::Sample* added = out_.add_sample();
    AddLocations(sample.stack, added);
    for (Weight weight : sample_types_) added->add_value(sample.weights[static_cast<size_t>(weight)]);
    const ProfileLabels& labels = profile_.labels()[sample.labels];
    AddLabel("kind", labels.kind, added);
    AddLabel("step", labels.step, added);
    AddLabel("layer", labels.layer, added);
    AddLabel("direction", labels.direction, added);
    AddLabel("phase", labels.phase, added);
    AddLabel("op", labels.op, added);
    AddLabel("thread", labels.thread, added);
    AddLabel("process", labels.process, added);
  }

  const Profile& profile_;
  const std::vector<Weight> sample_types_;
  pprof::Profile out_;
  std::map<std::string, int64_t> texts_;
  std::vector<CodeMap> maps_;       // by process
  std::vector<int> mapping_begin_;  // by process: index of its first one in out_.mapping()
  std::map<std::vector<ProfileFrameIndex>, uint64_t> locations_;
};

}  // namespace

std::string ExportPprof(const Profile& profile, const ExportOptions& /*options*/) {
  return PprofWriter(profile).Write();
}

}  // namespace dlhook::analyzer::exports
