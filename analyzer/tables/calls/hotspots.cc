// Table `hotspots`: where threads compute, from samples of their CPU time: what no hook sees, and the inside of what hooks
// measure.

#include "analyzer/calls/python_places.h"
#include "analyzer/io/byte_source.h"
#include "analyzer/stacks/call_stacks.h"
#include "analyzer/steps/step_groups.h"
#include "analyzer/tables/calls/tick_fit.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/tables.h"
#include "analyzer/time/gap_places.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr char kHotspotsTitle[] = "Where threads computed (samples of CPU time)";
constexpr char kNoLayer[] = "[no layer]";
constexpr char kNoPlace[] = "[not known]";
constexpr char kPythonCode[] = "Python";
constexpr char kOwnLibrary[] = "libdlhook.so";

struct HotspotKey {
  std::string what, library;
  auto operator<=>(const HotspotKey&) const = default;
};

struct HotspotSums : HotspotKey {
  int64_t samples = 0;
  int64_t self_ns = 0;
  int64_t in_calls_ns = 0;
  int64_t total_ns = 0;
};

const char* Explanation(By by) {
  if (by == By::kFunction) return "Python function, or native function with what was inlined into it.";
  if (by == By::kLibrary) return "File of the code; Python: the interpreter running Python code.";
  if (by == By::kLine) return "Source line; the function where no line is known.";
  return "Layer of the recorded call or framework's op during which the thread computed; between them, the module.";
}

TypedColumns<HotspotSums> HotspotsColumns(By by, int64_t all_ns) {
  const auto percent = [all_ns](int64_t HotspotSums::*time) {
    return [all_ns, time](const HotspotSums& sums) { return Percent(sums.*time, all_ns); };
  };
  TypedColumns<HotspotSums> columns = {
      {As(Role::kKey, TextColumn(kByNames[static_cast<size_t>(by)], Explanation(by))), &HotspotSums::what}};
  if (by == By::kFunction || by == By::kLine) {
    columns.Add({As(Role::kKey, TextColumn("library")), "File of the code; Python for Python code.",
                 Known(&HotspotSums::library)});
  }
  columns.Add(
      {As(Role::kWeight, TimeColumn("self_time")), "CPU time in it, without what it called.", &HotspotSums::self_ns});
  columns.Add({PercentColumn("self_percent", Better::kLower), "The same as a part of all samples' CPU time.",
               percent(&HotspotSums::self_ns)});
  columns.Add({IntegerColumn("in_calls", "ns", Better::kNeither),
               "Of the self time, that inside recorded library calls, which the other tables measure.",
               &HotspotSums::in_calls_ns});
  if (by != By::kLayer) {
    columns.Add({TimeColumn("total_time"), "CPU time in it and in what it called.", &HotspotSums::total_ns});
    columns.Add({PercentColumn("total_percent", Better::kLower), "The same as a part of all samples' CPU time.",
                 percent(&HotspotSums::total_ns)});
  }
  columns.Add({Detail(NumberColumn("samples")), "Samples behind the self time.", &HotspotSums::samples});
  return columns;
}

class Hotspots {
 public:
  Hotspots(const TraceModel& model, const TableOptions& options)
      : model_(model),
        attribution_(options.analysis->attribution()),
        by_(options.RowsOf("hotspots")),
        steps_(options.analysis->steps()),
        stacks_(model) {}

  Table Make() {
    for (size_t sample = 0; sample < model_.samples.size(); ++sample) Add(sample);
    const auto order =
        ByWeight(groups_, [](const HotspotSums& sums) { return std::pair(sums.self_ns, sums.total_ns); });
    Table table = NewTable("hotspots", kHotspotsTitle, HotspotsColumns(by_, all_ns_), order);
    AddNotes(&table);
    return table;
  }

 private:
  void Add(size_t sample) {
    const SampleColumns& samples = model_.samples;
    const int64_t cpu_ns = samples.cpu_ns[sample];
    const bool is_in_call = samples.is_in_call[sample] != 0;
    all_ns_ += cpu_ns;
    if (is_in_call) in_calls_ns_ += cpu_ns;
    if (samples.state[sample] == SampleState::kLate) late_ns_ += cpu_ns;
    if (samples.state[sample] == SampleState::kWithoutStack) without_stack_ns_ += cpu_ns;
    std::vector<HotspotKey> keys = KeysOf(sample);
    HotspotSums& self = GroupOf(keys.front(), groups_);
    ++self.samples;
    self.self_ns += cpu_ns;
    if (is_in_call) self.in_calls_ns += cpu_ns;
    absl::c_sort(keys);  // a function that calls itself counts once
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    for (const HotspotKey& key : keys) GroupOf(key, groups_).total_ns += cpu_ns;
  }

  // Where the thread computed, then who called whom, outwards.
  std::vector<HotspotKey> KeysOf(size_t sample) {
    const SampleColumns& samples = model_.samples;
    if (by_ == By::kLayer) return {{LayerOf(sample), ""}};
    std::vector<HotspotKey> keys;
    const FrameIndex frame = samples.frame[sample];
    const StackIndex python = samples.python_stack[sample];
    const absl::Span<const StackEntryIndex> entries = stacks_.OfSample(frame, python);
    const absl::Span<const FrameIndex> frames = stacks_.FramesOfSample(frame, python);
    for (size_t i = 0; i < entries.size(); ++i) {
      const StackEntry& entry = stacks_.entry(entries[i]);
      const bool is_inlined = i + 1 < entries.size() && frames[i] != kNone && frames[i] == frames[i + 1];
      if (is_inlined && by_ == By::kFunction) continue;  // a part of the next one
      if (entry.kind != StackEntry::Kind::kCut) keys.push_back(KeyOf(entry));
    }
    if (keys.empty() || samples.state[sample] == SampleState::kLate) keys.insert(keys.begin(), {kNoPlace, ""});
    return keys;
  }

  HotspotKey KeyOf(const StackEntry& entry) const {
    const bool is_python = entry.kind == StackEntry::Kind::kPython;
    std::string library = is_python ? kPythonCode : std::string(BaseName(entry.object));
    if (by_ == By::kLibrary) return {library.empty() ? kNoPlace : library, ""};
    if (by_ == By::kLine && entry.line != 0) {
      return {absl::StrCat(BaseName(entry.file), ":", entry.line), std::move(library)};
    }
    return {entry.function, std::move(library)};
  }

  std::string LayerOf(size_t sample) {
    const CallIndex call = model_.samples.call[sample];
    const ScopeIndex scope = model_.samples.scope[sample];
    LayerIndex layer = call == kNone ? kNone : attribution_.of_call[call].layer;
    if (layer == kNone && scope != kNone) layer = attribution_.of_scope[scope].layer;
    return layer == kNone ? ModuleOf(sample) : attribution_.layers[layer].name;
  }

  // Python and native code between calls belongs to the innermost module, as in the table layers.
  std::string ModuleOf(size_t sample) {
    const StackIndex python = model_.samples.python_stack[sample];
    if (python == kNone) return kNoLayer;
    if (places_.empty()) {
      places_ = ReadPythonPlaces(model_);
      modules_ = NameModules(model_, places_);
    }
    const ModuleIndex module = places_[python].module();
    if (module == kNone || modules_[module].name.empty()) return kNoLayer;
    return LayerBetweenCalls(attribution_.layers, modules_[module]);
  }

  void AddNotes(Table* table) const {
    std::vector<std::string>& notes = table->notes;
    if (model_.samples.empty()) {
      notes.emplace_back("No samples were taken: record with dlhook run --sample.");
      return;
    }
    notes.push_back(absl::StrCat(model_.samples.size(), " samples stand for ", HumanTime(all_ns_), " of CPU time; ",
                                 HumanTime(in_calls_ns_), " of it passed inside recorded calls."));
    if (without_stack_ns_ > 0) {
      notes.push_back(absl::StrCat(HumanTime(without_stack_ns_), " have no stack: ", kOwnLibrary,
                                   " was at work for a call, where it must not be disturbed."));
    }
    if (late_ns_ > 0) {
      notes.push_back(absl::StrCat(HumanTime(late_ns_),
                                   " have no place: their threads had blocked the signal (SIGURG) meanwhile, or were "
                                   "in one system call for more than 100 ms."));
    }
    for (std::string& note : TickNotes(model_, GroupSteps(steps_))) notes.push_back(std::move(note));
    notes.insert(notes.end(), model_.native_symbols.notes.begin(), model_.native_symbols.notes.end());
  }

  const TraceModel& model_;
  const Attribution& attribution_;
  const By by_;
  const std::vector<StepTrack>& steps_;
  CallStacks stacks_;
  std::vector<PythonPlace> places_;  // by Python stack, and by module; made when they are needed
  std::vector<ModuleName> modules_;
  std::map<HotspotKey, HotspotSums> groups_;
  int64_t all_ns_ = 0;
  int64_t in_calls_ns_ = 0;
  int64_t late_ns_ = 0;
  int64_t without_stack_ns_ = 0;
};

}  // namespace

absl::StatusOr<Table> HotspotsTable(const TraceModel& model, const TableOptions& options) {
  return Hotspots(model, options).Make();
}

}  // namespace dlhook::analyzer::tables
