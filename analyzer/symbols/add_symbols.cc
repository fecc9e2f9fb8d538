// Addresses of frames -> objects -> names. Each object is opened once for all processes that mapped it, and only if a
// frame lies in it.
#include "analyzer/symbols/add_symbols.h"

#include <sys/stat.h>

#include <cstdlib>

#include "analyzer/names/fold_names.h"
#include "analyzer/symbols/code_map.h"
#include "analyzer/symbols/isolated.h"
#include "analyzer/symbols/jit_symbols.h"
#include "analyzer/symbols/resolve_object.h"

namespace dlhook::analyzer::inline symbols {
namespace {

constexpr char kJitObject[] = "[jit]";
constexpr size_t kMostRefusedNotes = 4;

// Number of frames that a note is about, and of the calls, samples and waits with these frames on their stacks.
struct Extent {
  int64_t frames = 0;
  int64_t calls = 0;
  int64_t samples = 0;
  int64_t waits = 0;
};

std::string Describe(const Extent& extent) {
  const auto count = [](int64_t number, const char* noun) {
    return absl::StrCat(number, " ", noun, number == 1 ? "" : "s");
  };
  std::vector<std::string> stacks;
  if (extent.calls > 0 || extent.samples + extent.waits == 0) stacks.push_back(count(extent.calls, "call"));
  if (extent.samples > 0) stacks.push_back(count(extent.samples, "sample"));
  if (extent.waits > 0) stacks.push_back(count(extent.waits, "wait"));
  return absl::StrCat(count(extent.frames, "frame"), " in the stacks of ", absl::StrJoin(stacks, " and "));
}

// Counts calls and frames with at least one frame, from them outwards, for which `is_meant` is set.
Extent ExtentOf(const TraceModel& model, const std::vector<bool>& is_meant) {
  Extent extent;
  std::vector<bool> passes(is_meant.size());  // parents precede their children
  for (size_t frame = 0; frame < is_meant.size(); ++frame) {
    const FrameIndex parent = model.native_frames.parent[frame];
    passes[frame] = is_meant[frame] || (parent != kNone && passes[parent]);
    extent.frames += is_meant[frame] ? 1 : 0;
  }
  for (const FrameIndex frame : model.calls.native_stack) extent.calls += frame != kNone && passes[frame] ? 1 : 0;
  for (const FrameIndex frame : model.samples.frame) extent.samples += frame != kNone && passes[frame] ? 1 : 0;
  for (const Wait& wait : model.waits) extent.waits += wait.frame != kNone && passes[wait.frame] ? 1 : 0;
  return extent;
}

// Adds to the model's names.
class Names {
 public:
  explicit Names(TraceModel* model) : model_(*model) {
    for (size_t i = 0; i < model_.names.size(); ++i) known_.emplace(model_.names[i], static_cast<NameIndex>(i));
  }
  NameIndex Of(absl::string_view text) {
    if (text.empty()) return kNone;
    const auto [place, is_new] = known_.emplace(text, static_cast<NameIndex>(model_.names.size()));
    if (is_new) model_.AddName(text);
    return place->second;
  }

 private:
  TraceModel& model_;
  absl::flat_hash_map<std::string, NameIndex> known_;
};

// The wall-clock start of the process, derived from its trace, which was written until it ended.
std::optional<int64_t> StartOf(const ProcessInfo& process) {
  struct stat status;
  if (process.path.empty() || stat(process.path.c_str(), &status) != 0) return std::nullopt;
  constexpr int64_t kSecond = 1000000000;
  return status.st_mtim.tv_sec - (process.end_ns - process.start_ns) / kSecond;
}

class SymbolAdder {
 public:
  SymbolAdder(const SymbolOptions& options, TraceModel* model)
      : options_(options), model_(*model), names_(model), place_of_(model->native_frames.size()) {}

  void Run() {
    for (ProcessIndex process = 0; process < model_.processes.size(); ++process) FindPlaces(process);
    AskObjects();
    Fill();
    TellObjects();
    TellOthers();
  }

 private:
  static constexpr uint32_t kNoObject = kNone;
  struct Place {
    uint32_t object = kNoObject;  // index in requests_
    uint64_t offset = 0;          // in it
    bool is_doubtful = false;
    const JitFunction* jit = nullptr;  // if set, instead of an object
  };

  void FindPlaces(ProcessIndex process) {
    const CodeMap map(model_.processes[process]);
    const JitSymbols* jit = nullptr;
    absl::flat_hash_map<uint64_t, Place> known;
    for (size_t frame = 0; frame < place_of_.size(); ++frame) {
      if (model_.native_frames.process[frame] != process) continue;
      const uint64_t address = model_.native_frames.address[frame];
      const auto [found, is_new] = known.try_emplace(address);
      if (is_new) {
        Place& place = found->second;
        if (const Mapping* const mapping = map.Find(address, &place.is_doubtful)) {
          place.object = ObjectOf(*mapping, process);
          place.offset = address - mapping->start;
          requests_[place.object].offsets.push_back(place.offset);
        } else {
          if (jit == nullptr) jit = JitOf(process);
          place.jit = jit->Find(address);
        }
      }
      place_of_[frame] = found->second;
    }
  }

  // Reads JIT files only for processes with frames outside all files.
  const JitSymbols* JitOf(ProcessIndex process) {
    const ProcessInfo& info = model_.processes[process];
    const JitOwner owner = {.pid = info.pid, .start_realtime_s = StartOf(info)};
    const auto place = jit_.emplace(process, ReadJitFiles(info.path, owner, &model_.native_symbols.notes)).first;
    if (place->second.replaced() > 0) {
      model_.native_symbols.notes.push_back(
          absl::StrCat("Process ", owner.pid, " put new code into the place of ", place->second.replaced(),
                       " functions that it had compiled before: frames there have the last one's name."));
    }
    return &place->second;
  }

  uint32_t ObjectOf(const Mapping& mapping, ProcessIndex process) {
    const auto [place, is_new] =
        objects_.emplace(std::make_pair(mapping.path, mapping.build_id), static_cast<uint32_t>(requests_.size()));
    if (is_new) {
      requests_.push_back({mapping.path, mapping.build_id, {}});
      starts_.push_back(StartOf(model_.processes[process]));
    }
    return place->second;
  }

  void AskObjects() {
    for (ObjectRequest& request : requests_) {
      absl::c_sort(request.offsets);
      request.offsets.erase(std::unique(request.offsets.begin(), request.offsets.end()), request.offsets.end());
    }
    const char* const servers = getenv("DEBUGINFOD_URLS");
    constexpr int kSeconds = 120;
    constexpr int kSecondsWithNetwork = 1800;
    const bool asks_network = servers != nullptr && *servers != '\0';
    const std::vector<IsolatedResult> results =
        RunIsolated(requests_.size(), asks_network ? kSecondsWithNetwork : kSeconds,
                    [&](size_t i) { return ResolveObject(requests_[i], options_).SerializeAsString(); });
    answers_.resize(requests_.size());
    for (size_t i = 0; i < results.size(); ++i) {
      ObjectAnswer& answer = answers_[i];
      if (!results[i].failure.empty()) {
        answer.set_refusal(results[i].failure);
      } else if (!answer.ParseFromString(results[i].bytes) ||
                 (answer.refusal().empty() && std::ssize(requests_[i].offsets) != answer.frames_size())) {
        answer.Clear();
        answer.set_refusal("reading it failed");
      }
    }
  }

  void Fill() {
    NativeSymbols& symbols = model_.native_symbols;
    // Frames at one address have the same symbols, which are looked up once.
    absl::flat_hash_map<std::pair<uint32_t, uint64_t>, std::vector<NativeSymbol>> known;
    for (size_t frame = 0; frame < place_of_.size(); ++frame) {
      symbols.begin.push_back(static_cast<uint32_t>(symbols.symbols.size()));
      const Place& place = place_of_[frame];
      if (place.object == kNoObject) {
        symbols.symbols.push_back(OutsideOfFiles(place, model_.native_frames.address[frame]));
        continue;
      }
      std::vector<NativeSymbol>& of_address = known[{place.object, place.offset}];
      if (of_address.empty()) of_address = InObject(place);
      symbols.symbols.insert(symbols.symbols.end(), of_address.begin(), of_address.end());
    }
    symbols.begin.push_back(static_cast<uint32_t>(symbols.symbols.size()));
  }

  NativeSymbol OutsideOfFiles(const Place& place, uint64_t address) {
    NativeSymbol symbol;
    symbol.offset = address;
    if (place.jit == nullptr) return symbol;
    symbol.function = names_.Of(DemangleSymbol(place.jit->name));
    symbol.object = names_.Of(kJitObject);
    symbol.offset = address - place.jit->start;
    for (const JitLine& line : place.jit->lines) {
      if (line.address > address) break;
      symbol.file = names_.Of(line.file);
      symbol.line = line.line;
    }
    return symbol;
  }

  std::vector<NativeSymbol> InObject(const Place& place) {
    const ObjectRequest& request = requests_[place.object];
    const ObjectAnswer& answer = answers_[place.object];
    NativeSymbol symbol;
    symbol.object = names_.Of(request.path);
    symbol.offset = place.offset + answer.first_address();
    const auto at = static_cast<int>(absl::c_lower_bound(request.offsets, place.offset) - request.offsets.begin());
    if (answer.frames_size() == 0 || answer.frames(at).frame_size() == 0) return {symbol};
    std::vector<NativeSymbol> symbols;
    for (const SymbolFrame& frame : answer.frames(at).frame()) {
      symbol.function = names_.Of(frame.function());
      if (symbol.function != kNone) symbol.offset = frame.offset();
      symbol.file = names_.Of(frame.file());
      symbol.line = frame.line();
      symbol.is_inlined = frame.is_inlined();
      symbols.push_back(symbol);
    }
    return symbols;
  }

  template <typename IsMeant>
  Extent ExtentWhere(IsMeant is_meant) const {
    std::vector<bool> meant(place_of_.size());
    for (size_t frame = 0; frame < place_of_.size(); ++frame) meant[frame] = is_meant(place_of_[frame]);
    return ExtentOf(model_, meant);
  }

  // Files without names, those with most frames first.
  std::vector<uint32_t> Refused() const {
    std::vector<uint64_t> frames(requests_.size());
    for (const Place& place : place_of_) {
      if (place.object < frames.size()) ++frames[place.object];
    }
    std::vector<uint32_t> refused;
    for (uint32_t object = 0; object < requests_.size(); ++object) {
      if (!answers_[object].refusal().empty()) refused.push_back(object);
    }
    absl::c_stable_sort(refused, [&](uint32_t a, uint32_t b) { return frames[a] > frames[b]; });
    return refused;
  }

  // A run that is read on another machine lacks nearly all files: a sentence for each would hide the table.
  void TellRefused() {
    std::vector<std::string>& notes = model_.native_symbols.notes;
    const std::vector<uint32_t> refused = Refused();
    const size_t single = refused.size() <= kMostRefusedNotes ? refused.size() : kMostRefusedNotes - 1;
    for (size_t i = 0; i < single; ++i) {
      const std::string extent = Describe(ExtentWhere([&](const Place& place) { return place.object == refused[i]; }));
      notes.push_back(absl::StrCat(requests_[refused[i]].path, ": ", answers_[refused[i]].refusal(), ". ", extent,
                                   " have no names."));
    }
    if (single == refused.size()) return;
    std::vector<bool> is_other(requests_.size());
    for (size_t i = single; i < refused.size(); ++i) is_other[refused[i]] = true;
    const Extent extent =
        ExtentWhere([&](const Place& place) { return place.object < is_other.size() && is_other[place.object]; });
    notes.push_back(absl::StrCat(refused.size() - single, " more files are missing or are not those of the run: ",
                                 Describe(extent), " have no names. A run has most names where it was recorded."));
  }

  void TellObjects() {
    TellRefused();
    std::vector<std::string>& notes = model_.native_symbols.notes;
    for (uint32_t object = 0; object < requests_.size(); ++object) {
      const ObjectRequest& request = requests_[object];
      const ObjectAnswer& answer = answers_[object];
      if (!answer.refusal().empty()) continue;
      if (!answer.remark().empty()) {
        notes.push_back(absl::StrCat(request.path, ": ", answer.remark(), "."));
      } else if (request.build_id.empty() && IsNewerThan(request.path, starts_[object])) {
        const Extent extent = ExtentWhere([&](const Place& place) { return place.object == object; });
        notes.push_back(absl::StrCat(request.path,
                                     " has no build-id and was written after the run began: the names of ",
                                     Describe(extent), " may be those of other code."));
      }
    }
  }

  static bool IsNewerThan(const std::string& path, const std::optional<int64_t>& start_s) {
    struct stat status;
    return start_s && stat(path.c_str(), &status) == 0 && status.st_mtim.tv_sec > *start_s;
  }

  void TellOthers() {
    std::vector<std::string>& notes = model_.native_symbols.notes;
    const Extent doubtful = ExtentWhere([](const Place& place) { return place.is_doubtful; });
    if (doubtful.frames > 0) {
      notes.push_back(
          absl::StrCat(Describe(doubtful),
                       " lie where several files were mapped one after another: they have the last one's names."));
    }
    const Extent nowhere =
        ExtentWhere([](const Place& place) { return place.object == kNoObject && place.jit == nullptr; });
    if (nowhere.frames > 0) {
      notes.push_back(
          absl::StrCat(Describe(nowhere),
                       " lie in code that is in no file. What a program compiles while it runs has names where it "
                       "writes a perf map (python -X perf, node --perf-basic-prof, java -XX:+UnlockDiagnosticVMOptions "
                       "-XX:+DumpPerfMapAtExit), or has LLVM compile it and is sampled by dlhook run."));
    }
  }

  const SymbolOptions& options_;
  TraceModel& model_;
  Names names_;
  std::vector<Place> place_of_;  // by frame
  std::map<ProcessIndex, JitSymbols> jit_;
  absl::flat_hash_map<std::pair<std::string, std::string>, uint32_t> objects_;
  std::vector<ObjectRequest> requests_;
  std::vector<std::optional<int64_t>> starts_;  // of the first process that had the object mapped
  std::vector<ObjectAnswer> answers_;
};

}  // namespace

void AddSymbols(const SymbolOptions& options, TraceModel* model) {
  if (model->native_frames.size() == 0 || !model->native_symbols.empty()) return;
  SymbolAdder(options, model).Run();
}

}  // namespace dlhook::analyzer::symbols
