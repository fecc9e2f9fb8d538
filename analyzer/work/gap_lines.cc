#include "analyzer/work/gap_lines.h"

#include "analyzer/time/thread_activity.h"
#include "analyzer/work/source_lines.h"

namespace dlhook::analyzer::inline work {
namespace {

using Stacks = std::pair<StackIndex, StackIndex>;  // before and after
using Function = std::pair<NameIndex, NameIndex>;  // file and function
using Counts = std::map<std::string, int64_t>;
using Neighbour = std::pair<bool, uint32_t>;  // a call's op; else the name of a scope

Function FunctionOf(const PythonPlace& place) { return {place.file, place.function}; }

// A function that runs from the beginning of gaps to their end.
struct Running {
  int64_t ns = 0;
  size_t depth = 0;  // below the outermost
};

constexpr int64_t kLongestReleaseNs = 20'000;  // of a tensor
constexpr int64_t kStretchNs = 100'000;
constexpr int64_t kStretchBetweenCallsNs = 20'000;  // without a framework, whose operations lie closer together
constexpr int64_t kUndisturbedNs = 1'000'000;       // others' time slices are longer

// Gaps between the same two operations.
struct Walked {
  int64_t ns = 0, count = 0, long_count = 0;
  bool AreStretches() const { return 2 * long_count >= count; }
};

// A sum over gaps that have their lines in common.
struct Gaps {
  Function function = {kNone, kNone};
  std::string caller;  // of the function: a package
  double share_ns = 0, update_ns = 0;
  int64_t walked_ns = 0;  // of input, without regard to what other threads do
  int64_t short_ns = 0;
  int64_t count = 0;
  // Of long ones, as long as memory was recorded: they, the time that tensors take that are released in them, and these.
  int64_t followed_ns = 0, released_ns = 0, followed = 0, released = 0;
  std::map<std::string, double> modules;
  std::map<std::string, int64_t> packages;  // nanoseconds
  std::map<Function, Running> running;
  std::map<Function, int64_t> called_from;  // nanoseconds: the innermost function that made the call before
  std::map<std::pair<Neighbour, Neighbour>, Walked> between;
  LookSums looks;
  std::vector<size_t> samples;
};

// In the steady steps, in the much longer ones, or in processes without steps.
enum class Where : uint8_t { kSteady, kLonger, kWorkers };

class LinesInSteps {
 public:
  explicit LinesInSteps(const StepFacts& facts, Where where = Where::kSteady)
      : facts_(facts),
        model_(facts.model()),
        where_(where),
        count_(where == Where::kLonger ? static_cast<double>(facts.steps().interrupted) : facts.count()),
        stretch_ns_(facts.frameworks().empty() ? kStretchBetweenCallsNs : kStretchNs),
        has_steps_(facts.model().processes.size()),
        places_(facts.places()),
        sources_(facts.Derived<SourceLines>()) {
    for (const StepTrack& track : facts.options().analysis->steps()) has_steps_[track.process] = true;
    for (const MemoryEvent& event : model_.memory) {
      if (event.bytes == 0 && event.device == 0) releases_[event.thread].push_back(event.time_ns);
    }
    for (auto& [thread, times] : releases_) absl::c_sort(times);
    const FoldedTime& time = FoldedTime::Of(model_, *facts.options().analysis);
    for (ProcessIndex process = 0; process < model_.processes.size(); ++process) {
      time.ForEach(process, [&](const TimePiece& piece) { AddTime(process, piece); });
    }
    const ActivityRules rules(model_);
    for (ThreadIndex thread = 0; thread < model_.threads.size(); ++thread) Follow(rules, thread);
    if (!model_.states.empty()) AddLooks();
    if (!model_.samples.empty()) AddSamples();
    const double input_ns =
        facts.Sum([](const auto& item) { return item.doing.activity == ActivityKind::kDataLoading; });
    for (auto& [text, gaps] : input_) {
      const double part = static_cast<double>(gaps.walked_ns) / static_cast<double>(input_walked_ns_);
      gaps.share_ns = input_ns * count_ * part;
    }
    of_gaps = Finished(gaps_);
    of_input = Finished(input_);
  }

  std::vector<GapLines> of_gaps, of_input;
  std::vector<SampledLine> sampled;

 private:
  using ByText = std::map<std::pair<std::string, Function>, Gaps>;

  bool IsInSteps(ProcessIndex process, int64_t time_ns) const {
    if (where_ == Where::kWorkers) return !has_steps_[process];
    if (where_ == Where::kSteady) return !facts_.HasSteps() || facts_.StepAt(process, time_ns) != kNone;
    for (const StepTrack& track : facts_.steps().interrupted_tracks) {
      if (track.process == process && StepAt(track, time_ns) != nullptr) return true;
    }
    return false;
  }

  // From one line to another; of what is not known nothing.
  std::string Label(const PythonPlace& from, const PythonPlace& to) const {
    const std::string line = LineLabel(model_, from.file == kNone ? to : from);
    if (from.file == kNone || to.file == kNone || (from.file == to.file && from.line == to.line)) return line;
    return absl::StrCat(line, " to ", from.file == to.file ? absl::StrCat(to.line) : LineLabel(model_, to));
  }

  // Where both stacks are in the innermost of the program's functions that they have in common by name.
  std::pair<PythonPlace, PythonPlace> InnermostOfBoth(const Stacks& stacks) const {
    const auto &before = model_.python_stacks[stacks.first].frames, &after = model_.python_stacks[stacks.second].frames;
    std::pair<PythonPlace, PythonPlace> places;
    for (size_t i = 0; i < std::min(before.size(), after.size()); ++i) {
      const PythonFrame &frame = before[before.size() - i - 1], &other = after[after.size() - i - 1];
      if (frame.file != other.file || frame.function != other.function) break;
      if (IsFrameworkFile(model_.names[frame.file])) continue;
      for (const auto& [place, of] : {std::pair(&places.first, &frame), {&places.second, &other}}) {
        place->file = of->file;
        place->function = of->function;
        place->line = of->line;
      }
    }
    return places;
  }

  // Lines of the innermost functions where only one end of the gap is deeper than what both have in common: this one
  // was called, and has not made a call before, or makes none any more. Else those of the common function.
  Gaps* GapsOf(const Stacks& stacks, bool is_input) {
    if (stacks.first == kNone || stacks.second == kNone) return nullptr;
    const auto [known, is_new] = (is_input ? inputs_of_ : gaps_of_).try_emplace(stacks, nullptr);
    if (!is_new) return known->second;
    const PythonPlace &before = places_[stacks.first], &after = places_[stacks.second];
    const auto& of_gap = facts_.attribution().of_gap;
    const auto at = of_gap.find(stacks);
    // What two items of a worker have in common is the line that started it.
    const bool has_common = where_ != Where::kWorkers && at != of_gap.end() && at->second.file != kNone;
    Function common = has_common ? Function(at->second.file, at->second.function) : FunctionOf(before);
    std::string text = has_common ? at->second.line : Label(before, after);
    bool is_deeper_before = FunctionOf(before) != common, is_deeper_after = FunctionOf(after) != common;
    if (is_deeper_before && is_deeper_after) {
      // Whether a function was called again, or goes around a loop of its own, the stacks don't tell.
      const auto [in_before, in_after] = InnermostOfBoth(stacks);
      const std::string label = Label(in_before, in_after);
      const auto [in_loop, is_unknown] = in_loop_.try_emplace(label);
      if (is_unknown) in_loop->second = sources_.AreInOneLoop(label);
      if (in_loop->second) {
        text = label;
        common = FunctionOf(in_before);
        is_deeper_before = FunctionOf(before) != common;
        is_deeper_after = FunctionOf(after) != common;
      }
    }
    if (is_deeper_before != is_deeper_after) {
      text = Label(before, after);
      common = FunctionOf(is_deeper_before ? before : after);
    }
    if (text.empty()) return nullptr;
    known->second = &(is_input ? input_ : gaps_)[{std::move(text), common}];
    known->second->function = common;
    known->second->caller = PackageAround(model_, model_.python_stacks[stacks.first], common);
    return known->second;
  }

  void AddTime(ProcessIndex process, const TimePiece& piece) {
    if (piece.kind != ActivityKind::kNotSeen || !IsInSteps(process, piece.start_ns)) return;
    Gaps* const gaps = GapsOf({piece.gap.before, piece.gap.after}, /*is_input=*/false);
    if (gaps == nullptr) return;
    const auto ns = static_cast<double>(piece.share_ns);
    const Place place = facts_.attribution().PlaceOfGap(piece.gap);
    const LayerIndex layer = place.layer;
    gaps->share_ns += ns;
    if (place.direction == LayerDirection::kUpdate && piece.gap.around != kNone) gaps->update_ns += ns;
    if (layer != kNone) gaps->modules[facts_.attribution().layers[layer].module] += ns;
  }

  Neighbour NeighbourOf(const ThreadActivity::Edge& edge) const {
    return {edge.IsOfCall(), edge.IsOfCall() ? model_.calls.op[edge.index] : model_.scopes.look[edge.index].name};
  }

  const std::string& PackageOfGap(const Stacks& stacks) {
    const auto [known, is_new] = packages_.try_emplace(stacks);
    if (is_new) {
      known->second = PackageBetween(model_, model_.python_stacks[stacks.first], model_.python_stacks[stacks.second]);
    }
    return known->second;
  }

  // The functions that both stacks have in common, the outermost first.
  const std::vector<Function>& RunningIn(const Stacks& stacks) {
    const auto [known, is_new] = running_.try_emplace(stacks);
    if (!is_new) return known->second;
    const auto &before = model_.python_stacks[stacks.first].frames, &after = model_.python_stacks[stacks.second].frames;
    size_t common = 0;
    for (; common < std::min(before.size(), after.size()); ++common) {
      const PythonFrame &frame = before[before.size() - common - 1], &other = after[after.size() - common - 1];
      if (frame.file != other.file || frame.function != other.function || PassesOn(frame)) break;
      known->second.emplace_back(frame.file, frame.function);
    }
    // Which part of the time is the program's, whose code was called from there, is not known.
    const auto has_own = [&](const std::vector<PythonFrame>& frames) {
      return std::any_of(frames.begin(), frames.end() - static_cast<ptrdiff_t>(common),
                         [&](const PythonFrame& frame) { return !IsFrameworkFile(model_.names[frame.file]); });
    };
    if (has_own(before) || has_own(after)) known->second.clear();
    return known->second;
  }

  // "save (serialization.py)", of an installed package; else empty.
  std::string PackageFunction(const Function& function) const {
    const std::string& file = model_.names[function.first];
    if (!IsFrameworkFile(file)) return "";
    return absl::StrCat(FunctionName(model_, function.second), " (", file.substr(file.rfind('/') + 1), ")");
  }

  // The innermost in which more than half of the time passes, if it is a package's; of all, or of its callbacks.
  std::string PackageFunctionOf(const Gaps& gaps, bool of_callbacks = false) const {
    const auto most = absl::c_max_element(gaps.running, [&](const auto& a, const auto& b) {
      return Rank(gaps, a, of_callbacks) < Rank(gaps, b, of_callbacks);
    });
    return most == gaps.running.end() || Rank(gaps, *most, of_callbacks) == 0 ? "" : PackageFunction(most->first);
  }
  size_t Rank(const Gaps& gaps, const std::pair<const Function, Running>& running, bool of_callbacks) const {
    const auto& [file, function] = running.first;
    const bool counts = !of_callbacks || (absl::StrContains(model_.names[file], "/callbacks/") &&
                                          !absl::StrContains(FunctionName(model_, function), "CallbackList"));
    return counts && 2 * running.second.ns > gaps.walked_ns ? running.second.depth + 1 : 0;
  }

  // torch.ops, torch.profiler: pass calls on to operators, or mark what others do.
  bool PassesOn(const PythonFrame& frame) const {
    const std::string& file = model_.names[frame.file];
    return absl::EndsWith(file, "/torch/_ops.py") || absl::EndsWith(file, "/torch/autograd/profiler.py");
  }

  // Who made the call before, if the program is still at the line that asked for it.
  Function CallerOf(const Stacks& stacks) const {
    const PythonPlace &before = places_[stacks.first], &after = places_[stacks.second];
    if (before.file != after.file || before.line != after.line) return {kNone, kNone};
    for (const PythonFrame& frame : model_.python_stacks[stacks.first].frames) {
      // An update ends a step: what follows it is the next one's.
      if (absl::EndsWith(model_.names[frame.file], "/torch/optim/optimizer.py")) break;
      if (!PassesOn(frame)) return {frame.file, frame.function};
    }
    return {kNone, kNone};
  }

  // Numbers of gaps and what they lie between, which folded time does not tell.
  void Follow(const ActivityRules& rules, ThreadIndex thread) {
    const ProcessIndex process = model_.threads[thread].process;
    for (ThreadActivity activity(model_, rules, thread, /*for_gaps=*/true); activity.next_time_ns() != INT64_MAX;) {
      const int64_t now_ns = activity.next_time_ns();
      activity.Step();
      const ActivityKind kind = activity.now().kind;
      const bool is_input = kind == ActivityKind::kDataLoading;
      const bool has_end = activity.next_time_ns() != INT64_MAX;
      if ((kind != ActivityKind::kNotSeen && !is_input) || !has_end || !IsInSteps(process, now_ns)) continue;
      const int64_t ns = activity.next_time_ns() - now_ns;
      if (is_input) input_walked_ns_ += ns;
      const Stacks stacks = {activity.StackOf(activity.last()), activity.StackOf(activity.next())};
      Gaps* const gaps = GapsOf(stacks, is_input);
      if (gaps == nullptr) continue;
      gaps->walked_ns += ns;
      gaps->short_ns += ns < kUndisturbedNs ? ns : 0;
      ++gaps->count;
      if (ns >= stretch_ns_) AddReleases(thread, now_ns, activity.next_time_ns(), *gaps);
      gaps->packages[PackageOfGap(stacks)] += ns;
      for (size_t depth = 0; depth < RunningIn(stacks).size(); ++depth) {
        Running& running = gaps->running[RunningIn(stacks)[depth]];
        running.depth = std::max(running.depth, depth);
        running.ns += ns;
      }
      if (const Function function = CallerOf(stacks); function.first != kNone) gaps->called_from[function] += ns;
      Walked& between = gaps->between[{NeighbourOf(activity.last()), NeighbourOf(activity.next())}];
      between.ns += ns;
      ++between.count;
      between.long_count += ns >= stretch_ns_ ? 1 : 0;
    }
  }

  // Each one's own time lies behind it; what is longer is none's: Python went on, and came back.
  void AddReleases(ThreadIndex thread, int64_t start_ns, int64_t end_ns, Gaps& gaps) const {
    const auto found = releases_.find(thread);
    if (found == releases_.end() || end_ns > found->second.back()) return;
    const auto first = absl::c_lower_bound(found->second, start_ns), end = absl::c_lower_bound(found->second, end_ns);
    const int64_t count = end - first;
    ++gaps.followed;
    gaps.followed_ns += end_ns - start_ns;
    gaps.released += count;
    for (auto at = first; at != end; ++at) {
      const int64_t next_ns = at + 1 == end ? end_ns : *(at + 1);
      gaps.released_ns += std::min(next_ns - *at, kLongestReleaseNs);
    }
  }

  void AddLooks() {
    const auto& looks = facts_.Derived<StateLooks>();
    for (ProcessIndex process = 0; process < model_.processes.size(); ++process) {
      for (const StateLook& look : looks.Of(process)) {
        if (look.piece.kind != ActivityKind::kNotSeen || !IsInSteps(process, look.piece.start_ns)) continue;
        Gaps* const gaps = GapsOf({look.piece.gap.before, look.piece.gap.after}, /*is_input=*/false);
        if (gaps != nullptr) gaps->looks.Add(look.sums);
      }
    }
  }

  void AddSamples() {
    const auto& samples = facts_.Derived<GapSamples>();
    std::map<std::pair<ActivityKind, SamplePlaceIndex>, std::vector<size_t>> by_owner;
    const auto& owners = facts_.Derived<SamplePlaces>();
    for (ProcessIndex process = 0; process < model_.processes.size(); ++process) {
      for (const auto& [sample, piece] : samples.Of(process)) {
        if (!IsInSteps(process, piece.start_ns)) continue;
        by_owner[{piece.kind, owners.OwnerOf(sample)}].push_back(sample);
        if (piece.kind != ActivityKind::kNotSeen) continue;
        Gaps* const gaps = GapsOf({piece.gap.before, piece.gap.after}, /*is_input=*/false);
        if (gaps != nullptr) gaps->samples.push_back(sample);
      }
    }
    for (const auto& [of, found] : by_owner) {
      for (SampledLine& line : LinesOf(found)) {
        std::tie(line.kind, line.owner) = of;
        sampled.push_back(std::move(line));
      }
    }
    SortByCount(sampled);
  }

  static void SortByCount(std::vector<SampledLine>& lines) {
    std::ranges::stable_sort(lines, std::ranges::greater(), &SampledLine::samples);
  }

  // By function, the main code by line; most samples first.
  std::vector<SampledLine> LinesOf(const std::vector<size_t>& samples) const {
    struct OfFunction {
      SampledLine line;
      Counts lines;
      SampleSums owners;
    };
    std::map<std::pair<Function, uint32_t>, OfFunction> by_function;
    const auto& owners = facts_.Derived<SamplePlaces>();
    for (const size_t sample : samples) {
      const StackIndex stack = model_.samples.python_stack[sample];
      if (stack == kNone || places_[stack].file == kNone) continue;
      const PythonPlace& place = places_[stack];
      const std::string name = FunctionName(model_, place.function);
      OfFunction& found = by_function[{FunctionOf(place), name.empty() ? place.line : 0}];
      found.line.function = name;
      ++found.line.samples;
      found.line.cpu_ns += model_.samples.cpu_ns[sample];
      ++found.lines[LineLabel(model_, place)];
      found.owners[owners.OwnerOf(sample)].Add(SumOfOne(model_.samples.cpu_ns[sample]));
    }
    std::vector<SampledLine> lines;
    for (auto& [function, found] : by_function) {
      found.line.line = MostOf(found.lines)->first;
      found.line.owner = MostOf(found.owners, [](const auto& of) { return of.samples; })->first;
      lines.push_back(std::move(found.line));
    }
    SortByCount(lines);
    return lines;
  }

  void AddStretches(const Gaps& gaps, GapLines& lines) const {
    std::map<Neighbour, int64_t> before, after;  // nanoseconds
    int64_t ns = 0, count = 0;
    for (const auto& [neighbours, walked] : gaps.between) {
      if (!walked.AreStretches()) continue;
      ns += walked.ns;
      count += walked.count;
      before[neighbours.first] += walked.ns;
      after[neighbours.second] += walked.ns;
    }
    if (ns == 0) return;
    lines.stretch_ns = lines.ns * static_cast<double>(ns) / static_cast<double>(gaps.walked_ns);
    lines.stretch_count = static_cast<double>(count) / count_;
    for (const auto& [counts, name] : {std::pair(&before, &lines.before), {&after, &lines.after}}) {
      const auto most = MostOf(*counts);
      if (2 * most->second <= ns) continue;
      *name = most->first.first ? model_.ops[most->first.second].function : model_.names[most->first.second];
    }
  }

  std::vector<GapLines> Finished(const ByText& by_text) const {
    std::vector<GapLines> all;
    for (const auto& [key, gaps] : by_text) {
      GapLines& lines = all.emplace_back();
      lines.text = key.first;
      lines.function = FunctionName(model_, gaps.function.second);
      lines.ns = gaps.share_ns / count_;
      lines.count = static_cast<double>(gaps.count) / count_;
      lines.update_ns = gaps.update_ns / count_;
      if (gaps.walked_ns > 0)
        lines.short_ns = lines.ns * static_cast<double>(gaps.short_ns) / static_cast<double>(gaps.walked_ns);
      AddStretches(gaps, lines);
      if (gaps.followed > 0) {
        // Waits for a processor lie between releases, too, where they are not counted.
        const MachineLoad& load = facts_.load();
        const double runs = load.is_known ? std::max(1 - load.waiting_ns / facts_.step_ns(), 0.1) : 1;
        const double own_ns = runs * static_cast<double>(gaps.followed_ns);
        lines.released_part = std::min(static_cast<double>(gaps.released_ns) / own_ns, 1.0);
        lines.released = static_cast<double>(gaps.released) / static_cast<double>(gaps.followed);
      }
      if (!gaps.packages.empty() && 2 * MostOf(gaps.packages)->second > gaps.walked_ns) {
        lines.package = MostOf(gaps.packages)->first;
      }
      lines.is_called_back = !lines.package.empty() && gaps.caller == lines.package;
      lines.package_function = PackageFunctionOf(gaps);
      lines.callback = PackageFunctionOf(gaps, /*of_callbacks=*/true);
      if (!gaps.called_from.empty() && 2 * MostOf(gaps.called_from)->second > gaps.walked_ns)
        lines.called_from = PackageFunction(MostOf(gaps.called_from)->first);
      const auto module = MostOf(gaps.modules);
      if (module != gaps.modules.end()) lines.module = module->first;
      if (const auto blocked_ns = gaps.looks.BlockedOf(static_cast<int64_t>(gaps.share_ns))) {
        lines.blocked_ns = static_cast<double>(*blocked_ns) / count_;
      }
      lines.samples = std::ssize(gaps.samples);
      std::vector<SampledLine> sampled_lines = LinesOf(gaps.samples);
      if (!sampled_lines.empty()) lines.sampled = std::move(sampled_lines.front());
    }
    std::ranges::stable_sort(all, std::ranges::greater(), &GapLines::ns);
    return all;
  }

  const StepFacts& facts_;
  const TraceModel& model_;
  const Where where_;
  const double count_;  // steps
  const int64_t stretch_ns_;
  std::vector<bool> has_steps_;  // by process
  const std::vector<PythonPlace>& places_;
  const SourceLines& sources_;
  std::map<std::string, bool> in_loop_;                   // by label
  std::map<ThreadIndex, std::vector<int64_t>> releases_;  // of tensors of the host, in order of time
  ByText gaps_, input_;
  int64_t input_walked_ns_ = 0;                             // with what no line is known of
  absl::flat_hash_map<Stacks, Gaps*> gaps_of_, inputs_of_;  // in these
  absl::flat_hash_map<Stacks, std::string> packages_;
  absl::flat_hash_map<Stacks, std::vector<Function>> running_;
};

struct LinesInLongerSteps : LinesInSteps {
  explicit LinesInLongerSteps(const StepFacts& facts) : LinesInSteps(facts, Where::kLonger) {}
};

struct LinesInWorkers : LinesInSteps {
  explicit LinesInWorkers(const StepFacts& facts) : LinesInSteps(facts, Where::kWorkers) {}
};

const LinesInSteps& LinesOf(const StepFacts& facts) { return facts.options().analysis->Derived<LinesInSteps>(facts); }

}  // namespace

const std::vector<GapLines>& GapLinesOf(const StepFacts& facts) { return LinesOf(facts).of_gaps; }

const std::vector<GapLines>& GapLinesOfLonger(const StepFacts& facts) {
  return facts.options().analysis->Derived<LinesInLongerSteps>(facts).of_gaps;
}

const std::vector<GapLines>& WorkerLinesOf(const StepFacts& facts) {
  return facts.options().analysis->Derived<LinesInWorkers>(facts).of_gaps;
}

const std::vector<GapLines>& InputLinesOf(const StepFacts& facts) { return LinesOf(facts).of_input; }
const std::vector<SampledLine>& SampledLinesOf(const StepFacts& facts) { return LinesOf(facts).sampled; }

const std::vector<SampledLine>& WorkerSampledLinesOf(const StepFacts& facts) {
  return facts.options().analysis->Derived<LinesInWorkers>(facts).sampled;
}

}  // namespace dlhook::analyzer::work
