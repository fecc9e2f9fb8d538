// Rule unfused-ops: elementwise operations directly behind a convolution or product, each reading and writing the whole tensor, where a
// compiler makes one loop of them. Of a chain of n all passes over the tensor but one can go. A pass takes what those of the chain take
// that compute next to nothing (additions, products, ReLU); what exp, tanh or a division compute besides remains. Bytes over the machine's
// bandwidth would say much less than a compiler gained (tests/bench/findings.py), probably because a large tensor's pages are new each
// time. A single operation is left alone: torch.compile fuses that only where weights are constants. Tiny ones are python-bound's.
//
// Rule optimizer-per-tensor: PyTorch's optimizer runs a dozen small operations per parameter instead of one fused operation. A fused Adam
// took 22 to 33 % of the default's time on the CPU, with 10 tensors of 16x16 to 8 of 1024x1024 (torch 2.13, 2 cores; tests/bench).

#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kUnfusedOpsPercent = 5;
constexpr double kUnfusedOpsLeastOpNs = 20'000;  // mean
constexpr absl::string_view kMovesOnly[] = {
    "relu", "relu_", "relu6", "leaky_relu", "leaky_relu_", "hardtanh", "hardtanh_", "clamp", "clamp_", "clamp_min",
    "add",  "add_",  "sub",   "sub_",       "mul",         "mul_",     "neg",       "abs",   "square"};
constexpr absl::string_view kComputes[] = {"elu",      "gelu", "silu",  "silu_",     "mish",        "sigmoid",
                                           "sigmoid_", "tanh", "tanh_", "hardswish", "hardsigmoid", "softplus",
                                           "div",      "div_", "exp",   "sqrt",      "rsqrt",       "pow"};

template <size_t kCount>
bool IsOneOf(const ScopeName& name, const absl::string_view (&names)[kCount]) {
  return absl::c_linear_search(names, name.op);
}

// Chains in the steady steps, by the framework's outermost ops.
class Chains {
 public:
  explicit Chains(const StepFacts& facts) : facts_(facts) {
    for (const ScopeName& name : facts.scope_names()) roles_.push_back(RoleOf(name));
    for (const StepTrack& track : facts.steps().tracks) AddTrack(track);
  }

  // Per mean step.
  double gain_ns() const { return gain_ns_ / facts_.count(); }
  double ns() const { return ns_ / facts_.count(); }
  double ops() const { return ops_ / facts_.count(); }
  const std::set<LayerIndex>& layers() const { return layers_; }

 private:
  struct Chain {
    bool has_begun = false;  // behind a convolution or product
    int ops = 0;
    double ns = 0;
    int moving_ops = 0;
    double moving_ns = 0;
    LayerIndex layer = kNone;  // of the last one
  };

  enum class Role : uint8_t { kOther, kMovesOnly, kComputes, kAside, kWeighted };

  static Role RoleOf(const ScopeName& name) {
    if (IsOneOf(name, kMovesOnly)) return Role::kMovesOnly;
    if (IsOneOf(name, kComputes)) return Role::kComputes;
    if (name.is_view || name.is_bookkeeping) return Role::kAside;
    return name.is_weighted ? Role::kWeighted : Role::kOther;
  }

  void AddTrack(const StepTrack& track) {
    const TraceModel& model = facts_.model();
    for (ThreadIndex thread = 0; thread < model.threads.size(); ++thread) {
      if (model.threads[thread].process != track.process) continue;
      size_t step = 0;
      const auto [first, end] = model.scopes.thread.RangeOf(thread);
      for (ScopeIndex scope = first; scope < end; ++scope) {
        if (!facts_.IsOutermostOp(scope)) continue;
        const int64_t start_ns = model.scopes.start_ns[scope];
        while (step < track.steps.size() && track.steps[step].end_ns <= start_ns) ++step;
        if (step < track.steps.size() && start_ns >= track.steps[step].start_ns) Add(scope);
      }
      End();
    }
  }

  void Add(ScopeIndex scope) {
    const ScopeColumns& scopes = facts_.model().scopes;
    const Role role = roles_[scopes.look[scope].name];
    const Place& place = facts_.attribution().of_scope[scope];
    const bool is_forward = place.direction == LayerDirection::kForward;
    const bool moves_only = role == Role::kMovesOnly;
    if (is_forward && chain_.has_begun && (moves_only || role == Role::kComputes)) {
      const auto ns = static_cast<double>(scopes.duration_ns[scope]);
      ++chain_.ops;
      chain_.ns += ns;
      chain_.moving_ops += moves_only ? 1 : 0;
      chain_.moving_ns += moves_only ? ns : 0;
      chain_.layer = place.layer;
    } else if (role != Role::kAside) {
      End();
      chain_.has_begun = is_forward && role == Role::kWeighted;
    }
  }

  void End() {
    if (chain_.ops > 1 && chain_.ns >= kUnfusedOpsLeastOpNs * chain_.ops) {
      const double pass_ns = chain_.moving_ns / std::max(chain_.moving_ops, 1);
      gain_ns_ += (chain_.ops - 1) * std::min(pass_ns, chain_.ns / chain_.ops);
      ns_ += chain_.ns;
      ops_ += chain_.ops;
      layers_.insert(chain_.layer);
    }
    chain_ = Chain();
  }

  const StepFacts& facts_;
  std::vector<Role> roles_;  // by name
  Chain chain_;
  double gain_ns_ = 0, ns_ = 0, ops_ = 0;
  std::set<LayerIndex> layers_;
};

constexpr double kOptimizerOpsPercent = 3;
constexpr double kFusedPart = 0.33;           // upper bound of the time a fused step takes, relative to the default
constexpr double kOptimizerOpsLeastOps = 20;  // per update
constexpr double kSeveralUpdates = 1.5;       // of a step
constexpr double kManyUpdates = 5;            // more than networks that are trained in turns
constexpr std::array<const char*, 4> kCanBeFused = {"Adam", "AdamW", "SGD", "Adagrad"};

bool IsUpdate(const WorkItem& item) {
  return item.doing.direction == LayerDirection::kUpdate && item.doing.activity != ActivityKind::kWaiting;
}

}  // namespace

std::vector<Finding> FindUnfusedOps(const StepFacts& facts) {
  if (!facts.HasSteps() || !facts.UsesTorch() || facts.HasGpuTimes()) return {};
  const Chains chains(facts);
  // Pages of large results are new each time, and cleared by the kernel: which of them are these is not known.
  double gain_ns = chains.gain_ns();
  for (const Finding& page_faults : FindPageFaults(facts)) gain_ns -= page_faults.gain_ns;
  if (!facts.IsAtLeast(gain_ns, kUnfusedOpsPercent)) return {};
  const auto is_in = [&](const WorkItem& item) {
    return absl::c_any_of(item.group->layers, [&](LayerIndex layer) { return chains.layers().contains(layer); });
  };
  return {
      {.where = facts.LayersOf(is_in),
       .line = facts.LineOfLongest(is_in),
       .sentence = absl::StrFormat(
           "%.0f elementwise operations in chains behind convolutions or products pass over the whole tensor each: %s.",
           chains.ops(), facts.PartOfStep(chains.ns())),
       .gain_ns = gain_ns,
       .basis = GainBasis::kComputed,
       .evidence = "table work; of a chain of n, (n - 1) passes that take as long as those that only move data (add, "
                   "mul, relu), less what page-faults claims",
       .advice = "torch.compile(model) makes one loop of each chain."}};
}

std::vector<Finding> FindSmallOptimizerOps(const StepFacts& facts) {
  if (facts.HasGpuTimes() || facts.steps().kind != StepKind::kTraining) return {};
  std::string optimizer;
  for (const std::string& name : facts.counted().optimizers) {
    for (const char* known : kCanBeFused) {
      if (name == known) optimizer = name;
    }
  }
  if (optimizer.empty() || facts.counted().optimizers.size() > 1) return {};
  const double ns = facts.Sum(IsUpdate);
  if (!facts.IsAtLeast((1 - kFusedPart) * ns, kOptimizerOpsPercent)) return {};
  double ops = 0;
  const Attribution& attribution = facts.attribution();
  const ScopeColumns& scopes = facts.model().scopes;
  bool is_fused = false;
  const FoldedTime& folded = FoldedTime::Of(facts.model(), *facts.options().analysis);
  for (ProcessIndex process = 0; process < facts.model().processes.size(); ++process) {
    folded.ForEachScope(process, [&](ScopeIndex scope, int64_t count) {
      if (attribution.of_scope[scope].direction != LayerDirection::kUpdate) return;
      const std::string& name = facts.model().names[scopes.look[scope].name];
      is_fused = is_fused || absl::StrContains(name, "_fused_");
      ops += absl::StartsWith(name, "aten::") ? static_cast<double>(count) : 0;
    });
  }
  if (is_fused) return {};
  int64_t updates = 0;
  for (const StepTrack& track : facts.options().analysis->steps()) {
    for (const Step& step : track.steps) updates += step.kind == StepKind::kTraining ? 1 : 0;
  }
  ops /= static_cast<double>(std::max<int64_t>(updates, 1));
  if (ops < kOptimizerOpsLeastOps) return {};
  const double calls = facts.counted().updates;
  const double own_ns = CostOfScopes(
      facts, [&](ScopeIndex scope) { return attribution.of_scope[scope].direction == LayerDirection::kUpdate; });
  Finding finding = {
      .where = absl::StrCat("optimizer (", optimizer, ")"),
      .sentence = absl::StrFormat(
          "%s updates each tensor separately%s: about %.0f operations, %s.", optimizer,
          calls < kSeveralUpdates ? "" : absl::StrFormat(", in %.0f calls of step() a %s", calls, facts.StepNoun()),
          ops, facts.PartOfStep(ns)),
      .gain_ns = (1 - kFusedPart) * ns,
      .basis = GainBasis::kComputed,
      .evidence = "table layers: optimizer; a fused update took a third of the time or less in trials"};
  SubtractOwnCost((1 - kFusedPart) * own_ns, finding);
  if (!facts.IsAtLeast(finding.gain_ns, kOptimizerOpsPercent)) return {};
  finding.advice =
      absl::StrCat("torch.optim.", optimizer, "(..., fused=True)",
                   calls < kManyUpdates ? "" : "; one optimizer of all parameters, if each has one of its own");
  return {finding};
}

}  // namespace dlhook::analyzer::findings
