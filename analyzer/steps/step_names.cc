// Names of steps: see step_assembly.h.

#include "analyzer/model/scope_looks.h"
#include "analyzer/steps/step_assembly.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline steps {
namespace {

constexpr size_t kFewSteps = 3;      // fewer are not a sort of their own
constexpr size_t kFewNumbers = 4;    // more names that differ in numbers only count something
constexpr double kInARow = 0.75;     // part of the steps of a size that must be followed by one of the same size
constexpr double kManySteps = 0.25;  // or part of all steps that must have the size
constexpr double kOftenPart = 0.5;   // the most frequent size is a reference for the others only above this part

using Size = std::pair<int64_t, int32_t>;  // batch, passes before the update

Size SizeOf(const Step& step) { return {step.batch, step.micro_steps}; }
double Part(size_t part, size_t whole) { return static_cast<double>(part) / static_cast<double>(whole); }

// The sort of the steps of one size; the name is empty if there is only one.
struct Sort {
  std::string name;
  bool is_regular = true;
};

// For the steps of one network, in order of time.
class SizeSorter {
 public:
  explicit SizeSorter(const std::vector<Step*>& steps)
      : steps_(steps), are_requests_(steps.front()->kind == StepKind::kInference) {
    std::map<Size, size_t> followed;
    for (size_t i = 0; i < steps.size(); ++i) {
      const Size size = SizeOf(*steps[i]);
      ++counts_[size];
      followed[size] += i + 1 < steps.size() && SizeOf(*steps[i + 1]) == size ? 1 : 0;
    }
    for (const auto& [size, count] : counts_) {
      const bool are_many = !are_requests_ && Part(count, steps.size()) >= kManySteps;
      const bool is_own = count >= kFewSteps && (are_many || Part(followed[size], count) >= kInARow);
      (is_own ? own_ : rest_).insert(size);
      if (count < most_) continue;
      most_ = count;
      most_frequent_ = size;
    }
  }

  std::map<Size, Sort> SortAll() const {
    const bool is_varied =
        rest_.size() > 1 && (are_requests_ || (own_.empty() && Part(most_, steps_.size()) < kOftenPart));
    const std::string span =
        rest_.empty() ? "" : absl::StrCat("batches ", rest_.begin()->first, " to ", rest_.rbegin()->first);
    std::map<Size, Sort> sorts;
    std::set<std::string> names;
    for (const auto& [size, count] : counts_) {
      Sort& sort = sorts[size];
      if (is_varied && rest_.contains(size)) {
        sort.name = span;
      } else if (own_.contains(size) || are_requests_) {
        sort.name = NameOf(size);
      } else {
        sort = {NameOf(most_frequent_), size == most_frequent_};
      }
      names.insert(sort.name);
    }
    if (names.size() == 1 && !is_varied) {
      for (auto& [size, sort] : sorts) sort.name.clear();
    }
    return sorts;
  }

  const Size& most_frequent() const { return most_frequent_; }

 private:
  std::string NameOf(const Size& size) const {
    const std::string batch = size.first > 0 ? absl::StrCat("batch ", size.first) : "batch not known";
    return size.second > 1 ? absl::StrCat(batch, " x ", size.second) : batch;
  }

  const std::vector<Step*>& steps_;
  const bool are_requests_;
  std::map<Size, size_t> counts_;
  std::set<Size> own_, rest_;
  Size most_frequent_ = {};
  size_t most_ = 0;  // steps of that size
};

// Finds the program's own ranges that enclose exactly one step each.
class RangeFinder {
 public:
  RangeFinder(const TraceModel& model, const std::vector<StepTrack>& tracks) : model_(model) {
    Find(tracks);
    for (const auto& [step, range] : ranges_) ++counts_[range];
    std::map<std::string, std::vector<NameIndex>> alike;
    for (const auto& [range, count] : counts_) alike[WithoutNumbers(model_.names[range])].push_back(range);
    for (const auto& [name, ranges] : alike) {
      if (ranges.size() > kFewNumbers) numbered_.insert(ranges.begin(), ranges.end());
    }
  }

  // Neither a name that hardly recurs nor one of those that count steps ("step 17", in every epoch) distinguishes any.
  std::string Of(const Step& step) const {
    const auto range = ranges_.find(&step);
    if (range == ranges_.end() || counts_.at(range->second) < kFewSteps || numbered_.contains(range->second)) return "";
    return model_.names[range->second];
  }

 private:
  static std::string WithoutNumbers(std::string name) {
    std::erase_if(name, [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); });
    return name;
  }

  bool IsOwn(const ScopeLook& look) const {
    constexpr ScopeRole kOfOthers[] = {ScopeRole::kOptimizerStep, ScopeRole::kZeroGrad, ScopeRole::kInput,
                                       ScopeRole::kTorchRegion,   ScopeRole::kXla,      ScopeRole::kProfilerStep};
    return FactsOf(look.kind).is_bracket && !absl::c_linear_search(kOfOthers, model_.roles[look.name]);
  }

  void Find(const std::vector<StepTrack>& tracks) {
    const auto is_own = [this](const ScopeLook& look) { return IsOwn(look); };
    ForEachScopeThat(model_.scopes, is_own, [&](ScopeIndex scope) {
      const ThreadIndex thread = model_.scopes.thread[scope];
      for (const StepTrack& track : tracks) {
        const bool is_its = track.thread == kNone || track.thread == thread;
        if (is_its && model_.threads[thread].process == track.process) NoteIn(track, scope);
      }
    });
  }

  // Outer ranges come before inner ones.
  void NoteIn(const StepTrack& track, ScopeIndex scope) {
    const int64_t start_ns = model_.scopes.start_ns[scope], end_ns = model_.scopes.EndOf(scope);
    const auto first = std::partition_point(track.steps.begin(), track.steps.end(),
                                            [&](const Step& step) { return WorkStart(step) < start_ns; });
    if (first == track.steps.end() || WorkEnd(*first) > end_ns) return;
    if (first + 1 != track.steps.end() && WorkStart(*(first + 1)) < end_ns) return;
    ranges_.try_emplace(&*first, model_.scopes.look[scope].name);
  }

  static int64_t WorkStart(const Step& step) {
    return step.phases.empty() ? step.start_ns : step.phases.front().start_ns;
  }
  static int64_t WorkEnd(const Step& step) { return step.phases.empty() ? step.end_ns : step.phases.back().end_ns; }

  const TraceModel& model_;
  std::map<const Step*, NameIndex> ranges_;
  std::map<NameIndex, size_t> counts_;
  std::set<NameIndex> numbered_;
};

using Network = std::tuple<StepKind, std::string, std::string>;  // kind, range, model

// For a step without recorded scopes (a light tap) the value is unknown; if there is only one, it is that one.
std::string KnownOr(const std::string& own, const Step& step, const std::set<std::string>& all) {
  return own.empty() && !step.has_scopes && all.size() == 1 ? *all.begin() : own;
}

void Note(const std::string& own, const Step& step, std::set<std::string>& all) {
  if (!own.empty() || step.has_scopes) all.insert(own);
}

}  // namespace

void NameSteps(const TraceModel& model, std::vector<StepTrack>& tracks) {
  const RangeFinder ranges(model, tracks);
  std::vector<Step*> all;
  for (StepTrack& track : tracks) {
    for (Step& step : track.steps) all.push_back(&step);
  }
  std::map<StepKind, std::set<std::string>> names;                           // of ranges
  std::map<std::pair<StepKind, std::string>, std::set<std::string>> models;  // by kind and range
  const auto range_of = [&](const Step& step) { return KnownOr(ranges.Of(step), step, names[step.kind]); };
  for (const Step* step : all) Note(ranges.Of(*step), *step, names[step->kind]);
  for (const Step* step : all) Note(step->model, *step, models[{step->kind, range_of(*step)}]);
  std::map<Network, std::vector<Step*>> networks;
  for (Step* step : all) {
    const std::string range = range_of(*step);
    networks[{step->kind, range, KnownOr(step->model, *step, models[{step->kind, range}])}].push_back(step);
  }
  // What a framework tries before its first step has no network, and is not a sort of its own.
  for (auto at = networks.begin(); at != networks.end();) {
    const auto& [kind, range, network_model] = at->first;
    std::set<std::string>& others = models[{kind, range}];
    if (!network_model.empty() || at->second.size() >= kFewSteps || others.size() != 2) {
      ++at;
      continue;
    }
    others.erase("");
    std::vector<Step*>& joined = networks[{kind, range, *others.begin()}];
    for (Step* step : at->second) {
      step->is_regular = false;
      joined.push_back(step);
    }
    std::ranges::stable_sort(joined, {}, &Step::start_ns);
    at = networks.erase(at);
  }
  for (auto& [network, steps] : networks) {
    const auto& [kind, range, network_model] = network;
    // A step of which only the end was recorded is of the size that most others have.
    std::vector<Step*> told;
    absl::c_copy_if(steps, std::back_inserter(told), [](const Step* step) { return step->has_scopes; });
    const SizeSorter sorter(told.empty() ? steps : told);
    std::map<Size, Sort> sorts = sorter.SortAll();
    for (Step* step : steps) {
      const auto of_size = sorts.find(SizeOf(*step));
      const Sort& sort = of_size != sorts.end() ? of_size->second : sorts[sorter.most_frequent()];
      std::vector<std::string> parts;
      if (!range.empty()) parts.push_back(range);
      if (models[{kind, range}].size() > 1)
        parts.push_back(network_model.empty() ? "no single network" : network_model);
      if (!sort.name.empty()) parts.push_back(sort.name);
      step->sort = absl::StrJoin(parts, ", ");
      step->is_regular = step->is_regular && sort.is_regular;
    }
  }
}

}  // namespace dlhook::analyzer::steps
