// A change divided: see causes.h.

#include "analyzer/diff/causes.h"
#include "analyzer/diff/contributions.h"
#include "analyzer/diff/diff_table.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline diff {
namespace {

constexpr double kEqualRatio = 0.05;
constexpr double kMoreNeeded = 1.1;  // of processor time, than in the base
constexpr double kManyTimes = 3;     // as many calls
constexpr size_t kMostWords = 2;

bool IsRate(CauseKind kind) { return kind == CauseKind::kRate || kind == CauseKind::kUnknownSizes; }

// What a row is called beside another one that took its place.
std::string DoneBy(const WorkRow& row, bool of_base) {
  const std::string what = row.Text("what", of_base), chosen = row.Text("chosen", of_base);
  return chosen.empty() ? what : absl::StrCat(what, " ", chosen);
}

std::string TimesText(double ratio) { return absl::StrFormat("%.2g times as long", ratio); }

// By words that only collectives' names have: "broadcast" is often a tensor repeated in place (aten::broadcast_tensors,
// jit(broadcast_in_dim)).
bool IsCommunication(const std::string& what) {
  for (const char* word :
       {"all_reduce", "allreduce", "all-reduce", "all_gather", "allgather", "all-gather", "reduce_scatter",
        "reduce-scatter", "alltoall", "all-to-all", "collective", "nccl", "gloo:", "ucc:", "c10d", "MPI_"}) {
    if (absl::StrContains(what, word)) return true;
  }
  return false;
}

class Divider {
 public:
  explicit Divider(const CauseInput& input) : input_(input) {
    for (const RowChange& row : input.work->rows) {
      const WorkRow work(*input.work, row);
      Sides& place = places_[work.Place(*input.names)];
      Sides& layer = layers_[work.Place(*input.names).first];
      for (Sides* sides : {&place, &layer}) sides->Add(work);
      for (bool of_base : {true, false}) {
        const std::string types = work.IsOn(of_base) ? work.Text("types", of_base) : "";
        if (!types.empty()) types_[of_base ? 0 : 1].insert(types);
      }
      if (IsWork(work) && !work.IsOn(false)) place.gone.push_back(work);
      if (IsWork(work) && !work.IsOn(true)) place.came.push_back(work);
    }
  }

  std::vector<ChangePart> Divide() {
    // The ops around calls come last: they follow these.
    for (bool are_ops : {false, true}) {
      for (const RowChange& row : input_.work->rows) {
        const WorkRow work(*input_.work, row);
        if (work.Is(ActivityKind::kScope) == are_ops) DivideRow(work);
      }
    }
    DivideRate();
    double divided_ns = 0;
    for (const ChangePart& part : parts_) divided_ns += part.ns;
    // Rounding alone; the rows of both sides add up to their steps.
    Add(CauseKind::kOther, input_.decision->whole.change_ns() - divided_ns, "", {});
    return std::move(parts_);
  }

 private:
  struct Sides {
    bool in_base = false, in_new = false;
    bool calls_in_base = false, calls_in_new = false;
    bool has_op_of_both = false;      // a framework's
    std::vector<WorkRow> gone, came;  // calls and ops that one side has, but for conversions

    void Add(const WorkRow& row) {
      in_base |= row.IsOn(true);
      in_new |= row.IsOn(false);
      if (row.Is(ActivityKind::kScope)) has_op_of_both |= row.IsOn(true) && row.IsOn(false);
      if (!row.Is(ActivityKind::kCall)) return;
      calls_in_base |= row.IsOn(true);
      calls_in_new |= row.IsOn(false);
    }
    bool IsOnOneSide() const { return !in_base || !in_new; }
  };

  static bool IsWork(const WorkRow& row) {
    return (row.Is(ActivityKind::kCall) || row.Is(ActivityKind::kScope)) && !row.MovesData();
  }

  void Add(CauseKind kind, double ns, std::string what, WorkPlace place) {
    if (ns != 0) parts_.push_back({kind, ns, std::move(what), std::move(place)});
  }

  // Of a call that is another one now: the op around it changes for that reason.
  void AddOther(CauseKind kind, double ns, std::string what, const WorkPlace& place) {
    ChangePart& followed = followed_[place];
    if (std::abs(ns) > std::abs(followed.ns)) followed = {kind, ns, what, place};
    Add(kind, ns, std::move(what), place);
  }

  // The words of the first differences of a kind, if so, of what this side alone has; "" where there are none.
  std::string WordsOf(DifferenceKind kind, std::optional<bool> of_base = std::nullopt) const {
    std::vector<std::string> words;
    for (const Difference& difference : *input_.differences) {
      const std::string& other = of_base.value_or(true) ? difference.new_side : difference.base;
      if (difference.kind != kind || (of_base && !other.empty())) continue;
      if (words.size() < kMostWords) words.push_back(difference.words);
    }
    return absl::StrJoin(words, ", ");
  }

  void DivideRow(const WorkRow& row) {
    const WorkPlace place = row.Place(*input_.names);
    const double ns = row.change_ns();
    if (row.Is(ActivityKind::kDataLoading)) return Add(CauseKind::kInput, ns, "", {});
    if (row.Is(ActivityKind::kWaiting)) return Add(CauseKind::kWaiting, ns, row.Newest("what"), place);
    if (row.Is(ActivityKind::kUnattributed)) return Add(CauseKind::kOther, ns, "", {});
    if (absl::StartsWith(row.Newest("what"), kXlaCompiles))
      return Add(CauseKind::kCompilation, ns, WordsOf(DifferenceKind::kCompilations), {});
    if (layers_.at(place.first).IsOnOneSide()) return AddLayer(row, place);
    if (row.Is(ActivityKind::kNotSeen)) return Add(CauseKind::kPython, ns, "", place);
    if (places_.at(place).IsOnOneSide() && !CompiledWords(row, place).empty()) return AddLayer(row, place);
    if (places_.at(place).IsOnOneSide()) {
      const char* words = row.IsOn(true) ? "only BASE computes it" : "only NEW computes it";
      return Add(CauseKind::kPasses, ns, words, place);
    }
    if (IsCommunication(row.Newest("what"))) return Add(CauseKind::kCommunication, ns, row.Newest("what"), place);
    if (row.MovesData()) return DivideConversion(row, place);
    if (!row.IsOn(true) || !row.IsOn(false)) return DivideReplaced(row, place);
    DivideDone(row, place);
  }

  static bool IsRegion(absl::string_view layer) { return absl::StartsWith(layer, "compiled region"); }

  // Where one side uses torch.compile: its regions there, and what they stand for on the other side. Else empty.
  std::string CompiledWords(const WorkRow& row, const WorkPlace& place) const {
    const auto has_regions = [&](const auto& layer) {
      return IsRegion(layer.first) && (row.IsOn(true) ? layer.second.in_base : layer.second.in_new);
    };
    const bool is_of_it = IsRegion(place.first) || absl::c_none_of(layers_, has_regions);
    return is_of_it ? WordsOf(DifferenceKind::kCompiled) : "";
  }

  void AddLayer(const WorkRow& row, const WorkPlace& place) {
    const bool is_optimizer = absl::StartsWith(place.first, "optimizer (");
    std::string words = is_optimizer ? WordsOf(DifferenceKind::kOptimizer) : CompiledWords(row, place);
    if (words.empty() && !is_optimizer) words = WordsOf(DifferenceKind::kLayers, row.IsOn(true));
    if (words.empty()) words = absl::StrCat(LayerLabel(place.first), row.IsOn(true) ? " is gone" : " is new");
    Add(CauseKind::kLayers, row.change_ns(), words, {});
  }

  void DivideConversion(const WorkRow& row, const WorkPlace& place) {
    const double before = row.Calls(true), after = row.Calls(false);
    if (row.row().rows.match == Match::kSame && std::abs(before - after) <= kOtherCalls)
      return Add(CauseKind::kRate, row.change_ns(), "", place);
    Add(CauseKind::kLayout, row.change_ns(), LayoutWords(), place);
  }

  // What follows for all of them: single conversions are many and alike.
  std::string LayoutWords() {
    if (!layout_words_.empty()) return layout_words_;
    double before = 0, after = 0;
    for (const RowChange& row : input_.work->rows) {
      const WorkRow work(*input_.work, row);
      if (!work.MovesData()) continue;
      before += work.Calls(true);
      after += work.Calls(false);
    }
    return layout_words_ = absl::StrFormat("conversions of tensors %.3g -> %.3g a step", before, after);
  }

  // Of one side only, in a place that both have.
  void DivideReplaced(const WorkRow& row, const WorkPlace& place) {
    const Sides& sides = places_.at(place);
    const std::string types = row.Newest("types");
    const std::set<std::string>& others = types_[row.IsOn(true) ? 1 : 0];
    if (!types.empty() && !others.empty() && !others.contains(types))
      return AddOther(CauseKind::kTypes, row.change_ns(), TypesWords(), place);
    const auto is_op = [](const WorkRow& other) { return other.Is(ActivityKind::kScope); };
    const bool same_ops =
        sides.has_op_of_both && absl::c_none_of(sides.gone, is_op) && absl::c_none_of(sides.came, is_op);
    if (row.Is(ActivityKind::kCall) && same_ops && sides.calls_in_base != sides.calls_in_new) {
      const std::string of_library = DoneBy(row, row.IsOn(true)), own = "the framework's own loops";
      return AddOther(CauseKind::kImplementation, row.change_ns(),
                      row.IsOn(true) ? Arrow(of_library, own) : Arrow(own, of_library), place);
    }
    if (sides.gone.empty() || sides.came.empty()) {
      return Add(CauseKind::kCalls, row.change_ns(), CountsText(row), place);
    }
    const auto longest = [](const std::vector<WorkRow>& rows, bool of_base) -> const WorkRow& {
      return *absl::c_max_element(rows, [&](const WorkRow& a, const WorkRow& b) {
        const auto rank = [&](const WorkRow& row) {
          const TimeChange& time = row.row().time;
          return std::pair(row.Is(ActivityKind::kCall), of_base ? time.base_ns : time.new_ns);
        };
        return rank(a) < rank(b);
      });
    };
    const WorkRow &before = longest(sides.gone, true), &after = longest(sides.came, false);
    const std::string from = before.Text("types", true), to = after.Text("types", false);
    if (!from.empty() && !to.empty() && from != to)
      return Add(CauseKind::kTypes, row.change_ns(), absl::StrCat(from, " -> ", to), place);
    const bool know_both = !types_[0].empty() && !types_[1].empty();
    if (know_both && ((!from.empty() && !types_[1].contains(from)) || (!to.empty() && !types_[0].contains(to))))
      return Add(CauseKind::kTypes, row.change_ns(), TypesWords(), place);
    const bool are_calls = before.Is(ActivityKind::kCall) || after.Is(ActivityKind::kCall);
    const std::string done_before = DoneBy(before, true), done_after = DoneBy(after, false);
    if (done_before == done_after && before.Problem(true) == after.Problem(false))
      return Add(CauseKind::kCalls, row.change_ns(), CountsText(row), place);
    // The same implementation of another problem.
    if (done_before == done_after) {
      return Add(CauseKind::kOperations, row.change_ns(),
                 absl::StrCat(done_before, " ", Arrow(before.Problem(true), after.Problem(false))), place);
    }
    Add(are_calls ? CauseKind::kImplementation : CauseKind::kOperations, row.change_ns(),
        Arrow(done_before, done_after), place);
  }

  // "f32 -> f64": of the whole program.
  std::string TypesWords() const {
    for (const Difference& difference : *input_.differences) {
      if (difference.kind == DifferenceKind::kTypes) return Arrow(difference.base, difference.new_side);
    }
    return "";
  }

  // On both sides.
  void DivideDone(const WorkRow& row, const WorkPlace& place) {
    const double before = row.Calls(true), after = row.Calls(false);
    const TimeChange& time = row.row().time;
    double rest_ns = row.change_ns();
    if (std::abs(before - after) > kOtherCalls && before > 0) {
      double calls_ns = (after - before) * time.base_ns / before;
      // Further ops of a framework may be much smaller ones.
      if (row.Is(ActivityKind::kScope) && calls_ns > 0) calls_ns = std::clamp(rest_ns, 0.0, calls_ns);
      // What one call takes is not known of a side that has few. Those of another size are, on both, of many.
      const double less = std::min(before, after), more = std::max(before, after);
      const bool is_rare = less < 1 && more > kManyTimes * less && row.row().rows.match != Match::kResized;
      if (is_rare && calls_ns * rest_ns > 0) calls_ns = rest_ns;
      Add(CauseKind::kCalls, calls_ns, CallsWords(row), place);
      rest_ns -= calls_ns;
    }
    switch (row.row().rows.match) {
      case Match::kResized:
        return DivideResized(row, rest_ns, place);
      case Match::kChanged:
        return AddChoice(row, rest_ns, place);
      default:
        break;
    }
    if (!row.Is(ActivityKind::kScope)) return Add(CauseKind::kRate, rest_ns, "", place);
    const auto call = followed_.find(place);
    if (call != followed_.end()) return Add(call->second.kind, rest_ns, call->second.what, place);
    Add(input_.decision->is_same_work ? CauseKind::kRate : CauseKind::kUnknownSizes, rest_ns, "", place);
  }

  static std::string CountsText(const WorkRow& row) {
    return absl::StrFormat("%s %.3g -> %.3g a step", row.Newest("what"), row.Calls(true), row.Calls(false));
  }

  // Where all of a step happens more often, that is the reason.
  std::string CallsWords(const WorkRow& row) const {
    for (const Difference& difference : *input_.differences) {
      int64_t from = 0, to = 0;
      const bool is_of_passes =
          difference.kind == DifferenceKind::kBatch && absl::StrContains(difference.what, "passes");
      if (!is_of_passes || !absl::SimpleAtoi(difference.base, &from) || !absl::SimpleAtoi(difference.new_side, &to))
        continue;
      const double ratio = static_cast<double>(to) / static_cast<double>(from);
      if (std::abs(row.Calls(false) / row.Calls(true) - ratio) <= kEqualRatio * ratio) return difference.words;
    }
    return CountsText(row);
  }

  void DivideResized(const WorkRow& row, double ns, const WorkPlace& place) {
    if (row.Differs("types")) return AddChoice(row, ns, place);
    const double before = row.Flops(true) / std::max(row.Calls(true), 1e-9),
                 after = row.Flops(false) / std::max(row.Calls(false), 1e-9);
    double work_ns = ns;
    if (before > 0 && after > 0) {
      const double grown = row.row().time.base_ns * (row.Calls(false) / row.Calls(true)) * (after / before - 1);
      // Larger problems often run faster and small ones slower than in proportion: never more than there is.
      if (grown * ns > 0 && std::abs(grown) < std::abs(ns)) work_ns = grown;
    }
    const int64_t from = input_.base->steps.batch, to = input_.new_side->steps.batch;
    const std::string problem = row.Problem(true), other = row.Problem(false);
    const bool is_of_batch = from > 0 && to > 0 && from != to && SizesScale(problem, other, from, to);
    AddOther(CauseKind::kWork, work_ns,
             is_of_batch ? absl::StrFormat("batch %d -> %d", from, to)
                         : absl::StrCat(row.Newest("what"), " ", SizesChanged(problem, other)),
             place);
    Add(CauseKind::kRate, ns - work_ns, "", place);
  }

  void AddChoice(const WorkRow& row, double ns, const WorkPlace& place) {
    const auto changed = [&](const char* column) { return Arrow(row.Text(column, true), row.Text(column, false)); };
    if (row.Differs("types")) return AddOther(CauseKind::kTypes, ns, changed("types"), place);
    const auto is_isa = [](const Difference& difference) {
      return difference.kind == DifferenceKind::kSettings && absl::EndsWith(difference.what, "_ISA");
    };
    const bool differs_by_format = row.Differs("formats") && absl::c_none_of(*input_.differences, is_isa);
    if (row.Differs("chosen") && !differs_by_format)
      return AddOther(CauseKind::kImplementation, ns, absl::StrCat(row.Newest("what"), " ", changed("chosen")), place);
    AddOther(CauseKind::kLayout, ns,
             absl::StrCat(row.Newest("what"), " ", FirstChanged(row.Text("formats", true), row.Text("formats", false))),
             place);
  }

  // Takes `ns` of all parts of these kinds, in proportion; returns how much there was.
  template <typename IsOfKind>
  double Take(double ns, IsOfKind is_of_kind) {
    double all_ns = 0;
    for (const ChangePart& part : parts_) all_ns += is_of_kind(part.kind) ? part.ns : 0;
    if (all_ns * ns <= 0) return 0;
    const double taken = std::abs(ns) < std::abs(all_ns) ? ns : all_ns;
    for (ChangePart& part : parts_) part.ns *= is_of_kind(part.kind) ? 1 - taken / all_ns : 1;
    return taken;
  }

  void DivideRate() {
    const auto is_of_time = [](CauseKind kind) {
      return IsRate(kind) || kind == CauseKind::kPython || kind == CauseKind::kOther;
    };
    const MachineLoad &before = input_.base->load, &after = input_.new_side->load;
    const bool knows_waits = before.is_known && after.is_known && before.cpu_ns > 0;
    const double needed = knows_waits ? after.cpu_ns / before.cpu_ns : 0;
    const std::string threads = ThreadsWords();
    const std::string crowded = absl::StrCat(threads, threads.empty() ? "" : ", ", DemandWords());
    // More processor time, on threads that stand in each other's way: their number before anything else.
    if (needed > kMoreNeeded && after.OwnPart() > 0 && !threads.empty()) GiveRateTo(crowded);
    if (knows_waits) {
      // Who needs the processor for longer waits longer for it: only what is beyond that is another wait.
      const double own_ns = after.waiting_ns * after.OwnPart() - before.waiting_ns * before.OwnPart() * needed;
      Add(CauseKind::kThreads, Take(own_ns, is_of_time), crowded, {});
      const double others_ns = input_.new_side->OthersNs() - input_.base->OthersNs() * needed;
      Add(CauseKind::kBusyMachine, Take(others_ns, is_of_time),
          absl::StrCat("the first thread waits ", HumanTime(std::abs(others_ns)), others_ns > 0 ? " longer" : " less",
                       " for a processor"),
          {});
    }
    const double ratio = input_.decision->pace.ratio;
    const double shared_ns = input_.decision->whole.base_ns * (ratio - 1);
    Add(CauseKind::kSlowerMachine, Take(shared_ns, is_of_time), absl::StrCat("everything takes ", TimesText(ratio)),
        {});
    if (MayNeed(needed)) GiveRateTo(threads);
  }

  // Whether so many times the processor time may be due to the number of threads alone: all of them spin, at most.
  bool MayNeed(double needed) const {
    for (const Difference& difference : *input_.differences) {
      int64_t from = 0, to = 0;
      if (difference.kind != DifferenceKind::kThreads || !absl::SimpleAtoi(difference.base, &from) ||
          !absl::SimpleAtoi(difference.new_side, &to))
        continue;
      return needed <=
             kMoreNeeded * static_cast<double>(std::max(to, from)) / static_cast<double>(std::max<int64_t>(from, 1));
    }
    return true;
  }

  // The number of threads, or what sets it, where it differs.
  std::string ThreadsWords() const {
    std::string threads = WordsOf(DifferenceKind::kThreads);
    for (const Difference& difference : *input_.differences) {
      const bool is_setting =
          difference.kind == DifferenceKind::kSettings && absl::StrContains(difference.what, "NUM_THREADS");
      const bool is_allowed =
          difference.kind == DifferenceKind::kMachine && absl::StartsWith(difference.what, "processors");
      if (threads.empty() && (is_setting || is_allowed)) threads = difference.words;
    }
    return threads;
  }

  // "its own threads, 8 in 4 processes, want 1.0 -> 7.4 of 2 processors".
  std::string DemandWords() const {
    const OwnThreads &before = input_.base->load.own, &after = input_.new_side->load.own;
    if (!before.wanted || !after.wanted) return "its own threads want more processors than there are";
    return absl::StrFormat("its own threads, %d in %d %s, want %.1f -> %.1f of %d processors", after.threads,
                           after.processes, after.processes == 1 ? "process" : "processes", *before.wanted,
                           *after.wanted, input_.new_side->load.allowed);
  }

  void GiveRateTo(const std::string& threads) {
    if (threads.empty()) return;
    for (ChangePart& part : parts_) {
      if (!IsRate(part.kind)) continue;
      part.kind = CauseKind::kThreads;
      part.what = threads;
    }
  }

  const CauseInput& input_;
  std::map<WorkPlace, Sides> places_;
  std::map<std::string, Sides> layers_;
  std::set<std::string> types_[2];  // of base, of new
  std::string layout_words_;
  std::map<WorkPlace, ChangePart> followed_;  // the call in each place that changed most by being another one
  std::vector<ChangePart> parts_;
};

}  // namespace

std::vector<ChangePart> DivideChange(const CauseInput& input) { return Divider(input).Divide(); }

}  // namespace dlhook::analyzer::diff
