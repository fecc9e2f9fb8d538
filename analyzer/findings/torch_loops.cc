// Rule op-by-op, in PyTorch: Python's loops over experts, heads, parameters, rows or elements.
//
// The same operation runs again and again from the same place (the same Python stack, its modules included), with a few others
// between, none of them of a backward pass: so the layers of a network, micro-batches and samples are none.
// The time is that from the first to the last of a loop, and that of the nodes of the graph that were made meanwhile. As many rounds
// as parameters get gradients: it goes through these. Where other rules tell what it does, they do.

#include "absl/container/flat_hash_map.h"
#include "analyzer/findings/rules.h"
#include "analyzer/table/typed_columns.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kLoopsPercent = 10;
constexpr size_t kFewestRounds = 12;
constexpr size_t kMostOfRound = 64;        // operations
constexpr double kLongestOfRound = 200e3;  // ns from one operation to the next, on average: larger ones are no overhead
constexpr double kAsMany = 0.25;           // more or fewer rounds than parameters
constexpr size_t kMostNamed = 3;

struct Chain {
  ScopeIndex first = kNone, last = kNone;
  size_t step = kNone, last_at = 0, backward = 0, rounds = 0;
};

// Chains of one function of the program.
struct Loop {
  std::vector<Interval> times, links;
  std::map<size_t, double> rounds;    // how many chains have so many
  std::map<std::string, double> ops;  // by name: how often
  std::set<uint32_t> lines;
  PythonPlace place;
  double count = 0;  // of operations
};

class Loops {
 public:
  explicit Loops(const StepFacts& facts) : facts_(facts), scopes_(facts.model().scopes) {
    for (ThreadIndex thread = 0; thread < facts.model().threads.size(); ++thread) Follow(thread);
    for (const auto& [key, chain] : open_) Close(chain);
  }

  std::vector<Finding> Find() {
    const auto longest = MostOf(loops_, [](const Loop& loop) { return IntervalSet(loop.times).total_ns(); });
    if (longest == loops_.end()) return {};
    const Loop& loop = longest->second;
    const auto forward_ns = static_cast<double>(IntervalSet(loop.times).total_ns());
    const double running = 1 - std::clamp(facts_.load().waiting_ns / facts_.step_ns(), 0.0, 0.95);
    if (running * forward_ns > kLongestOfRound * loop.count) return {};
    const double ns = std::min((forward_ns + NodesNs(loop)) / facts_.count(), facts_.step_ns());
    if (!facts_.IsAtLeast(ns, kLoopsPercent)) return {};
    for (auto* find : {FindFasterForms, FindRepeatedWork, FindHeavyOperations, FindGrowingSteps}) {
      const std::vector<Finding> told = find(facts_);
      if (absl::c_any_of(told, [&](const Finding& finding) { return 2 * finding.gain_ns >= ns; })) return {};
    }
    return {ToFinding(loop, ns, forward_ns / facts_.count())};
  }

 private:
  Finding ToFinding(const Loop& loop, double ns, double forward_ns) const {
    std::vector<std::string> ops;
    for (const auto& [op, count] : LargestFirst(loop.ops)) ops.push_back(absl::StrCat("aten::", op));
    const bool are_more = ops.size() > kMostNamed;
    ops.resize(std::min(ops.size(), kMostNamed));
    const auto rounds = static_cast<double>(MostOf(loop.rounds)->first);
    const double parameters = facts_.TimesOf("torch::autograd::AccumulateGrad") /
                              static_cast<double>(std::max<int64_t>(facts_.counted().micro_steps, 1));
    const bool are_parameters = std::abs(rounds - parameters) <= kAsMany * parameters;
    const uint32_t end = *loop.lines.rbegin();
    return {
        .where = FunctionName(facts_.model(), loop.place.function),
        .line = absl::StrCat(LineLabel(facts_.model(), loop.place), end > loop.place.line ? " to " : "",
                             end > loop.place.line ? absl::StrCat(end) : ""),
        .sentence = absl::StrFormat("A loop in Python runs the same operations %.0f times (%s%s%s)%s: %s.", rounds,
                                    absl::StrJoin(ops, ", "), are_more ? " …" : "",
                                    are_parameters ? "; as many as parameters get gradients" : "",
                                    forward_ns < 0.9 * ns ? ", and their backward pass" : "", facts_.PartOfStep(ns)),
        .gain_ns = ns,
        .evidence = "operations that the same line calls, with few others between",
        .advice = AdviceFor(loop, are_parameters)};
  }

  static const char* AdviceFor(const Loop& loop, bool are_parameters) {
    if (are_parameters) {
      return "All tensors in one call: torch._foreach_mul_, _foreach_lerp_, _foreach_norm …; averages of weights: "
             "swa_utils.AveragedModel(multi_avg_fn=get_ema_multi_avg_fn()), timm's ModelEmaV3; a norm: "
             "clip_grad_norm_ once for all; a penalty: the optimizer's weight_decay; statistics: in each 100th step.";
    }
    if (loop.ops.contains("lstm_cell") || loop.ops.contains("gru_cell") || loop.ops.contains("lstm"))
      return "Where a sequence is known before it is read: nn.LSTM, nn.GRU or nn.RNN computes all its time steps in "
             "one "
             "call.";
    if (MostOf(loop.ops)->first == "cat")
      return "Where it joins onto what grows: append the parts to a list, and join them once, behind the loop.";
    return "Where a round does not need the one before, all at once: stacked weights and torch.bmm for experts and "
           "heads, whole tensors with a mask (torch.where, arange(n) < lengths[:, None]) for rows and elements.";
  }

  void Follow(ThreadIndex thread) {
    const auto [begin, end] = scopes_.thread.RangeOf(thread);
    size_t at = 0, backward = 0;
    for (ScopeIndex scope = begin; scope < end; ++scope) {
      const auto& [name, kind, stack] = scopes_.look[scope];
      if (!facts_.IsOutermostOp(scope) || stack == kNone) continue;
      const PythonPlace& place = facts_.places()[stack];
      ++at;
      backward += place.is_in_backward ? 1 : 0;
      if (place.is_in_backward || place.is_in_optimizer || place.file == kNone || IsInInput(facts_.model(), scope))
        continue;
      const size_t step = facts_.StepOfScope(scope);
      if (step == kNone) continue;
      Chain& chain = open_[{stack, name}];
      if (chain.step != step || at - chain.last_at > kMostOfRound || chain.backward != backward) {
        Close(chain);
        chain = {.first = scope, .step = step};
      }
      chain.last = scope;
      chain.last_at = at;
      chain.backward = backward;
      ++chain.rounds;
    }
  }

  void Close(const Chain& chain) {
    if (chain.rounds < kFewestRounds) return;
    const auto& [name, kind, stack] = scopes_.look[chain.first];
    const PythonPlace& place = facts_.places()[stack];
    Loop& loop = loops_[{place.file, place.function}];
    loop.times.push_back({scopes_.start_ns[chain.first], scopes_.EndOf(chain.last)});
    if (scopes_.link[chain.first] >= 0) loop.links.push_back({scopes_.link[chain.first], scopes_.link[chain.last] + 1});
    ++loop.rounds[chain.rounds];
    loop.ops[facts_.scope_names()[name].op] += static_cast<double>(chain.rounds);
    loop.count += static_cast<double>(chain.rounds);
    if (loop.lines.insert(place.line).second && *loop.lines.begin() == place.line) loop.place = place;
  }

  double NodesNs(const Loop& loop) const {
    if (loop.links.empty()) return 0;
    IntervalFinder made(IntervalSet(loop.links).intervals());
    double ns = 0;
    for (ScopeIndex scope = 0; scope < scopes_.size(); ++scope) {
      if (scopes_.look[scope].kind == ScopeKind::kBackwardNode && made.Has(scopes_.link[scope]))
        ns += static_cast<double>(scopes_.duration_ns[scope]);
    }
    return ns;
  }

  const StepFacts& facts_;
  const ScopeColumns& scopes_;
  absl::flat_hash_map<std::pair<StackIndex, NameIndex>, Chain> open_;
  std::map<std::pair<NameIndex, NameIndex>, Loop> loops_;  // by file and function
};

}  // namespace

std::vector<Finding> LoopsInTorch(const StepFacts& facts) { return Loops(facts).Find(); }

}  // namespace dlhook::analyzer::findings
