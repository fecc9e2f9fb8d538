// What two programs do differently: see difference.h.

#include "absl/strings/escaping.h"
#include "analyzer/diff/contributions.h"
#include "analyzer/diff/diff_table.h"
#include "analyzer/diff/difference.h"
#include "analyzer/io/byte_source.h"
#include "analyzer/model/release.h"
#include "analyzer/table/table_ops.h"
#include "analyzer/tables/columns.h"
#include "analyzer/time/thread_activity.h"
#include "analyzer/work/step_work.h"

namespace dlhook::analyzer::inline diff {
namespace {

using Counts = std::map<std::string, double>;
constexpr double kNearlyOne = 0.95;
constexpr size_t kKindsInSentence = 3;
constexpr size_t kOfAKindInSentence = 2;
constexpr double kOtherCount = 0.05;   // per step; less is a call at the edge of a step
constexpr double kCallsAtEdges = 1.5;  // over all steps
constexpr double kOnceCompiled = 2;    // or for another size
constexpr double kOftenCompiled = 5;
constexpr double kOtherRows = 1.25;  // of steps of several sizes
constexpr double kOtherRate = 1.5;   // of steps of another kind: factor between their rates

std::string CountText(double count) { return absl::StrFormat("%.3g", count); }
std::string NumberText(int64_t number) { return number == 0 ? "" : absl::StrCat(number); }

class Finder {
 public:
  Finder(const DifferenceInput& base, const DifferenceInput& new_side, const TableChanges& work)
      : base_(base), new_(new_side), work_(work) {
    const auto steps = static_cast<double>(std::min(base.work.steps, new_side.work.steps));
    tolerance_ = steps == 0 ? 0.5 : std::max(kOtherCount, kCallsAtEdges / steps);
  }

  std::vector<Difference> Find(const NameMap& names) {
    AddPrograms();
    AddCompilations();
    AddSteps();
    AddSet(DifferenceKind::kOptimizer, "optimizer", base_.work.optimizers, new_.work.optimizers);
    // Fewer than one a step: others are in replayed CUDA graphs, or were not recorded.
    if (std::min(base_.work.updates, new_.work.updates) > kNearlyOne &&
        std::abs(base_.work.updates - new_.work.updates) > tolerance_)
      Add(DifferenceKind::kOptimizer, "calls of an optimizer's step() in a step", CountText(base_.work.updates),
          CountText(new_.work.updates));
    if (!base_.work.loaders.empty() || !new_.work.loaders.empty()) {
      AddSet(DifferenceKind::kLoading, "data is loaded", base_.work.loaders, new_.work.loaders);
    }
    AddLayers(names);
    AddTypes();
    if (base_.sees_libraries == new_.sees_libraries) {  // else one side's operators stand for calls
      AddRows();
      AddCounts(DifferenceKind::kCalls, "calls of ", base_.work.calls, new_.work.calls);
    }
    AddCounts(DifferenceKind::kOps, "", base_.work.ops, new_.work.ops);
    std::ranges::stable_sort(found_, {}, &Difference::kind);
    return std::move(found_);
  }

 private:
  void Add(DifferenceKind kind, const std::string& what, const std::string& base, const std::string& new_side) {
    found_.push_back({kind, what, base, new_side, absl::StrCat(what, " ", Arrow(base, new_side))});
  }

  void AddIfOther(DifferenceKind kind, const std::string& what, const std::string& base, const std::string& new_side) {
    if (base != new_side) Add(kind, what, base, new_side);
  }

  void AddSet(DifferenceKind kind, const std::string& what, const std::set<std::string>& base,
              const std::set<std::string>& new_side) {
    AddIfOther(kind, what, absl::StrJoin(base, ", "), absl::StrJoin(new_side, ", "));
  }

  void AddPrograms() {
    AddSet(DifferenceKind::kProgram, "program", base_.programs, new_.programs);
    AddIfOther(DifferenceKind::kProcesses, "recorded processes", NumberText(std::ssize(base_.work.processes)),
               NumberText(std::ssize(new_.work.processes)));
  }

  void AddCompilations() {
    const auto uses = [](const DifferenceInput& side) { return side.uses_torch_compile ? "used" : ""; };
    AddIfOther(DifferenceKind::kCompiled, "torch.compile", uses(base_), uses(new_));
    std::multimap<double, Difference> order;  // the most frequent first
    for (const auto& [function, times] : Both(base_.compilations, new_.compilations)) {
      const auto [fewer, more] = std::minmax(times.first, times.second);
      if (fewer > kOnceCompiled || more < kOftenCompiled) continue;
      const std::string from = CountText(times.first), to = CountText(times.second);
      order.insert({-more,
                    {DifferenceKind::kCompilations, function, from, to,
                     absl::StrCat(function, " ", Arrow(from, to), " times")}});
    }
    for (auto& [more, difference] : order) found_.push_back(std::move(difference));
  }

  void AddSteps() {
    const ComparedSteps &before = base_.run->steps, &after = new_.run->steps;
    if (base_.work.steps == 0 || new_.work.steps == 0) return;
    AddIfOther(DifferenceKind::kSteps, "kind of step", StepKindName(before.kind), StepKindName(after.kind));
    for (StepKind kind : {StepKind::kTraining, StepKind::kValidation, StepKind::kInference}) {
      if (kind != before.kind && kind != after.kind) AddOtherSteps(kind);
    }
    if (before.batch > 0 && after.batch > 0) {
      AddIfOther(DifferenceKind::kBatch, "batch", NumberText(before.batch), NumberText(after.batch));
    } else if (const double from = before.samples(), to = after.samples();
               std::min(from, to) > 0 && std::max(from, to) > kOtherRows * std::min(from, to)) {
      const bool are_rows = before.batch_is_rows || after.batch_is_rows;
      Add(DifferenceKind::kBatch,
          are_rows ? "rows (samples, or their tokens, padding too) on average" : "samples on average", CountText(from),
          CountText(to));
    }
    AddIfOther(DifferenceKind::kBatch, "forward and backward passes before an update",
               NumberText(base_.work.micro_steps), NumberText(new_.work.micro_steps));
  }

  void AddOtherSteps(StepKind kind) {
    const auto rate = [&](const DoneWork& work) {
      const auto found = work.other_steps.find(kind);
      return found == work.other_steps.end() ? 0 : found->second;
    };
    const double before = rate(base_.work), after = rate(new_.work);
    if (std::abs(before - after) <= tolerance_ || std::max(before, after) < kOtherRate * std::min(before, after))
      return;
    Add(DifferenceKind::kSteps, absl::StrCat(StepKindName(kind), " passes a step"), absl::StrFormat("%.2g", before),
        absl::StrFormat("%.2g", after));
  }

  // Each layer that only one side has, named by the outermost module around it that the other side lacks: a block of
  // many layers is one difference.
  void AddLayers(const NameMap& names) {
    const std::map<std::string, Match> of_one_side = LayersOfOneSide(work_, names);
    std::map<std::pair<Match, std::string>, int> modules;
    for (const auto& [layer, match] : of_one_side) {
      const std::string name = LayerLabel(layer);
      if (absl::StrContains(name, '[') || absl::StartsWith(name, "optimizer (")) continue;  // "blocks.2:[not seen]"
      const MeasuredTable& other = match == Match::kAdded ? *work_.base : *work_.new_side;
      ++modules[{match, OuterOf(name, LayersOf(other.table))}];
    }
    for (const auto& [module, layers] : modules) {
      const bool is_new = module.first == Match::kAdded;
      const std::string name = layers == 1 ? module.second : absl::StrCat(module.second, " (", layers, " layers)");
      // "train.py:53 add" is an op outside of all modules.
      const char* noun = absl::StrContains(module.second, ' ') ? "" : "layer ";
      found_.push_back({DifferenceKind::kLayers, noun[0] == '\0' ? "op" : "layer", is_new ? "" : name,
                        is_new ? name : "", absl::StrCat(noun, name, is_new ? " is new" : " is gone")});
    }
  }

  static std::set<std::string> LayersOf(const Table& table) {
    std::set<std::string> layers;
    for (const Row& row : table.rows) layers.insert(CellText(row[ColumnOf(table, Role::kName)]));
    return layers;
  }

  static std::string OuterOf(const std::string& layer, const std::set<std::string>& others) {
    if (absl::StrContains(layer, ' ')) return layer;  // an op at a line of the program
    for (size_t end = layer.find_first_of(".:"); end != std::string::npos; end = layer.find_first_of(".:", end + 1)) {
      const std::string outer = layer.substr(0, end);
      const bool has_it = absl::c_any_of(others, [&](const std::string& other) {
        return absl::StartsWith(other, outer) && (other.size() == end || other[end] == '.' || other[end] == ':');
      });
      if (!has_it) return outer;
    }
    return layer;
  }

  void AddTypes() {
    const auto used = [&](const Counts& types) {
      std::set<std::string> names;
      for (const auto& [name, count] : types) {
        if (count > tolerance_) names.insert(name);
      }
      return names;
    };
    const std::set<std::string> base = used(base_.work.types), new_side = used(new_.work.types);
    // Where no call of one side tells its types, they are not known to differ.
    if (!base.empty() && !new_side.empty()) AddSet(DifferenceKind::kTypes, "data types of calls", base, new_side);
  }

  // The ways in which rows of library calls for the same thing differ, each once, most frequent first.
  void AddRows() {
    std::map<std::pair<DifferenceKind, std::string>, std::pair<double, Difference>> ways;
    for (const RowChange& row : work_.rows) {
      const Match match = row.rows.match;
      if (match != Match::kResized && match != Match::kChanged) continue;
      const WorkRow cells(work_, row);
      for (Difference& way : WaysOf(cells, match)) {
        auto& [calls, difference] = ways[{way.kind, way.words}];
        calls += cells.Calls(false);
        difference = std::move(way);
      }
    }
    std::vector<std::pair<double, Difference>> order;
    for (auto& [key, way] : ways) order.push_back(std::move(way));
    absl::c_stable_sort(order, [](const auto& a, const auto& b) { return a.first > b.first; });
    for (auto& [calls, difference] : order) found_.push_back(std::move(difference));
  }

  std::vector<Difference> WaysOf(const WorkRow& row, Match match) const {
    std::vector<Difference> ways;
    if (!row.Is(ActivityKind::kCall) || row.MovesData())
      return ways;  // conversions follow from the formats of other ops
    const std::string what = row.Newest("what"), from = row.Problem(true), to = row.Problem(false);
    if (match == Match::kResized && !IsOfBatch(from, to)) {
      const std::string sizes = SizesChanged(from, to);
      ways.push_back(
          {DifferenceKind::kSizes, absl::StrCat("size of ", what), from, to, absl::StrCat(what, " ", sizes)});
    }
    for (const auto& [kind, column] :
         {std::pair{DifferenceKind::kImplementations, "chosen"}, {DifferenceKind::kFormats, "formats"}}) {
      if (!row.Differs(column)) continue;
      const std::string before = row.Text(column, true), after = row.Text(column, false);
      const bool are_formats = kind == DifferenceKind::kFormats;
      ways.push_back({kind, absl::StrCat(are_formats ? "memory formats of " : "implementation of ", what), before,
                      after,
                      absl::StrCat(what, " ", are_formats ? FirstChanged(before, after) : Arrow(before, after))});
    }
    return ways;
  }

  // Whether the difference follows from the batch size.
  bool IsOfBatch(const std::string& from, const std::string& to) const {
    const int64_t before = base_.run->steps.batch, after = new_.run->steps.batch;
    if (before <= 0 || after <= 0 || before == after) return false;
    return SizesScale(from, to, before, after);
  }

  void AddCounts(DifferenceKind kind, const std::string& prefix, const Counts& before, const Counts& after) {
    std::vector<std::pair<std::pair<bool, double>, Difference>> order;  // what only NEW does says most
    const char* suffix = base_.work.steps > 0 && new_.work.steps > 0 ? " a step" : " in the run";
    for (const auto& [name, counts] : Both(before, after)) {
      const double change = std::abs(counts.first - counts.second);
      if (change <= tolerance_) continue;
      const std::string from = CountText(counts.first), to = CountText(counts.second);
      order.push_back(
          {{counts.first <= tolerance_, change},
           {kind, absl::StrCat(prefix, name, suffix), from, to, absl::StrCat(name, " ", Arrow(from, to), suffix)}});
    }
    absl::c_stable_sort(order, [](const auto& a, const auto& b) { return a.first > b.first; });
    for (auto& [change, difference] : order) found_.push_back(std::move(difference));
  }

  const DifferenceInput &base_, &new_;
  const TableChanges& work_;
  double tolerance_ = 0;  // for counts per step
  std::vector<Difference> found_;
};

}  // namespace

std::string Arrow(const std::string& base, const std::string& new_side) {
  return absl::StrCat(base.empty() ? "none" : base, " -> ", new_side.empty() ? "none" : new_side);
}

std::string FirstChanged(const std::string& before, const std::string& after) {
  const std::vector<std::string> from = absl::StrSplit(before, ' '), to = absl::StrSplit(after, ' ');
  for (size_t i = 0; i < std::min(from.size(), to.size()); ++i) {
    if (from[i] != to[i]) return Arrow(from[i], to[i]);
  }
  return Arrow(before, after);
}

std::string ProgramOf(const TraceModel& model) {
  if (model.processes.empty()) return "";
  const ProcessInfo& process = model.processes.front();
  const std::string& name = ProgramOf(process);
  return name.substr(name.rfind('/') + 1);
}

std::vector<Difference> FindDifferences(const DifferenceInput& base, const DifferenceInput& new_side,
                                        const TableChanges& work, const NameMap& names) {
  std::vector<Difference> differences = EnvironmentDifferences(base.environment, new_side.environment);
  for (Difference& difference : Finder(base, new_side, work).Find(names)) differences.push_back(std::move(difference));
  return differences;
}

std::string DifferencesText(const std::vector<Difference>& all) {
  std::vector<Difference> differences;
  absl::c_copy_if(all, std::back_inserter(differences),
                  [](const Difference& difference) { return !difference.IsOfEnvironment(); });
  std::vector<std::string> kinds;
  size_t told = 0;
  bool is_told = false;  // already reported that the programs do different things
  for (size_t i = 0; i < differences.size() && kinds.size() < kKindsInSentence;) {
    const DifferenceKind kind = differences[i].kind;
    size_t end = i;
    while (end < differences.size() && differences[end].kind == kind) ++end;
    if (kind != DifferenceKind::kOps || !is_told) {
      std::vector<std::string> words;
      for (size_t j = i; j < std::min(end, i + kOfAKindInSentence); ++j) words.push_back(differences[j].words);
      told += words.size();
      kinds.push_back(absl::StrJoin(words, ", "));
    }
    is_told = is_told || kind > DifferenceKind::kProcesses;
    i = end;
  }
  const size_t more = differences.size() - told;
  return absl::StrCat(absl::StrJoin(kinds, "; "), more == 0 ? "" : absl::StrCat("; ", more, " more"));
}

Table DifferencesTable(const std::vector<Difference>& differences) {
  const TypedColumns<Difference> columns = {
      {TextColumn("what"), "What differs; counts are per step, or for whole runs if one has no steps.",
       &Difference::what},
      {TextColumn("base"), "In the base run.", Known(&Difference::base)},
      {TextColumn("new"), "In the new run.", Known(&Difference::new_side)}};
  return NewTable("differences", "How the programs and their machines differ, whatever it costs", columns, differences);
}

namespace {

constexpr size_t kMostTold = 6;
constexpr size_t kBuildIdBytesTold = 6;

std::string NumberOr(uint32_t number) { return number == 0 ? "" : absl::StrCat(number); }

void AddProcess(const ProcessInfo& process, Environment& facts) {
  facts.Add(DifferenceKind::kReleases, "dlhook", process.tool_version);
  for (const char* software : {"Python", "PyTorch"})
    facts.Add(DifferenceKind::kReleases, software, ReleaseOf(process, software));
  for (const Mapping& mapping : process.mappings) {
    facts.Add(DifferenceKind::kBuilds, absl::StrCat("build of ", BaseName(mapping.path)),
              absl::BytesToHexString(absl::string_view(mapping.build_id).substr(0, kBuildIdBytesTold)));
  }
  for (const auto& [name, value] : process.settings)
    facts.Add(DifferenceKind::kSettings, name, value.empty() ? "''" : value);
  facts.Add(DifferenceKind::kMachine, "processor", process.processor.name);
  facts.Add(DifferenceKind::kMachine, "processors that the program may use", NumberOr(process.processors));
}

}  // namespace

void Environment::Add(DifferenceKind kind, const std::string& what, const std::string& value) {
  if (!value.empty()) facts[{kind, what}].insert(value);
}

void Environment::Add(const Environment& other) {
  for (const auto& [what, values] : other.facts) facts[what].insert(values.begin(), values.end());
}

Environment EnvironmentOf(const TraceModel& model, const MachineLoad& load) {
  Environment facts;
  for (const ProcessInfo& process : model.processes) AddProcess(process, facts);
  for (const Op& op : model.ops) {
    if (op.onednn() != nullptr)
      facts.Add(DifferenceKind::kReleases, "oneDNN", std::string(absl::StripPrefix(op.onednn()->version, "v")));
  }
  for (const GpuDevice& device : model.gpu_devices) facts.Add(DifferenceKind::kMachine, "GPU", device.name);
  facts.Add(DifferenceKind::kThreads, model.processes.size() > 1 ? "threads of a process" : "threads of the program",
            NumberOr(load.threads));
  return facts;
}

std::vector<Difference> EnvironmentDifferences(const Environment& base, const Environment& new_side) {
  std::vector<Difference> differences;
  for (const auto& [what, values] : Both(base.facts, new_side.facts)) {
    const std::string before = absl::StrJoin(values.first, ", "), after = absl::StrJoin(values.second, ", ");
    const bool is_known = (!before.empty() && !after.empty()) || what.first == DifferenceKind::kSettings;
    if (before == after || !is_known) continue;
    differences.push_back({what.first, what.second, before, after,
                           what.first == DifferenceKind::kBuilds
                               ? absl::StrCat("another ", what.second)
                               : absl::StrCat(what.second, " ", Arrow(before, after))});
  }
  return differences;
}

std::string EnvironmentText(const std::vector<Difference>& differences) {
  std::vector<std::string> words;
  for (const Difference& difference : differences) {
    if (difference.IsOfEnvironment()) words.push_back(difference.words);
  }
  const size_t more = words.size() - std::min(words.size(), kMostTold);
  words.resize(words.size() - more);
  return absl::StrCat(absl::StrJoin(words, "; "), more == 0 ? "" : absl::StrCat("; ", more, " more"));
}

}  // namespace dlhook::analyzer::diff
