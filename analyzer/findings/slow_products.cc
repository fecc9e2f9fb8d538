// Rule slow-products: products that take much longer than they have to.
//
//   one by one         the same product of few rows over and over in a layer, where one of all rows would read the other operand once;
//                      as if at the rate of the run's fastest product of the same types (tests/bench/findings.py measures it). Whether
//                      they depend on each other is not seen: recurrent layers are left out. So is a batch of small ones in one call
//   slow for its kind  an ordinary product (no side is short) at less than a tenth of the rate of a like one: values below 1.2e-38 made
//                      one of 128x1024x1024 64 times slower (Zen 5, oneDNN). As if at half of the other's rate
//   small requests     inference of one row to four, one request behind the other: a batch reads the weights once for all its rows
//   far from bound     with peaks that dlhook calibrate measured, undisturbed: less than a quarter of the bound (peaks.h) for the threads
//                      that are known to have computed it. As if at half of it, which MKL and OpenBLAS reach on a Zen 5 core with 64x64x64
//                      to 1536x1536x1536. Reasons seen there: a side of at most 8 (up to 18 times slower an operation), an inner dimension
//                      of 2 to 8 (8 times); none were transposed operands, leading dimensions (10 %) or sizes (40 %)

#include "analyzer/findings/rules.h"
#include "analyzer/model/gemm_shape.h"
#include "analyzer/peaks/peaks.h"
#include "analyzer/steps/measured_steps.h"
#include "analyzer/work/generation.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kSlowProductsPercent = 5;
constexpr int64_t kFewRows = 16;
constexpr double kSlowProductsLeastCalls = 8;  // of the same product, per step
constexpr double kSlowPart = 0.5;              // of the best rate
constexpr double kBestCallNs = 20'000;         // shorter calls measure mostly the clock and the call's overhead
constexpr double kSlowForItsKind = 0.1;        // of the rate of a like one
constexpr double kSlowForItsKindPercent = 10;
constexpr double kLongCallOfKindNs = 200'000;  // shorter ones are soon disturbed
constexpr double kLikeFlops = 16;              // times as many, or as few
constexpr int64_t kLeastBatch = 64;            // of small products in one call
constexpr double kLeastCopies = 0.1;           // of the time of such products beside them: what is broadcast is copied
constexpr int64_t kVeryFewRows = 4;
constexpr double kRequestPercent = 50;
constexpr double kRequestsTogether = 8;
constexpr double kMostBetween = 0.1;  // of a request, until the next one
constexpr double kFar = 0.25;         // of the bound
constexpr double kReached = 0.5;      // of the bound, by ordinary products
constexpr double kQuietPercent = 3;   // of a step: waiting for a processor

// What a program computes with XLA is compiled as a whole: neither its calls nor its sizes are the program's own.
bool IsJudged(const WorkItem& item) {
  if (item.op != nullptr && item.op->family == kJaxTap.family) return false;
  if (!item.IsHostCompute() || item.op->is_asynchronous || !IsMatrixProduct(*item.op)) return false;
  return item.op->flops && item.calls > 0 && item.ns > 0;
}

double RateOf(const WorkItem& item) { return static_cast<double>(*item.op->flops) * item.calls / item.ns; }

bool IsRecurrent(const StepFacts& facts, const WorkItem& item) {
  return absl::c_any_of(item.group->layers, [&](LayerIndex index) {
    const std::string type = absl::AsciiStrToLower(facts.attribution().layers[index].type);
    return absl::StrContains(type, "rnn") || absl::StrContains(type, "lstm") || absl::StrContains(type, "gru");
  });
}

// Rows of the operand that differs between the calls; 0: not known, or many.
int64_t FewRows(const Op& op) {
  const std::optional<MatmulShape> shape = MatmulShapeOf(op);
  const int64_t rows = shape ? std::min(shape->m, shape->n) : 0;
  return rows <= kFewRows ? rows : 0;
}

using Best = std::map<std::string, double>;  // by types, FLOPs per ns

// No side of it is short.
bool IsOrdinary(const Op& op) {
  const std::optional<MatmulShape> shape = MatmulShapeOf(op);
  return shape && std::min({shape->m, shape->n, shape->k}) > kFewRows && shape->batch < kLeastBatch;
}

bool IsOneByOne(const StepFacts& facts, const WorkItem& item, const Best& best) {
  if (!IsJudged(item) || item.calls < kSlowProductsLeastCalls || !facts.IsAtLeast(item.ns, kSlowProductsPercent))
    return false;
  const auto rate = best.find(item.op->types);
  if (FewRows(*item.op) == 0 || rate == best.end()) return false;
  return RateOf(item) < kSlowPart * rate->second && !IsRecurrent(facts, item);
}

Finding OneByOne(const StepFacts& facts, const WorkItem& item, double best_rate) {
  const int64_t rows = FewRows(*item.op);
  const double rate = RateOf(item);
  return {
      .where = item.group->label,
      .line = facts.LineOf(item),
      .sentence = absl::StrFormat(
          "%.0f equal products of %d %s each (%s) run at %.3g GFLOP/s, others of the run at up to %.3g: %s.",
          item.calls, rows, rows == 1 ? "row" : "rows", item.op->problem, rate, best_rate, facts.PartOfStep(item.ns)),
      .gain_ns = item.ns * (1 - rate / best_rate),
      .basis = GainBasis::kComputed,
      .confidence = Confidence::kLow,
      .evidence = "table gemm, column rate: all of its FLOPs at the best rate of the run",
      .advice =
          "If they are independent, compute them as one: all rows in one call, or torch.bmm if each has a matrix of "
          "its own."};
}

// Many small ones in a call.
bool IsBatchOfSmall(const WorkItem& item, const Best& best) {
  const std::optional<MatmulShape> shape = IsJudged(item) ? MatmulShapeOf(*item.op) : std::nullopt;
  if (!shape || shape->batch < kLeastBatch || std::min({shape->m, shape->n, shape->k}) > kFewRows) return false;
  const auto rate = best.find(item.op->types);
  return rate != best.end() && RateOf(item) < kSlowPart * rate->second;
}

// All of them, with the copies that their layers make for them in the same pass.
std::vector<Finding> BatchesOfSmall(const StepFacts& facts, const Best& best, std::vector<const WorkItem*>& claimed) {
  using Pass = std::pair<GroupIndex, LayerDirection>;
  std::map<Pass, double> passes;  // and the time of such products
  double ns = 0, gain_ns = 0;
  const WorkItem* longest = nullptr;
  for (const WorkItem& item : facts.items()) {
    if (!IsBatchOfSmall(item, best)) continue;
    if (longest == nullptr) longest = &item;  // the longest comes first
    ns += item.ns;
    gain_ns += item.ns * (1 - RateOf(item) / best.at(item.op->types));
    passes[{item.doing.group, item.doing.direction}] += item.ns;
    claimed.push_back(&item);
  }
  std::map<Pass, double> copies;  // of such passes, those that copy
  for (const WorkItem& item : facts.items()) {
    const Pass pass = {item.doing.group, item.doing.direction};
    if (item.scope != nullptr && item.scope->op == "copy_" && passes.contains(pass)) copies[pass] += item.ns;
  }
  double copies_ns = 0, beside_ns = 0;
  for (const auto& [pass, copied_ns] : copies) {
    copies_ns += copied_ns;
    beside_ns += passes[pass];
  }
  // Without copies each member has matrices of its own, as in attention.
  if (!facts.IsAtLeast(ns + copies_ns, kSlowProductsPercent) || copies_ns < kLeastCopies * beside_ns || copies_ns == 0)
    return {};
  const int64_t batch = MatmulShapeOf(*longest->op)->batch;
  return {
      {.where = facts.LayersOf([&](const WorkItem& item) { return IsBatchOfSmall(item, best); }),
       .line = facts.LineOf(*longest),
       .sentence = absl::StrFormat(
           "Products are computed as a batch of %d small ones (%s) at %.3g GFLOP/s, others of the run at up to %.3g: "
           "%s%s.",
           batch, longest->op->problem, RateOf(*longest), best.at(longest->op->types), facts.PartOfStep(ns),
           copies_ns > 0 ? absl::StrCat(", and copies beside them ", HumanTime(copies_ns)) : ""),
       .gain_ns = gain_ns + copies_ns,
       .evidence =
           "table gemm, columns problem and rate: all of their FLOPs at the best rate of the run, without the copies",
       .advice = "If the members share a matrix (broadcasting: A @ x with an A of fewer dimensions copies A for each "
                 "member), compute one product of all rows: x @ A.T, torch.einsum, nn.Linear."}};
}

double UndisturbedRate(const StepFacts& facts, const WorkItem& item) {
  return static_cast<double>(*item.op->flops) / std::max(facts.UndisturbedNs({item.doing.what}), 1.0);
}

// The fastest like one, of the same types and at most kLikeFlops times as large or small; null: it is not slow for its kind.
const WorkItem* FasterLikeOne(const StepFacts& facts, const WorkItem& item) {
  if (!IsJudged(item) || !IsOrdinary(*item.op) || !facts.IsAtLeast(item.ns, kSlowForItsKindPercent)) return nullptr;
  if (item.ns / item.calls < kLongCallOfKindNs) return nullptr;
  const WorkItem* fastest = nullptr;
  for (const WorkItem& other : facts.items()) {
    if (!IsJudged(other) || !IsOrdinary(*other.op) || other.op->types != item.op->types) continue;
    const double times = static_cast<double>(*other.op->flops) / static_cast<double>(*item.op->flops);
    if (times > kLikeFlops || times < 1 / kLikeFlops || other.ns / other.calls < kBestCallNs) continue;
    if (fastest == nullptr || RateOf(other) > RateOf(*fastest)) fastest = &other;
  }
  if (fastest == nullptr || RateOf(item) >= kSlowForItsKind * RateOf(*fastest)) return nullptr;
  return UndisturbedRate(facts, item) < kSlowForItsKind * UndisturbedRate(facts, *fastest) ? fastest : nullptr;
}

Finding SlowForItsKind(const StepFacts& facts, const WorkItem& item, const WorkItem& faster) {
  const double rate = UndisturbedRate(facts, item), times = UndisturbedRate(facts, faster) / rate;
  return {
      .where = item.group->label,
      .line = facts.LineOf(item),
      .sentence = absl::StrFormat("%s (%s) runs at %.3g GFLOP/s, a similar one of the run (%s, %s) at %.3g: %.0f times "
                                  "slower, which its shape does not explain: %s.",
                                  item.op->kind, item.op->problem, rate, faster.group->label, faster.op->problem,
                                  times * rate, times, facts.PartOfStep(item.ns)),
      .gain_ns = item.ns * (1 - 2 / times),
      .evidence = "table gemm, column rate; the gain: as if at half of the other's rate",
      .advice =
          "Denormal values (below 1.2e-38) in a weight or input are the usual cause: torch.set_flush_denormal(True), "
          "or (w.abs() < 1.2e-38).sum() to see them; else NaN or infinity, or a thread that computes alone.",
      .changes_numerics = true};
}

bool IsUndisturbed(const StepFacts& facts) {
  const MachineLoad& load = facts.load();
  if (!load.is_known || !facts.HasSteps() || facts.IsAtLeast(load.waiting_ns, kQuietPercent)) return false;
  return load.runnable <= load.processors + 0.5;
}

// How many threads computed during the calls of an op, at least. Calls of several threads at a time, as in a parallel
// region, are computed by one each: their wall share is a part of their time. What threads do that make no calls is not
// recorded; where one thread makes all calls, they computed with it if they must have run beside it, unless the library
// was told to use one.
class CallThreads {
 public:
  explicit CallThreads(const StepFacts& facts) : thread_ns_(facts.model().ops.size()), wall_ns_(thread_ns_.size()) {
    const CallColumns& calls = facts.model().calls;
    for (CallIndex call = 0; call < calls.size(); ++call) {
      if (facts.StepOfCall(call) == kNone) continue;
      const auto ns = static_cast<double>(calls.duration_ns[call]) / facts.count();
      thread_ns_[calls.op[call]] += ns;
      if (calls.parent[call] != kNone) thread_ns_[calls.op[calls.parent[call]]] -= ns;
    }
    for (const WorkItem& item : facts.items()) {
      if (item.IsCall()) wall_ns_[item.doing.what] += item.ns;
    }
    if (!facts.FirstThreadsWorkAlone() || IsToldOne(facts)) return;
    library_ = 1 + facts.ThreadsBeside(facts.Sum([](const WorkItem& item) { return item.IsHostCompute(); }));
  }

  double Of(const WorkItem& item) const {
    const double wall_ns = wall_ns_[item.doing.what];
    return wall_ns > 0 ? std::max(library_, thread_ns_[item.doing.what] / wall_ns) : library_;
  }

 private:
  static bool IsToldOne(const StepFacts& facts) {
    return facts.Setting("OMP_NUM_THREADS") == "1" || facts.Setting("OPENBLAS_NUM_THREADS") == "1" ||
           facts.Setting("MKL_NUM_THREADS") == "1";
  }

  std::vector<double> thread_ns_, wall_ns_;  // by op, in a step
  double library_ = 1;                       // threads of a library's call that one thread makes
};

// From the end of a step to the start of the next one.
double MedianBetweenNs(const StepFacts& facts) {
  std::vector<int64_t> between_ns;
  for (const StepTrack& track : facts.steps().tracks) {
    for (size_t i = 1; i < track.steps.size(); ++i)
      between_ns.push_back(track.steps[i].start_ns - track.steps[i - 1].end_ns);
  }
  return between_ns.empty() ? INFINITY : static_cast<double>(QuartilesOf(std::move(between_ns)).median);
}

std::vector<Finding> SmallRequests(const StepFacts& facts, const std::vector<const WorkItem*>& claimed) {
  // The short side of a product may also be that of few outputs.
  if (!facts.HasSteps() || facts.steps().kind != StepKind::kInference || facts.steps().batch > kVeryFewRows) return {};
  if (MedianBetweenNs(facts) > kMostBetween * facts.step_ns()) return {};
  double ns = 0, bytes = 0;
  const WorkItem* longest = nullptr;
  for (const WorkItem& item : facts.items()) {
    const int64_t rows = IsJudged(item) && !IsRecurrent(facts, item) ? FewRows(*item.op) : 0;
    if (rows == 0 || rows > kVeryFewRows || absl::c_linear_search(claimed, &item)) continue;
    if (longest == nullptr) longest = &item;  // the longest comes first
    ns += item.ns;
    bytes += item.calls * static_cast<double>(item.op->bytes.value_or(0));
  }
  if (!facts.IsAtLeast(ns, kRequestPercent)) return {};
  const int64_t rows = FewRows(*longest->op);
  return {{.where = longest->group->label,
           .line = facts.LineOf(*longest),
           .sentence = absl::StrFormat("Requests of %d %s follow one another, and each reads all weights of its "
                                       "products (%s, ...: %s) for so few: %s.",
                                       rows, rows == 1 ? "row" : "rows", longest->op->problem,
                                       HumanCell(static_cast<int64_t>(bytes), "bytes"), facts.PartOfStep(ns)),
           .gain_ns = ns * (1 - 1 / kRequestsTogether),
           .confidence = Confidence::kLow,
           .evidence = "table gemm, columns problem and rate; the gain: as if 8 requests took as long as one",
           .advice = FindGeneration(facts)
                         ? "Generate for several prompts at once: each token then reads the weights once for all."
                         : "If several inputs are there, compute them as one batch."}};
}

enum class Reason { kFewRows, kShortInner, kMany, kNone };

Reason ReasonOf(const WorkItem& item) {
  const std::optional<MatmulShape> shape = MatmulShapeOf(*item.op);
  if (shape && std::min(shape->m, shape->n) <= kFewRows) return Reason::kFewRows;
  if (shape && shape->k <= kFewRows) return Reason::kShortInner;
  return item.calls >= kSlowProductsLeastCalls ? Reason::kMany : Reason::kNone;
}

const char* AdviceFor(Reason reason) {
  switch (reason) {
    case Reason::kFewRows:
      return "One side is at most 16: give the product more rows at once (a larger batch, several in one), swap the "
             "operands ((B.T @ A.T).T), or pad that side to 16, which was faster than 2 to 8 in trials.";
    case Reason::kShortInner:
      return "The inner dimension is at most 16: join products with the same output into one, or pad it with zeros to "
             "16, which was faster than 2 to 8 in trials.";
    case Reason::kMany:
      return "Many small ones: compute them as one, by torch.bmm if each has its own matrix.";
    case Reason::kNone:
      return "Its shape does not explain it: try the library that dlhook calibrate found fastest (dlhook calibrate "
             "--show).";
  }
  return "";
}

struct Slow {
  const WorkItem* largest = nullptr;
  double ns = 0;
  double bound_ns = 0;
  double gain_ns = 0;
};

std::vector<Finding> FarFromBound(const StepFacts& facts, const std::vector<const WorkItem*>& claimed) {
  const Peaks* peaks = facts.options().peaks;
  if (peaks == nullptr || !IsUndisturbed(facts) || !FindNarrowVectors(facts).empty()) return {};
  const CallThreads threads(facts);
  std::map<Reason, Slow> by_reason;
  const auto gain_of = [&](const WorkItem& item, double* bound_ns) {
    if (!IsJudged(item) || absl::c_linear_search(claimed, &item)) return 0.0;
    if (IsRecurrent(facts, item)) return 0.0;
    const auto flops = static_cast<double>(*item.op->flops), bytes = static_cast<double>(item.op->bytes.value_or(0));
    const std::optional<Bound> bound = peaks->MeasuredBound(PeakTypeOf(*item.op), flops, bytes, threads.Of(item));
    if (!bound) return 0.0;
    *bound_ns = bound->ns * item.calls;
    return *bound_ns < kFar * item.ns ? item.ns - *bound_ns / kReached : 0.0;
  };
  double bound_ns = 0;
  for (const WorkItem& item : facts.items()) {
    const double gain_ns = gain_of(item, &bound_ns);
    if (gain_ns <= 0) continue;
    Slow& slow = by_reason[ReasonOf(item)];
    if (slow.largest == nullptr) slow.largest = &item;  // the longest comes first
    slow.ns += item.ns;
    slow.bound_ns += bound_ns;
    slow.gain_ns += gain_ns;
  }
  std::vector<Finding> findings;
  for (const auto& [reason, slow] : by_reason) {
    if (!facts.IsAtLeast(slow.ns, kSlowProductsPercent)) continue;
    findings.push_back(
        {.where = facts.LayersOf([&, reason = reason](const WorkItem& item) {
           return gain_of(item, &bound_ns) > 0 && ReasonOf(item) == reason;
         }),
         .line = facts.LineOf(*slow.largest),
         .sentence = absl::StrFormat("Products (%s%s) take %s; this machine's peaks allow them in %s.",
                                     slow.largest->op->problem, slow.ns > slow.largest->ns ? " and others" : "",
                                     facts.PartOfStep(slow.ns), HumanTime(slow.bound_ns)),
         .gain_ns = slow.gain_ns,
         .basis = GainBasis::kComputed,
         .confidence = Confidence::kLow,
         .evidence = "table gemm, columns bound and bound_percent; the gain: as if at half of the bound, which "
                     "ordinary products reach",
         .advice = AdviceFor(reason)});
  }
  return findings;
}

}  // namespace

bool IsSlowForItsKind(const StepFacts& facts, const WorkItem& item) { return FasterLikeOne(facts, item) != nullptr; }

double CallsOfOneRow(const StepFacts& facts) {
  double most = 0, of_one_row = 0, all = 0;
  for (const WorkItem& item : facts.items()) {
    if (item.doing.direction != LayerDirection::kForward || !IsJudged(item)) continue;
    const std::vector<LayerIndex>& layers = item.group->layers;
    if (layers.empty() || facts.attribution().layers[layers.front()].module.empty()) continue;  // not a model's
    all += item.calls;
    if (FewRows(*item.op) != 1 || IsRecurrent(facts, item)) continue;
    of_one_row += item.calls;
    most = std::max(most, item.calls);
  }
  return 2 * of_one_row > all ? most : 0;  // the short side of a product may also be that of one output
}

std::vector<Finding> FindSlowProducts(const StepFacts& facts) {
  Best best;
  for (const WorkItem& item : facts.items()) {
    if (!IsJudged(item) || item.ns / item.calls < kBestCallNs) continue;
    best[item.op->types] = std::max(best[item.op->types], RateOf(item));
  }
  std::vector<const WorkItem*> claimed;
  std::vector<Finding> findings = BatchesOfSmall(facts, best, claimed);
  for (const WorkItem& item : facts.items()) {
    if (!IsOneByOne(facts, item, best)) continue;
    findings.push_back(OneByOne(facts, item, best[item.op->types]));
    claimed.push_back(&item);
  }
  for (const WorkItem& item : facts.items()) {
    const WorkItem* const faster = FasterLikeOne(facts, item);
    if (faster == nullptr) continue;
    findings.push_back(SlowForItsKind(facts, item, *faster));
    claimed.push_back(&item);
  }
  Append(SmallRequests(facts, claimed), findings);
  Append(FarFromBound(facts, claimed), findings);
  return findings;
}

}  // namespace dlhook::analyzer::findings
