#include "analyzer/calls/choices.h"

#include "analyzer/model/op_kind.h"

namespace dlhook::analyzer::inline calls {
namespace {

// cudnnBackendHeurMode_t
constexpr int32_t kFallbackHeuristics = 2;

// Gives calls an op with a different chooser or is_trial.
class OpVariants {
 public:
  explicit OpVariants(TraceModel* model) : model_(model) {}

  OpIndex Move(CallIndex call, const Op& variant) {
    const OpIndex base = model_->calls.op[call];
    const auto key = std::make_tuple(base, variant.chooser, variant.is_trial);
    const auto [it, is_new] = variants_.emplace(key, static_cast<OpIndex>(model_->ops.size()));
    if (is_new) model_->ops.push_back(variant);
    model_->calls.op[call] = it->second;
    return it->second;
  }

 private:
  TraceModel* model_;
  std::map<std::tuple<OpIndex, Chooser, bool>, OpIndex> variants_;
};

Chooser PlanChooser(const Op& op) {
  const CudnnPlan& plan = *op.plan();
  if (plan.failed_before > 0 || op.chooser == Chooser::kFallback) return Chooser::kFallback;
  if (op.chooser == Chooser::kHeuristic && plan.heuristic_mode == kFallbackHeuristics) return Chooser::kFallback;
  if (op.chooser == Chooser::kUnknown && plan.is_from_json) return Chooser::kCached;
  return op.chooser;
}

std::string ProblemAndPlan(const Op& op) { return absl::StrCat(ProblemKey(op), "|", op.plan()->configuration); }

void ResolvePlans(TraceModel* model, OpVariants* variants, Choices* choices) {
  choices->plan_searches = FindPlanSearches(*model);
  for (Op& op : model->ops) {
    if (IsPlanExecution(op)) op.chooser = PlanChooser(op);
  }
  std::set<std::string> winners;
  const size_t recorded_ops = model->ops.size();
  for (const PlanSearch& search : choices->plan_searches) {
    if (search.winner) winners.insert(ProblemAndPlan(model->ops[search.candidates[*search.winner].op]));
    for (const PlanCandidate& candidate : search.candidates) {
      for (CallIndex call : candidate.calls) {
        Op trial = model->ops[model->calls.op[call]];
        trial.is_trial = true;
        variants->Move(call, trial);
      }
    }
  }
  for (size_t i = 0; i < recorded_ops && !winners.empty(); ++i) {
    Op& op = model->ops[i];
    if (IsPlanExecution(op) && winners.count(ProblemAndPlan(op)) > 0) op.chooser = Chooser::kProfiled;
  }
}

// Legacy convolutions and RNNs: the caller passes the algorithm.
bool NamesAlgorithm(const Op& op) {
  return op.cudnn() && !IsPlanExecution(op) && !op.algorithm.empty() &&
         IsKind(op, {OpKind::kConvolution, OpKind::kRnn});
}

class LegacyResolver {
 public:
  LegacyResolver(TraceModel* model, OpVariants* variants) : model_(model), variants_(variants) {
    std::map<std::string, uint32_t> numbers;
    for (const Op& op : model->ops) {
      const bool takes_part = op.search() || NamesAlgorithm(op);
      problem_.push_back(takes_part ? numbers.emplace(ProblemKey(op), numbers.size()).first->second : kNone);
    }
  }

  std::vector<AlgorithmSearch> Run() {
    CollectSearches();
    SetLastChoosers();
    for (CallIndex call = 0; call < model_->calls.size(); ++call) {
      const OpIndex op = model_->calls.op[call];
      if (op < problem_.size() && NamesAlgorithm(model_->ops[op])) Visit(call, op);
    }
    std::vector<AlgorithmSearch> searches;
    for (const auto& [key, list] : searches_) {
      for (const Search& search : list) searches.push_back({search.call, search.next_execution});
    }
    absl::c_sort(searches, [](const auto& a, const auto& b) { return a.call < b.call; });
    return searches;
  }

 private:
  struct Search {
    int64_t start_ns = 0;
    CallIndex call = 0;
    int64_t next_start_ns = INT64_MAX;
    std::optional<OpIndex> next_execution = std::nullopt;
  };
  // When an algorithm was first named for a problem, and how.
  struct Named {
    int64_t by_measuring_ns = INT64_MAX;
    int64_t by_heuristics_ns = INT64_MAX;
    std::string rank;  // among the results of the heuristics
  };
  using Problem = std::pair<ProcessIndex, uint32_t>;

  Problem ProblemOf(CallIndex call) const {
    const CallColumns& calls = model_->calls;
    return {model_->threads[calls.thread[call]].process, problem_[calls.op[call]]};
  }

  void CollectSearches() {
    for (CallIndex call = 0; call < model_->calls.size(); ++call) {
      const Op& op = model_->ops[model_->calls.op[call]];
      if (!op.search()) continue;
      const int64_t start_ns = model_->calls.start_ns[call];
      searches_[ProblemOf(call)].push_back({.start_ns = start_ns, .call = call});
      for (size_t i = 0; i < op.candidates.size(); ++i) {
        if (op.candidates[i].status != 0) continue;
        Named& named = named_[{ProblemOf(call), op.candidates[i].algorithm}];
        const bool measured = op.search()->is_measured;
        int64_t& first_ns = measured ? named.by_measuring_ns : named.by_heuristics_ns;
        if (start_ns >= first_ns) continue;
        first_ns = start_ns;
        if (!measured) named.rank = absl::StrCat("rank ", i, " of ", op.candidates.size());
      }
    }
    for (auto& [key, list] : searches_) std::ranges::sort(list, {}, &Search::start_ns);
  }

  // Sets the final chooser on the ops themselves; earlier calls get ops of their own.
  void SetLastChoosers() {
    std::map<std::pair<uint32_t, std::string>, Named> anywhere;
    for (const auto& [key, named] : named_) {
      Named& all = anywhere[{key.first.second, key.second}];
      all.by_measuring_ns = std::min(all.by_measuring_ns, named.by_measuring_ns);
      if (named.by_heuristics_ns >= all.by_heuristics_ns) continue;
      all.by_heuristics_ns = named.by_heuristics_ns;
      all.rank = named.rank;
    }
    for (OpIndex i = 0; i < problem_.size(); ++i) {
      Op& op = model_->ops[i];
      if (!NamesAlgorithm(op)) continue;
      const auto it = anywhere.find({problem_[i], op.algorithm});
      SetChooser(it == anywhere.end() ? Named() : it->second, INT64_MAX, &op);
    }
  }

  static void SetChooser(const Named& named, int64_t until_ns, Op* op) {
    const auto is_before = [&](int64_t ns) { return ns != INT64_MAX && ns <= until_ns; };
    op->heuristic.clear();
    op->chooser = Chooser::kFixed;
    if (is_before(named.by_heuristics_ns)) {
      op->chooser = Chooser::kHeuristic;
      op->heuristic = named.rank;
    }
    if (is_before(named.by_measuring_ns)) {
      op->chooser = Chooser::kProfiled;
      op->heuristic.clear();
    }
  }

  void Visit(CallIndex call, OpIndex op) {
    const int64_t start_ns = model_->calls.start_ns[call];
    const Problem problem = ProblemOf(call);
    NoteExecution(problem, start_ns, op);
    const auto named = named_.find({problem, model_->ops[op].algorithm});
    Op then = model_->ops[op];
    SetChooser(named == named_.end() ? Named() : named->second, start_ns, &then);
    if (then.chooser != model_->ops[op].chooser) variants_->Move(call, then);
  }

  // The execution may follow from the last search before it.
  void NoteExecution(const Problem& problem, int64_t start_ns, OpIndex op) {
    const auto it = searches_.find(problem);
    if (it == searches_.end()) return;
    const auto after = std::ranges::upper_bound(it->second, start_ns, {}, &Search::start_ns);
    if (after == it->second.begin()) return;
    Search& search = *std::prev(after);
    if (start_ns >= search.next_start_ns) return;
    search.next_start_ns = start_ns;
    search.next_execution = op;
  }

  TraceModel* model_;
  OpVariants* variants_;
  std::vector<uint32_t> problem_;  // per recorded op
  std::map<Problem, std::vector<Search>> searches_;
  std::map<std::pair<Problem, std::string>, Named> named_;
};

// Finds products that were computed by another function after cuBLASLt refused them.
class FallbackFinder {
 public:
  FallbackFinder(TraceModel* model, OpVariants* variants) : model_(model), variants_(variants) {}

  std::vector<Fallback> Run() {
    const bool any = absl::c_any_of(model_->ops, IsLt);
    for (CallIndex call = 0; any && call < model_->calls.size(); ++call) Visit(call);
    std::vector<Fallback> fallbacks;
    for (const auto& [key, calls] : counts_) {
      fallbacks.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), calls});
    }
    return fallbacks;
  }

 private:
  static bool IsLt(const Op& op) { return op.gemm() && op.gemm()->is_lt; }
  static bool OffersNothing(const Op& op) {
    return op.gemm()->kind == GemmKind::kHeuristic && op.gemm()->heuristic_results == 0;
  }
  static bool IsSameProduct(const GemmCall& a, const GemmCall& b) {
    const auto batch = [](const GemmCall& gemm) { return std::max<int64_t>(gemm.batch, 1); };
    return a.m == b.m && a.n == b.n && a.k == b.k && batch(a) == batch(b);
  }

  void Visit(CallIndex call) {
    const CallColumns& calls = model_->calls;
    const Op& op = model_->ops[calls.op[call]];
    if (!op.gemm() || !op.on_gpu) return;
    const int32_t status = model_->StatusOf(call);
    if (IsLt(op) && (status != 0 || OffersNothing(op))) {
      refused_ = call;
      status_ = status;
      return;
    }
    if (op.gemm()->kind == GemmKind::kHeuristic || refused_ == kNone) return;
    const bool is_sibling =
        calls.thread[call] == calls.thread[refused_] && calls.parent[call] == calls.parent[refused_];
    const OpIndex refused_op = calls.op[refused_];
    if (is_sibling && IsSameProduct(*op.gemm(), *model_->ops[refused_op].gemm())) {
      Op fallback = op;
      fallback.chooser = Chooser::kFallback;
      ++counts_[{variants_->Move(call, fallback), refused_op, status_}];
    }
    if (is_sibling || calls.thread[call] != calls.thread[refused_]) refused_ = kNone;
  }

  TraceModel* model_;
  OpVariants* variants_;
  CallIndex refused_ = kNone;
  int32_t status_ = 0;
  std::map<std::tuple<OpIndex, OpIndex, int32_t>, int64_t> counts_;
};

}  // namespace

Choices ResolveChoices(TraceModel* model) {
  Choices choices;
  OpVariants variants(model);
  ResolvePlans(model, &variants, &choices);
  choices.algorithm_searches = LegacyResolver(model, &variants).Run();
  choices.fallbacks = FallbackFinder(model, &variants).Run();
  return choices;
}

}  // namespace dlhook::analyzer::calls
