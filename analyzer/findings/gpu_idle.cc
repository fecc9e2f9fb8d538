// Rule gpu-idle: why the GPU runs no kernel of the network. One finding per cause. The table gpu_idle assigns every
// idle nanosecond to exactly one cause, so the gains are disjoint.
#include "analyzer/gpu/gpu_idle.h"

#include "analyzer/calls/op_labels.h"
#include "analyzer/findings/rules.h"
#include "analyzer/layers/functions/askers.h"
#include "analyzer/tables/gpu/gpu_tables.h"
#include "analyzer/tables/gpu/idle_shares.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kGpuIdlePercent = 3;

// Advice where the wait belongs to a copy of unpinned memory.
constexpr char kPinned[] =
    "Pin the source and pass non_blocking=True (see pageable-copies): the program then does not wait for the copy.";

// Causes of their own here: in the table they are parts of "not known" and of "launch-bound".
constexpr char kNotStarted[] = "not started";
constexpr char kHostComputes[] = "host computes";

// In an op that launches kernels the GPU waits for less each time.
constexpr double kHostComputesNs = 200'000;

constexpr double kLeastPlacePart = 0.25;

// What helps programs of PyTorch, those that XLA compiled, and others; empty there: the same as in PyTorch.
struct Advice {
  const char* sentence;
  const char* advice;
  const char* in_xla = "";
  const char* in_others = "";
};

const std::map<std::string, Advice>& Advices() {
  static const auto& kAdvices = *new std::map<std::string, Advice>{
      {"input pipeline", {"The GPU waits for the next batch", ""}},
      {"synchronization",
       {"The GPU is idle because the program waited for it",
        "Keep values on the GPU: .item(), .cpu(), print(tensor) and nonzero() wait; read the loss every N steps.",
        "Keep values on the GPU: block_until_ready(), float(array) and print(array) wait; read the loss every N steps.",
        "Keep values on the GPU: the program has to wait for what it reads on the host or prints."}},
      {"launch-bound",
       {"The GPU waits for the next kernel to be launched",
        "Launch fewer kernels: torch.compile(model, mode=\"reduce-overhead\"), CUDA graphs, fused operations, a larger "
        "batch.",
        "Launch fewer kernels: more of the step in one jax.jit, several steps in one call (jax.lax.scan), a larger "
        "batch.",
        "Launch fewer kernels: fused operations, CUDA graphs, larger arrays."}},
      {"no processor",
       {"The GPU waits for a thread that has no processor",
        "Free processors for the thread that launches: fewer other programs on the machine, fewer threads and workers "
        "of this one, a larger quota or set of processors."}},
      {"copies",
       {"The GPU computes nothing while it copies",
        "Overlap copies with compute: pinned memory and x.to(device, non_blocking=True), the next batch on a stream of "
        "its own.",
        "Overlap copies with compute: jax.device_put of the next batch before the step that needs it.",
        "Overlap copies with compute: pinned memory and asynchronous copies on a stream of their own."}},
      {"communication", {"The GPU computes nothing while ranks communicate", ""}},
      {kHostComputes,
       {"The GPU waits for an operation on the CPU",
        "Let the GPU do it (device=\"cuda\"), or the data loader's workers, before the step needs it."}},
      {kNotStarted,
       {"The GPU does not run this program's kernels although they were launched",
        "Check whether other programs use this GPU (nvidia-smi): they take turns with this one. If none does, the work "
        "waits for another device, a function on the host, or work from before the recording."}},
  };
  return kAdvices;
}

// Where in the step GPUs are idle for one cause: of synchronization the line that waits, else what the GPU does next. Idle
// time has no place where it is spread over many: less than kLeastPlacePart of it in the one that has most.
class IdlePlaces {
 public:
  explicit IdlePlaces(const StepFacts& facts)
      : model_(facts.model()), next_(model_, facts.attribution()), askers_(model_, facts.attribution()) {
    const GpuRun run(model_, facts.options().analysis->steps());
    const HostRules rules(model_);
    for (GpuDeviceIndex device : run.devices()) {
      const ProcessInfo& process = model_.processes[run.ProcessOf(device)];
      const IntervalSet& steady = run.SteadyTime(device);
      DivideIdleTime(model_, rules, run.timelines(), device, {process.start_ns, process.end_ns},
                     [&](const IdlePiece& piece) { Add(piece, steady.CoveredNs(piece.start_ns, piece.end_ns)); });
    }
  }

  std::string LayerOf(IdleCause cause) { return Most(by_layer_[cause]); }
  std::string LineOf(IdleCause cause) { return Most(by_line_[cause]); }

 private:
  using Times = std::map<std::string, int64_t>;

  void Add(const IdlePiece& piece, int64_t ns) {
    if (ns == 0) return;
    if (piece.cause == IdleCause::kSynchronization) {
      if (piece.what == IdlePiece::What::kCall) by_line_[piece.cause][askers_.LineOf(piece.index)] += ns;
      return;
    }
    by_layer_[piece.cause][next_.LayerOf(piece.next)] += ns;
    const std::string line = next_.LineOf(piece.next);
    by_line_[piece.cause][absl::StartsWith(line, "<") ? "" : line] += ns;  // generated code is not the program's
  }

  static std::string Most(const Times& times) {
    int64_t all_ns = 0;
    for (const auto& [place, ns] : times) all_ns += ns;
    const auto most = MostOf(times);
    const bool is_place =
        most != times.end() && static_cast<double>(most->second) >= kLeastPlacePart * static_cast<double>(all_ns);
    return is_place ? most->first : "";
  }

  const TraceModel& model_;
  NextWork next_;
  Askers askers_;
  std::map<IdleCause, Times> by_layer_, by_line_;
};

// What the rules about copies claim of the time that the table gpu_idle assigns to copies.
double SaidOfCopiesNs(const StepFacts& facts) {
  double sum_ns = 0;
  for (auto* find : {FindCopiedAgain, FindPageableCopies, FindSmallCopies}) {
    for (const Finding& finding : find(facts)) sum_ns += finding.gain_ns;
  }
  return sum_ns;
}

CollectiveKind KindOfCollective(const TraceModel& model, GpuIndex activity) {
  for (CallIndex call = model.gpu.call[activity]; call != kNone; call = model.calls.parent[call]) {
    if (const CollectiveCall* collective = model.ops[model.calls.op[call]].collective()) return collective->kind;
  }
  // Else a name tells: the kernel's ("AllReduce"), or that of an operation or range around its launch ("all_to_all").
  const auto known = [&](NameIndex name) {
    const std::string letters = absl::StrReplaceAll(absl::AsciiStrToLower(model.names[name]), {{"_", ""}});
    for (const auto& [part, kind] : {std::pair("allreduce", CollectiveKind::kAllReduce),
                                     {"allgather", CollectiveKind::kAllGather},
                                     {"reducescatter", CollectiveKind::kReduceScatter},
                                     {"alltoall", CollectiveKind::kAllToAll}}) {
      if (absl::StrContains(letters, part)) return kind;
    }
    return CollectiveKind::kUnknown;
  };
  const GpuKernelIndex kernel = model.gpu.kernel[activity];
  const NameIndex named = kernel == kNone ? kNone : model.gpu_kernels[kernel].name;
  CollectiveKind kind = named == kNone ? CollectiveKind::kUnknown : known(named);
  ScopeIndex scope = model.gpu.scope.empty() ? kNone : model.gpu.scope[activity];
  for (; kind == CollectiveKind::kUnknown && scope != kNone; scope = model.scopes.parent[scope])
    kind = known(model.scopes.look[scope].name);
  return kind;
}

// The kind of collective during which the GPU computes nothing for the longest time; where that of the steps' work is not
// known (it was launched before the recording), of the run's.
CollectiveKind MostExposed(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  const GpuRun run(model, facts.options().analysis->steps());
  std::map<CollectiveKind, int64_t> in_steps_ns, in_run_ns;
  for (GpuIndex activity = 0; activity < model.gpu.size(); ++activity) {
    const int64_t start_ns = model.gpu.start_ns[activity], end_ns = model.gpu.end_ns[activity];
    const GpuDeviceIndex device = model.gpu.device[activity];
    if (GpuWorkOf(model, activity) != GpuWork::kCommunication) continue;
    const int64_t exposed_ns = end_ns - start_ns - run.TimelineOf(device).compute.CoveredNs(start_ns, end_ns);
    const CollectiveKind kind = KindOfCollective(model, activity);
    if (kind != CollectiveKind::kUnknown) in_run_ns[kind] += exposed_ns;
    if (run.SteadyTime(device).CoveredNs(start_ns, end_ns) > 0) in_steps_ns[kind] += exposed_ns;
  }
  for (const auto* times_ns : {&in_steps_ns, &in_run_ns}) {
    const auto most = MostOf(*times_ns);
    if (most != times_ns->end() && most->first != CollectiveKind::kUnknown) return most->first;
  }
  return CollectiveKind::kUnknown;
}

std::string AdviceForCommunication(const StepFacts& facts) {
  switch (MostExposed(facts)) {
    case CollectiveKind::kAllToAll:
      return "Most of it is all-to-all. Let the part of the network that does not need it compute meanwhile, exchange "
             "the next batch's inputs ahead, or even out what ranks send: all wait for the largest.";
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
      if (!Wraps(facts.model(), "FullyShardedDataParallel") && !Wraps(facts.model(), "FSDP::")) break;
      return "Most of it gathers and scatters FSDP's shards. Prefetch them (forward_prefetch, backward_prefetch), or "
             "shard over fewer ranks.";
    case CollectiveKind::kSend:
    case CollectiveKind::kReceive:
      return "Most of it passes from one rank to another. In a pipeline, more micro-batches a step or an interleaved "
             "schedule leave less of it empty.";
    case CollectiveKind::kAllReduce:
      if (!Wraps(facts.model(), "DistributedDataParallel")) break;
      return "Overlap or shrink it: larger buckets (bucket_cap_mb), no_sync() while gradients accumulate.";
    default:
      break;
  }
  return "Let it run beside computation that does not need its result.";
}

// Of the operations of a step that ask the GPU for work, how many take the host longer than the GPU; with a leading "; ".
std::string LaunchBoundOperations(const StepFacts& facts) {
  const AskedTimes asked(facts.model());
  int64_t all = 0, bound = 0;
  facts.ForEachOperation([&](ThreadIndex thread, int64_t start_ns, int64_t duration_ns) {
    if (facts.StepAt(facts.model().threads[thread].process, start_ns) == kNone) return;
    const int64_t gpu_ns = asked.GpuNs(thread, start_ns, start_ns + duration_ns);
    all += gpu_ns >= 0 ? 1 : 0;
    bound += gpu_ns >= 0 && gpu_ns < duration_ns ? 1 : 0;
  });
  if (bound == 0) return "";
  return absl::StrFormat("; %.0f %% of the operations that ask it for work take the host longer than the GPU",
                         100.0 * static_cast<double>(bound) / static_cast<double>(all));
}

// Launches where the program compiles with PyTorch already, or replays CUDA graphs.
std::string AdviceForCompiled(const StepFacts& facts, const std::string& advice) {
  const TraceModel& model = facts.model();
  const bool is_inference = facts.steps().kind == StepKind::kInference;
  const std::vector<uint32_t>& graphs = model.gpu.graph;
  if (absl::c_any_of(graphs, [](uint32_t graph) { return graph != 0; }) || absl::c_any_of(model.ops, IsGraphLaunch)) {
    return absl::StrCat("Part of the work is launched as CUDA graphs; take more of the ",
                        is_inference ? "request" : "step", " into them",
                        is_inference ? "" : ": the loss and the optimizer's step into what is compiled or captured",
                        "; or a larger batch.");
  }
  if (is_inference) {
    return "Replay it as CUDA graphs: torch.compile(model, mode=\"reduce-overhead\") or torch.cuda.graph; or put more "
           "requests into a batch, which takes the host no longer.";
  }
  const bool is_compiled = model.HasRole(ScopeRole::kTorchRegion);
  return is_compiled ? "Launch fewer kernels: torch.compile(model, mode=\"reduce-overhead\") for CUDA graphs, the loss "
                       "and the optimizer's step compiled, too, a larger batch."
                     : advice;
}

std::string AdviceFor(const StepFacts& facts, const std::string& cause, const Advice& advice) {
  if (cause == IdleCauseName(IdleCause::kCommunication)) return AdviceForCommunication(facts);
  const bool is_xlas = !facts.model().compiled_ops.empty();
  const char* const own = is_xlas ? advice.in_xla : facts.UsesTorch() ? "" : advice.in_others;
  if (*own != 0) return own;
  if (is_xlas || !facts.UsesTorch() || cause != IdleCauseName(IdleCause::kLaunch)) return advice.advice;
  return facts.steps().count() == 1 && !FindGpuAllocations(facts).empty() ? kFirstUse
                                                                          : AdviceForCompiled(facts, advice.advice);
}

struct Cause {
  double ns = 0;
  IdleShare largest;

  // "most of it during cudaLaunchKernel"; empty where the largest one has no name.
  std::string During(double step_ns) const {
    using What = IdlePiece::What;
    if (largest.during.empty() || largest.what == What::kNothing || largest.what == What::kAsked) return "";
    const bool is_unseen = largest.what == What::kPython;
    return absl::StrCat(largest.part * step_ns > ns / 2 ? ", most of it " : ", the largest part ",
                        is_unseen ? "while Python or native code ran that was not observed" : "during ",
                        is_unseen ? "" : largest.during);
  }
};

std::string CauseOf(const IdleShare& share) {
  if (share.what == IdlePiece::What::kAsked) return kNotStarted;
  const bool in_op = share.cause == IdleCause::kLaunch && share.what == IdlePiece::What::kScope &&
                     absl::StrContains(share.during, "::");
  const bool is_long = static_cast<double>(share.steady_ns) >= kHostComputesNs * static_cast<double>(share.times);
  return in_op && is_long ? kHostComputes : IdleCauseName(share.cause);
}

}  // namespace

bool Wraps(const TraceModel& model, absl::string_view wrapper) {
  return absl::c_any_of(model.names, [&](absl::string_view name) { return absl::StartsWith(name, wrapper); });
}

std::vector<Finding> FindGpuIdle(const StepFacts& facts) {
  if (GpuTimesOf(facts.model()) != GpuTimes::kOfKernels || !facts.HasSteps()) return {};
  std::map<std::string, Cause> causes;
  std::set<GpuDeviceIndex> of;
  const bool has_allocations = !FindGpuAllocations(facts).empty();
  for (const IdleShare& share : IdleShares(facts.model(), facts.options())) {
    // As a part of the time, because the table's mean step has the much longer ones that the answer's leaves out.
    const double ns = share.part * facts.step_ns();
    of.insert(share.device);
    if (share.what == IdlePiece::What::kOtherCopy) continue;  // work for the network, as kernels are
    if (has_allocations && (absl::EndsWith(share.during, "Malloc") || absl::EndsWith(share.during, "Free"))) continue;
    Cause& cause = causes[CauseOf(share)];
    cause.ns += ns;
    if (ns > cause.largest.part * facts.step_ns()) cause.largest = share;
  }
  const auto devices = static_cast<double>(of.size());
  IdlePlaces places(facts);
  const std::vector<Finding> pageable = FindPageableCopies(facts);
  std::vector<Finding> findings;
  for (const auto& [name, advice] : Advices()) {
    const auto cause = causes.find(name);
    if (cause == causes.end()) continue;
    double ns = cause->second.ns / devices;
    if (name == IdleCauseName(IdleCause::kCopies)) ns = std::max(ns - SaidOfCopiesNs(facts), 0.0);
    if (!facts.IsAtLeast(ns, kGpuIdlePercent)) continue;
    const bool is_row = name == kNotStarted || name == kHostComputes;
    const bool is_launch = name == IdleCauseName(IdleCause::kLaunch);
    const IdleShare& largest = cause->second.largest;
    const std::string line = is_row ? largest.line : places.LineOf(largest.cause);
    const bool waits_for_copy = name == IdleCauseName(IdleCause::kSynchronization) && !line.empty() &&
                                !pageable.empty() && line == pageable.front().line;
    Finding finding = {
        .where = is_row ? largest.layer : places.LayerOf(largest.cause),
        .line = line,
        .sentence =
            absl::StrCat(advice.sentence, ": ", facts.PartOfStep(ns), cause->second.During(facts.step_ns()),
                         devices > 1 ? ", mean over the GPUs" : "", is_launch ? LaunchBoundOperations(facts) : "", "."),
        .gain_ns = ns,
        .basis = GainBasis::kMeasured,
        .confidence = Confidence::kHigh,
        .evidence = is_row ? absl::StrCat("table gpu_idle, during ", largest.during)
                           : absl::StrCat("table gpu_idle, cause ", name),
        .advice = waits_for_copy ? kPinned : AdviceFor(facts, name, advice)};
    if (name == IdleCauseName(IdleCause::kInput)) AdviseOnInput(facts, ns, finding);
    if (name == IdleCauseName(IdleCause::kNoProcessor)) {
      finding.basis = GainBasis::kComputed;
      finding.confidence = Confidence::kMedium;
      absl::StrAppend(&finding.evidence, ": idle time divided as the thread's states were sampled");
    }
    if (is_launch) {
      const double own_ns = CostOfScopes(facts, [](ScopeIndex) { return true; }) + CostOfGpuCalls(facts);
      SubtractOwnCost(own_ns * ns / facts.step_ns(), finding);  // which the host spends evenly over the step
    }
    if (!is_launch || facts.IsAtLeast(finding.gain_ns, kGpuIdlePercent)) findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace dlhook::analyzer::findings
