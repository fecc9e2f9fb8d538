#include "analyzer/answer/step_parts.h"

#include "analyzer/analysis/sample_places.h"
#include "analyzer/answer/sentences.h"
#include "analyzer/calls/op_labels.h"
#include "analyzer/findings/rules.h"
#include "analyzer/model/op_kind.h"
#include "analyzer/table/table_ops.h"
#include "analyzer/work/gap_lines.h"

namespace dlhook::analyzer::inline answer {
namespace {

constexpr double kSmallOp = 0.04;          // of the step; smaller ops are combined
constexpr size_t kMostPartLines = 2;       // of the program, under a part
constexpr double kLeastOfPart = 0.2;       // that a line holds …
constexpr double kLeastPercentOfStep = 2;  // … and of the step
constexpr size_t kRoomForOps = 36;         // columns, for the names of those that are combined
constexpr char kOtherOps[] = "other ops";
constexpr char kNotKnown[] = "nothing that dlhook sees";
constexpr char kBetweenCalls[] = "Python or native code";  // which, only samples tell
constexpr char kCommunication[] = "communication";
constexpr char kInput[] = "waiting for input";
constexpr char kGpuWait[] = "waiting for the GPU";
constexpr char kNoProcessor[] = "waiting for a processor";
constexpr double kLeastBlockedPercent = 1;  // of the step, for certain; less is not worth a part
constexpr double kSureRange = 0.5;          // of the part; if it may lie in a wider range, its name tells which

std::string NameOfCall(const Op& op) {
  if (op.family == kProfilerFamily) return "the profiler itself";
  if (op.is_creation) return "preparing primitives";
  if (IsKind(op, OpKind::kSearch) || op.is_trial) return "searching for algorithms";
  if (IsKind(op, OpKind::kKernel)) return "kernel launches";
  if (IsKind(op, {OpKind::kCopy, OpKind::kMemset})) return "memory copies";
  if (op.allocation() != nullptr) return "allocating and freeing memory";
  if (IsKind(op, OpKind::kCollective)) return kCommunication;
  if (IsKind(op, OpKind::kCall)) return "other CUDA calls";
  if (IsKind(op, OpKind::kReorder)) return "memory format conversion (reorder)";
  if (IsKind(op, OpKind::kEltwise)) return "elementwise function (eltwise)";
  return KindLabel(op);
}

// torch.compile's regions have the name of the class that runs them.
std::string NameOfOp(const std::string& op) {
  if (op.empty()) return kOtherOps;
  return absl::StartsWith(op, "CompiledFunction") ? "code made by torch.compile" : op;
}

StepPart PartOf(const WorkItem& item) {
  switch (item.doing.activity) {
    case ActivityKind::kCall:
      return {NameOfCall(*item.op), PartKind::kLibrary};
    case ActivityKind::kScope:
      if (IsCommunication(item)) return {kCommunication, PartKind::kNotComputing};
      return {NameOfOp(item.scope->op), PartKind::kFramework};
    case ActivityKind::kNotSeen:
      if (IsCommunication(item)) return {kCommunication, PartKind::kNotComputing};
      return {kBetweenCalls, PartKind::kBetweenCalls};
    case ActivityKind::kDataLoading:
      return {kInput, PartKind::kInput};
    case ActivityKind::kWaiting:
      return {kGpuWait, PartKind::kGpuWait};
    case ActivityKind::kUnattributed:
      break;
  }
  return {kNotKnown, PartKind::kNotSeen};
}

using Parts = std::map<std::string, StepPart>;  // by name

void AddTo(Parts& parts, const StepPart& added) {
  StepPart& part = parts.try_emplace(added.name, StepPart{added.name, added.kind}).first->second;
  part.ns += added.ns;
}

// By kind of activity: what looks at threads from outside found during it.
std::map<ActivityKind, LookSums> LooksByKind(const StepFacts& facts) {
  std::map<ActivityKind, LookSums> by_kind;
  facts.ForEachLook([&](ProcessIndex, const StateLook& look) { by_kind[look.piece.kind].Add(look.sums); });
  return by_kind;
}

// Of a part that samples of an owner's code tell.
std::string NameOfSampled(const std::string& owner, ActivityKind kind) {
  return absl::StrCat(owner, kind == ActivityKind::kDataLoading ? " (input)" : "");
}

// Replaces the parts of time that is not seen: samples tell whose code computed, looks from outside whether the thread was
// blocked. Without samples only blocked time is taken out of a part; time without a processor stays in it, as in the parts
// of calls.
class Unseen {
 public:
  Unseen(const StepFacts& facts, Parts& parts)
      : facts_(facts), parts_(parts), looks_(LooksByKind(facts)), samples_(facts.SamplesByKind()) {}

  void Divide() {
    for (const auto& [kind, name, of] : {std::tuple(ActivityKind::kNotSeen, kBetweenCalls, PartKind::kBetweenCalls),
                                         {ActivityKind::kUnattributed, kNotKnown, PartKind::kNotSeen},
                                         {ActivityKind::kDataLoading, kInput, PartKind::kInput}}) {
      const auto sum_ns = [&, kind = kind](bool of_communication) {
        return static_cast<int64_t>(facts_.count() * facts_.Sum([&](const WorkItem& item) {
          return item.doing.activity == kind && IsCommunication(item) == of_communication;
        }));
      };
      const int64_t wall_ns = sum_ns(false);
      const bool is_input = kind == ActivityKind::kDataLoading;
      const int64_t rest_ns = DivideBySamples(wall_ns, samples_[kind], kind);
      if (rest_ns >= 0) parts_.erase(name);
      if (is_input) {
        if (rest_ns >= 0) Add(name, of, rest_ns);
      } else {
        DivideByLooks(wall_ns, sum_ns(true), looks_[kind], rest_ns, name, of);
      }
    }
    if (blocked_ns_ == 0) return;
    const auto of_step = [&](int64_t ns) { return HumanTime(static_cast<double>(ns) / facts_.count()); };
    const bool is_sure = range_.most_ns - range_.least_ns <= kSureRange * static_cast<double>(blocked_ns_);
    const std::string range =
        is_sure ? "" : absl::StrCat("; ", of_step(range_.least_ns), " to ", of_step(range_.most_ns));
    Add(absl::StrCat("blocked (", BlockedInWords(found_ns_), range, ")"), PartKind::kBlocked, blocked_ns_);
  }

 private:
  // Returns the time in which nothing computed; < 0: the samples say nothing.
  int64_t DivideBySamples(int64_t wall_ns, const SampleSums& samples, ActivityKind kind) {
    if (samples.empty()) return -1;
    const bool is_input = kind == ActivityKind::kDataLoading;
    const auto& places = facts_.Derived<SamplePlaces>();
    const SampleSplit split = SplitBySamples(wall_ns, places.Joined(samples));
    if (split.parts.empty()) return -1;
    for (const SamplePart& part : split.parts) {
      const PartKind computes = places.IsPython(part.place) ? PartKind::kPython : PartKind::kNative;
      Add(NameOfSampled(places.name(part.place), kind), is_input ? PartKind::kInput : computes, part.ns);
    }
    return split.rest_ns;
  }

  // `apart_ns`: beside `wall_ns`, of communication, in which a thread is mostly blocked.
  void DivideByLooks(int64_t wall_ns, int64_t apart_ns, const LookSums& looks, int64_t rest_ns, const char* name,
                     PartKind kind) {
    const bool is_sampled = rest_ns >= 0;
    int64_t left_ns = is_sampled ? rest_ns : wall_ns;
    const int64_t blocked_ns =
        std::clamp<int64_t>(looks.BlockedOf(wall_ns + apart_ns).value_or(0) - apart_ns, 0, left_ns);
    const LookRange range = blocked_ns > 0 ? looks.BlockedRangeOf(wall_ns) : LookRange{};
    if (facts_.IsAtLeast(static_cast<double>(range.least_ns) / facts_.count(), kLeastBlockedPercent)) {
      blocked_ns_ += blocked_ns;
      range_.least_ns += std::min(range.least_ns, blocked_ns);
      range_.most_ns += std::min(range.most_ns, left_ns);
      for (size_t i = 0; i < kBlockedIns; ++i) found_ns_[i] += looks.found_ns[i];
      left_ns -= blocked_ns;
      if (!is_sampled) Add(name, kind, -blocked_ns);
    }
    if (!is_sampled) return;
    const int64_t queued_ns = std::min(looks.QueuedOf(wall_ns).value_or(0), left_ns);
    Add(kNoProcessor, PartKind::kRunnable, queued_ns);
    Add(kNotComputing, PartKind::kNotComputing, left_ns - queued_ns);
  }

  void Add(const std::string& name, PartKind kind, int64_t ns) {
    AddTo(parts_, {name, kind, static_cast<double>(ns) / facts_.count()});
  }

  const StepFacts& facts_;
  Parts& parts_;
  std::map<ActivityKind, LookSums> looks_;
  std::map<ActivityKind, SampleSums> samples_;
  int64_t blocked_ns_ = 0;
  LookRange range_ = {};  // of blocked_ns_
  std::array<int64_t, kBlockedIns> found_ns_ = {};
};

// Ops that take little are one part, which names the longest of them.
void AddOps(const StepFacts& facts, const Parts& ops, Parts& parts) {
  const std::string framework = facts.frameworks().size() == 1 ? facts.frameworks().front() : "framework";
  StepPart others = {kOtherOps, PartKind::kFramework};
  std::vector<std::pair<double, std::string>> small;
  for (const auto& [name, part] : ops) {
    if (name != kOtherOps && facts.IsAtLeast(part.ns, 100 * kSmallOp)) {
      AddTo(parts, {absl::StrCat(name, " (", framework, ")"), PartKind::kFramework, part.ns});
      continue;
    }
    others.ns += part.ns;
    if (name != kOtherOps) small.emplace_back(-part.ns, name);
  }
  absl::c_sort(small);
  others.name = absl::StrCat("other ", framework, " ops");
  size_t named = 0;
  for (; named < small.size() && others.name.size() + small[named].second.size() <= kRoomForOps; ++named) {
    absl::StrAppend(&others.name, named == 0 ? " (" : ", ", small[named].second);
  }
  if (named > 0) absl::StrAppend(&others.name, named < small.size() ? ", ...)" : ")");
  AddTo(parts, others);
}

std::string InFunction(const std::string& line, const std::string& function) {
  return function.empty() ? line : absl::StrCat(line, " in ", function);
}

// The lines of gaps, with that of their time which the part has.
template <typename TimeOf>
std::vector<PartLine> LinesOfGaps(const std::vector<GapLines>& gaps, TimeOf time_of) {
  std::vector<PartLine> lines;
  for (const GapLines& gap : gaps) lines.push_back({InFunction(gap.text, gap.function), time_of(gap)});
  return lines;
}

// Functions of the program that samples of the part's code met.
std::vector<PartLine> LinesOfSamples(const StepFacts& facts, const StepPart& part) {
  const auto& places = facts.Derived<SamplePlaces>();
  double all_ns = 0;
  for (const auto& [kind, owners] : facts.SamplesByKind()) {
    for (const auto& [owner, sum] : owners) {
      if (NameOfSampled(places.name(owner), kind) == part.name) all_ns += static_cast<double>(sum.cpu_ns);
    }
  }
  std::vector<PartLine> lines;
  for (const SampledLine& line : SampledLinesOf(facts)) {
    if (NameOfSampled(places.name(line.owner), line.kind) != part.name) continue;
    const double ns = part.ns * static_cast<double>(line.cpu_ns) / all_ns;
    lines.push_back({InFunction(line.line, line.function), ns});
  }
  return lines;
}

// The program's own lines in the parts that it causes.
void SetLines(const StepFacts& facts, std::vector<StepPart>& parts) {
  const bool is_blocked_apart =
      absl::c_any_of(parts, [](const StepPart& part) { return part.kind == PartKind::kBlocked; });
  for (StepPart& part : parts) {
    switch (part.kind) {
      case PartKind::kBetweenCalls:
        part.lines = LinesOfGaps(GapLinesOf(facts), [&](const GapLines& gap) {
          return gap.ns - (is_blocked_apart ? gap.blocked_ns.value_or(0) : 0);
        });
        break;
      case PartKind::kBlocked:
        part.lines = LinesOfGaps(GapLinesOf(facts), [](const GapLines& gap) { return gap.blocked_ns.value_or(0); });
        break;
      case PartKind::kInput:
        part.lines = facts.model().samples.empty()
                         ? LinesOfGaps(InputLinesOf(facts), [](const GapLines& gap) { return gap.ns; })
                         : LinesOfSamples(facts, part);
        break;
      case PartKind::kPython:
      case PartKind::kNative:
        part.lines = LinesOfSamples(facts, part);
        break;
      default:
        break;
    }
    std::erase_if(part.lines, [&](const PartLine& line) {
      return line.ns < kLeastOfPart * part.ns || !facts.IsAtLeast(line.ns, kLeastPercentOfStep);
    });
    std::ranges::stable_sort(part.lines, std::ranges::greater(), &PartLine::ns);
    if (part.lines.size() > kMostPartLines) part.lines.resize(kMostPartLines);
  }
}

void SetPercents(std::vector<StepPart>& parts) {
  double whole_ns = 0;
  for (const StepPart& part : parts) whole_ns += part.ns;
  if (whole_ns <= 0) return;
  int left = 100;
  std::vector<std::pair<double, StepPart*>> remainders;
  for (StepPart& part : parts) {
    const double exact = 100 * part.ns / whole_ns;
    part.percent = static_cast<int>(std::floor(exact));
    left -= part.percent;
    remainders.emplace_back(part.percent - exact, &part);
  }
  absl::c_sort(remainders);
  for (int i = 0; i < left && i < static_cast<int>(remainders.size()); ++i)
    ++remainders[static_cast<size_t>(i)].second->percent;
}

}  // namespace

const char* PartKindName(PartKind kind) {
  return NameIn<PartKind::kRest>(kind, {"library", "framework", "python", "native", "between_calls", "input",
                                        "gpu_wait", "blocked", "runnable", "not_computing", "not_seen", "rest"});
}

std::vector<StepPart> PartsOfStep(const StepFacts& facts, size_t most) {
  Parts by_name, of_ops;
  for (const WorkItem& item : facts.items()) {
    StepPart part = PartOf(item);
    part.ns = item.ns;
    AddTo(part.kind == PartKind::kFramework ? of_ops : by_name, part);
  }
  AddOps(facts, of_ops, by_name);
  Unseen(facts, by_name).Divide();
  // Once the host has asked for all of it; what it waits in calls is a part already.
  if (const GpuPace pace = PaceOf(facts); pace.asked_ns > 0 && IsOfGpu(facts, pace)) {
    StepPart& wait = by_name.try_emplace(kGpuWait, StepPart{kGpuWait, PartKind::kGpuWait}).first->second;
    const double left_ns = facts.step_ns() - pace.asked_ns - wait.ns;
    const double waits_ns = std::clamp(left_ns, 0.0, std::max(by_name[kNotKnown].ns, 0.0));
    by_name[kNotKnown].ns -= waits_ns;
    wait.ns += waits_ns;
  }
  std::vector<StepPart> parts;
  const StepPart not_known = by_name[kNotKnown];
  by_name.erase(kNotKnown);
  for (const auto& [name, part] : by_name) {
    if (part.ns > 0) parts.push_back(part);
  }
  std::ranges::stable_sort(parts, std::ranges::greater(), &StepPart::ns);
  if (parts.size() > most) {
    StepPart rest = {"everything else", PartKind::kRest};
    for (size_t i = most - 1; i < parts.size(); ++i) rest.ns += parts[i].ns;
    parts.resize(most - 1);
    parts.push_back(rest);
  }
  if (not_known.ns > 0) parts.push_back(not_known);
  SetPercents(parts);
  SetLines(facts, parts);
  return parts;
}

}  // namespace dlhook::analyzer::answer
