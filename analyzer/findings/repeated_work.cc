// Rule repeated-work: a step computes again what has not changed since, or what nothing reads.
//
//   parametrized weights  (torch.nn.utils.parametrize, weight_norm) parameters do not change within a step: all computations but one
//                         are for nothing, in inference all
//   from numbers          tensors that are made from nothing but numbers (full, triu, arange …) are the same in each step
//   prefixes              a model without a key/value cache: the rows of products with a weight grow by the same small number
//   unread rows           a part, or the diagonal, is taken behind the last product of the forward pass, and no operation up to the
//                         next pass (in training: nor all up to the backward pass) takes long enough to have read all of it
//   encoder again         it runs in each pass of a decoder of single tokens, whose rows are the batch, or whose attention has one query;
//                         whether its input is the same is not recorded: sentence and advice say so
//   frozen layers         compute forward and never backward: whether the same inputs come again is not recorded, so information
//   adapters              of low rank (LoRA): with a weight beside them a product with another weight, their sum

#include "analyzer/findings/rules.h"
#include "analyzer/table/typed_columns.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kRepeatedPercent = 5;
constexpr double kFrozenPercent = 30;
constexpr double kLeastTimes = 1.5;  // in a step
constexpr int64_t kLeastPasses = 8;
constexpr double kEncoderPercent = 10;
constexpr int64_t kMoreRows = 4;     // of an encoder's products than of its decoder's
constexpr double kFewestTokens = 3;  // of a text; a recurrent cell has two products
constexpr int64_t kSmallGrowth = 2;  // a pass has at least twice the rows by which it grows
constexpr double kMostReadRate =
    25;  // bytes per ns: an operation in one thread, of a result that is no longer in its cache
constexpr double kLeastUnreadBytes = 1 << 20;
constexpr int64_t kMadeOfTaken = 2;  // at least half of its bytes
constexpr std::array<absl::string_view, 7> kMadeFromNumbers = {"full",     "ones",         "eye",         "arange",
                                                               "linspace", "triu_indices", "tril_indices"};

enum class Maker : uint8_t {
  kNone,
  kFromNumbers,
  kZeros,  // alone they may be a state
  kOfThat  // of the tensor that the op before made
};

Maker MakerOf(const std::string& op) {
  if (op == "triu" || op == "tril") return Maker::kOfThat;
  if (op == "zeros") return Maker::kZeros;
  const bool is_one = absl::c_linear_search(kMadeFromNumbers, op);
  return is_one ? Maker::kFromNumbers : Maker::kNone;
}

bool IsOfParametrization(const WorkItem& item) {
  if (item.scope != nullptr && absl::StartsWith(item.scope->op, "_weight_norm")) return true;
  return absl::StrContains(item.group->label, "parametrizations.");
}

std::vector<Finding> FindParametrizations(const StepFacts& facts) {
  // How often a step computes each: as most of its operations are called in the forward pass. One computation may call
  // some of them several times, and others are not of each.
  struct Times {
    double ns = 0, times = 0;
    std::map<double, int> operations;  // by their calls
  };
  std::map<std::string, Times> by_layer;
  for (const WorkItem& item : facts.items()) {
    if (!IsOfParametrization(item)) continue;
    Times& times = by_layer[item.group->label];
    times.ns += item.ns;
    if (item.scope == nullptr || item.doing.direction != LayerDirection::kForward || item.begun == 0) continue;
    ++times.operations[std::round(item.begun)];
  }
  for (auto& [layer, times] : by_layer) {
    const auto most = MostOf(times.operations);
    times.times = most == times.operations.end() ? 0 : most->first;
  }
  // In inference parameters do not change from step to step.
  const bool is_inference = facts.steps().kind == StepKind::kInference;
  const double least = is_inference ? 1 - 1e-9 : kLeastTimes;
  double ns = 0, gain_ns = 0, most = 0;
  for (const auto& [layer, times] : by_layer) {
    if (times.times < least) continue;
    ns += times.ns;
    gain_ns += times.ns * (is_inference ? 1 : 1 - 1 / times.times);
    most = std::max(most, times.times);
  }
  if (!facts.IsAtLeast(gain_ns, kRepeatedPercent)) return {};
  const auto is_in = [&](const WorkItem& item) {
    return IsOfParametrization(item) && by_layer[item.group->label].times >= least;
  };
  return {
      {.where = facts.LayersOf(is_in),
       .line = facts.LineOfLongest(is_in),
       .sentence =
           absl::StrFormat("A parametrized weight is computed %.0f %s in a %s, each time from the same parameters: %s.",
                           most, most < 1.5 ? "time" : "times", facts.StepNoun(), facts.PartOfStep(ns)),
       .gain_ns = gain_ns,
       .basis = GainBasis::kComputed,
       .evidence = "table work, the layers of parametrizations; the gain: all but one time",
       .advice = is_inference
                     ? "Compute it once, before the first request: "
                       "torch.nn.utils.parametrize.remove_parametrizations(module, \"weight\"), remove_weight_norm, "
                       "remove_spectral_norm."
                     : "Compute it once in a step: run the forward pass in `with "
                       "torch.nn.utils.parametrize.cached():`, or read the weight into a variable before the loop."}};
}

std::vector<Finding> FindMadeFromNumbers(const StepFacts& facts) {
  const ScopeColumns& scopes = facts.model().scopes;
  std::vector<Maker> makers;  // by name
  for (const ScopeName& name : facts.scope_names()) makers.push_back(MakerOf(name.op));
  std::map<StackIndex, double> by_stack;  // nanoseconds of all steps
  std::map<std::string, double> by_op;
  double all_ns = 0;
  bool is_made = false;  // by the op before
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    if (!facts.IsOutermostOp(scope)) continue;
    const NameIndex name = scopes.look[scope].name;
    const Maker maker = makers[name];
    is_made = maker == Maker::kOfThat ? is_made : maker != Maker::kNone;
    if (!is_made || maker == Maker::kZeros || facts.StepOfScope(scope) == kNone) continue;
    const auto ns = static_cast<double>(scopes.duration_ns[scope]);
    by_op[facts.scope_names()[name].op] += ns;
    by_stack[scopes.look[scope].stack] += ns;
    all_ns += ns;
  }
  if (!facts.IsAtLeast(all_ns / facts.count(), kRepeatedPercent)) return {};
  std::vector<std::string> ops;
  for (const auto& [op, ns] : LargestFirst(by_op)) {
    if (ops.size() < 3) ops.push_back(absl::StrCat("aten::", op));
  }
  const auto is_in = [&](const WorkItem& item) { return item.scope != nullptr && by_op.contains(item.scope->op); };
  const double gain_ns = std::min(all_ns / facts.count(), facts.step_ns());
  return {
      {.where = facts.LayersOf(is_in),
       .line = facts.LineOfStack(MostOf(by_stack)->first),
       .sentence = absl::StrFormat("%s make tensors from nothing but numbers, again in each %s (masks, positions): %s.",
                                   absl::StrJoin(ops, ", "), facts.StepNoun(), facts.PartOfStep(gain_ns)),
       .gain_ns = gain_ns,
       .evidence = "table ops and work: these operations read no tensor but those that they made",
       .advice = "Make them once (register_buffer, or a cache by size) and only as large as the step uses; for a "
                 "causal mask scaled_dot_product_attention(..., is_causal=True) needs none."}};
}

// The rows of products with a weight, from one pass to the next.
struct Rows {
  int64_t last = 0, step = 0;  // grows by
  int64_t passes = 0;          // in which it grew by the same as before
  int64_t all_passes = 0, first = 0, most = 0;
  double rows = 0;  // of those passes

  void Add(int64_t now) {
    ++all_passes;
    const int64_t grown = now - last;
    if (last > 0 && grown > 0 && kSmallGrowth * grown <= last && (step == 0 || grown == step)) {
      step = grown;
      first = passes == 0 ? last : first;
      most = std::max(most, now);
      ++passes;
      rows += static_cast<double>(now);
    }
    last = now;
  }
};

std::vector<Finding> FindPrefixes(const StepFacts& facts) {
  if (facts.steps().kind != StepKind::kInference) return {};
  const TraceModel& model = facts.model();
  // By layer and the sizes that stay.
  std::map<std::tuple<LayerIndex, int64_t, int64_t>, Rows> by_weight;
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    const Op& op = model.ops[model.calls.op[call]];
    const LayerIndex layer = facts.attribution().of_call[call].layer;
    const std::optional<MatmulShape> shape = op.on_gpu || layer == kNone ? std::nullopt : MatmulShapeOf(op);
    if (!shape || shape->batch > 1 || model.calls.parent[call] != kNone) continue;
    const bool is_column = shape->order == "col";
    by_weight[{layer, is_column ? shape->m : shape->n, shape->k}].Add(RowsOf(*shape));
  }
  const auto most = MostOf(by_weight, [](const auto& of) { return of.passes; });
  if (most == by_weight.end()) return {};
  const Rows& rows = most->second;
  if (rows.passes < kLeastPasses || 2 * rows.passes < rows.all_passes) return {};
  const LayerIndex layer = std::get<0>(most->first);
  const double new_part = static_cast<double>(rows.step * rows.passes) / rows.rows;
  return {
      {.where = "generation",
       .line = facts.attribution().layers[layer].line,
       .sentence = absl::StrFormat(
           "Each pass has %d %s more than the one before: the products of %s have %d to %d rows, growing by %d in %d "
           "of %d passes, as a model that generates without a key/value cache does.",
           rows.step, rows.step == 1 ? "row" : "rows", facts.attribution().NameOf(layer), rows.first, rows.most,
           rows.step, rows.passes, rows.all_passes),
       .gain_ns = facts.step_ns() * (1 - new_part),
       .evidence = "table gemm: rows of products with the same weight; the gain: as if only the new rows were computed",
       .advice = "Keep keys and values of earlier tokens: use_cache=True, past_key_values; then a pass computes the "
                 "new token alone."}};
}

// What takes a part of a tensor, or of a product what lies on its diagonal.
constexpr std::array<absl::string_view, 3> kTakes = {"select", "slice", "index"};
constexpr std::array<absl::string_view, 3> kTakesDiagonal = {"diagonal", "diag", "trace"};

// A product of the forward pass and the operations behind it, up to the next product.
struct LastProduct {
  ScopeIndex scope = kNone;  // the outermost operation
  const Op* op = nullptr;
  bool is_computed_with = false;
  bool is_taken = false;     // a part of the result, before anything is computed with it
  bool is_diagonal = false;  // that part
  int64_t taken_bytes = 0;   // copied by `index`; 0: a view, or not known
  double read_ns = 0;        // in which these operations may have read the result

  int64_t Rows() const { return RowsOf(*MatmulShapeOf(*op)); }
  double ResultBytes() const {
    const MatmulShape shape = *MatmulShapeOf(*op);
    return (absl::StartsWith(op->types, "f32") ? 4 : 2) * static_cast<double>(shape.m) * static_cast<double>(shape.n);
  }
};

// In training the loss may read a half by each of several operations: all of them count, not the longest. Not those that make about
// as much as was copied: they read that.
std::vector<Finding> FindUnreadRows(const StepFacts& facts) {
  const bool trains = facts.steps().kind == StepKind::kTraining;
  if (!trains && facts.steps().kind != StepKind::kInference) return {};
  const ScopeColumns& scopes = facts.model().scopes;
  const std::map<ScopeIndex, const Op*> products = ProductsOfOperations(facts);
  std::map<ScopeIndex, int64_t> made;
  for (const MadeTensor& tensor : TensorsMade(facts)) made[tensor.scope] = tensor.bytes;
  const auto made_by = [&](ScopeIndex scope) {
    const auto found = made.find(scope);
    return found == made.end() ? 0 : found->second;
  };
  LastProduct last, longest;
  std::map<const Op*, std::vector<LastProduct>> passes;  // by product
  const auto end_pass = [&](size_t next_step) {
    const size_t step = last.is_taken ? facts.StepOfScope(last.scope) : kNone;
    if (step != kNone && step != next_step) passes[last.op].push_back(last);
  };
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    if (!facts.IsOutermostOp(scope)) continue;
    if (trains && IsInBackward(facts.model(), scope)) {
      end_pass(kNone);
      last = {};
      continue;
    }
    const ScopeName& name = facts.scope_names()[scopes.look[scope].name];
    const auto product = products.find(scope);
    const size_t step = product == products.end() ? kNone : facts.StepOfScope(scope);
    const auto own_ns = static_cast<double>(scopes.duration_ns[scope]);
    const int64_t bytes = made_by(scope);
    if (last.op != nullptr && name.op == "index" && !last.is_computed_with) last.taken_bytes = bytes;
    const bool reads_taken =
        last.taken_bytes > 0 && bytes <= last.taken_bytes && kMadeOfTaken * bytes >= last.taken_bytes;
    // One of the next pass is not behind this one.
    if (step == kNone && !reads_taken) last.read_ns = trains ? last.read_ns + own_ns : std::max(last.read_ns, own_ns);
    if (product != products.end()) {
      end_pass(step);
      last = {.scope = scope, .op = product->second};
      continue;
    }
    const bool is_diagonal = absl::c_linear_search(kTakesDiagonal, name.op);
    if (last.op != nullptr && !last.is_computed_with && (is_diagonal || absl::c_linear_search(kTakes, name.op))) {
      last.is_diagonal = is_diagonal && !last.is_taken;
      last.is_taken = true;
    }
    last.is_computed_with |= !name.is_view && !name.is_bookkeeping;
  }
  end_pass(kNone);
  double ns = 0;
  for (auto& [op, taken] : passes) {
    // Other programs make some longer, none shorter.
    const auto undisturbed = taken.begin() + std::ssize(taken) / 4;
    std::ranges::nth_element(taken, undisturbed, {}, &LastProduct::read_ns);
    const double read_bytes = undisturbed->read_ns * kMostReadRate * std::max(facts.processors(), 1u);
    if (taken.front().ResultBytes() < std::max(kLeastUnreadBytes, read_bytes)) continue;
    for (const LastProduct& one : taken) ns += static_cast<double>(scopes.duration_ns[one.scope]) / facts.count();
    if (longest.op == nullptr || taken.front().ResultBytes() > longest.ResultBytes()) longest = taken.front();
  }
  if (longest.op == nullptr) return {};
  const LayerIndex layer = facts.attribution().of_scope[longest.scope].layer;
  const std::string where = layer == kNone ? "" : facts.attribution().NameOf(layer);
  if (trains && layer != kNone) {
    ns = std::max(ns, facts.Sum([&](const WorkItem& item) {
      return item.IsHostCompute() && item.group->layers == std::vector<LayerIndex>{layer};
    }));
  }
  if (!facts.IsAtLeast(ns, kRepeatedPercent)) return {};
  const double gain_ns = std::min(ns, facts.step_ns());
  const std::string whose = where.empty() ? "The last product" : where;
  return {
      {.where = where,
       .line = facts.LineOfStack(scopes.look[longest.scope].stack),
       .sentence = longest.is_diagonal
                       ? absl::StrFormat("%s computes a matrix of %d rows, then its diagonal is taken, and what "
                                         "follows does not take long enough to read the rest: %s.",
                                         whose, longest.Rows(), facts.PartOfStep(gain_ns))
                       : absl::StrFormat(
                             "%s computes all %d rows of its product, then a part of them is taken, and %s "
                             "up to the %s long enough to read the others: %s.",
                             whose, longest.Rows(), trains ? "what follows" : "no operation",
                             trains ? "backward pass does not take" : absl::StrCat("next ", facts.StepNoun(), " takes"),
                             facts.PartOfStep(gain_ns)),
       .gain_ns = gain_ns,
       .evidence = "table gemm and scopes: what takes a part behind the last product, and what follows",
       .advice = longest.is_diagonal
                     ? "Its elements alone: (a * b).sum(-1) for the diagonal of a @ b.T, (a.T * b).sum() for the trace "
                       "of a @ b (torch.einsum(\"ij,ij->i\", a, b))."
                     : "Take the part before the product: for the next token lm_head(h[:, -1:]) in place of "
                       "lm_head(h)[:, -1] (transformers: logits_to_keep=1), for masked words head(h[mask])."}};
}

enum class Side : uint8_t { kNone, kEncoder, kDecoder };

// By the outermost module that says it: "model.decoder.layers.0.encoder_attn" is the decoder's.
Side SideOf(const std::string& layer) {
  const std::string name = absl::AsciiStrToLower(layer);
  const size_t encoder = name.find("encoder"), decoder = name.find("decoder");
  if (encoder == decoder) return Side::kNone;
  return encoder < decoder ? Side::kEncoder : Side::kDecoder;
}

// Whether the decoder's products with weights, of so many rows, have one token of each text.
bool HasOneToken(const StepFacts& facts, int64_t rows) {
  const ComparedSteps& steps = facts.steps();
  if (rows == 1 || (rows == steps.batch && !steps.batch_is_rows)) return true;
  return absl::c_any_of(facts.items(), [&](const WorkItem& item) {  // the heads of each text, one query
    const std::optional<MatmulShape> shape = item.IsHostCompute() ? MatmulShapeOf(*item.op) : std::nullopt;
    return shape && shape->batch > 1 && shape->batch % rows == 0 && RowsOf(*shape) == 1 &&
           SideOf(item.group->label) == Side::kDecoder;
  });
}

std::vector<Finding> FindEncoderAgain(const StepFacts& facts) {
  if (facts.steps().kind != StepKind::kInference) return {};
  // Rows and calls in a step of products with weights, as most layers have them.
  std::map<Side, std::map<std::pair<int64_t, double>, double>> layers;
  for (const WorkItem& item : facts.items()) {
    const std::optional<MatmulShape> shape = item.IsHostCompute() ? MatmulShapeOf(*item.op) : std::nullopt;
    if (!shape || shape->batch > 1 || absl::StrContains(item.group->label, ':')) continue;
    const auto alike = static_cast<double>(item.group->layers.size());
    layers[SideOf(item.group->label)][{RowsOf(*shape), std::round(item.calls / alike)}] += alike;
  }
  const auto most = [&](Side side) {
    const auto found = MostOf(layers[side]);
    return found == layers[side].end() ? std::pair<int64_t, double>() : found->first;
  };
  const auto [rows, passes] = most(Side::kEncoder);
  const auto [tokens, decoded] = most(Side::kDecoder);
  if (tokens == 0 || rows / kMoreRows < tokens || passes == 0 || decoded > kFewestTokens * passes) return {};
  if (!HasOneToken(facts, tokens)) return {};
  const auto is_in = [](const WorkItem& item) { return SideOf(item.group->label) == Side::kEncoder; };
  const double ns = facts.Sum(is_in);
  if (!facts.IsAtLeast(ns, kEncoderPercent)) return {};
  return {
      {.where = facts.LayersOf(is_in),
       .line = facts.LineOfLongest(is_in),
       .sentence = absl::StrFormat("The encoder runs in each pass of the decoder, on %d rows beside %d: %s. If the "
                                   "passes make the tokens of one text, it computes the same each time.",
                                   rows, tokens, facts.PartOfStep(ns)),
       .gain_ns = ns,
       .evidence = "table layers: forward passes; table gemm: rows. Whether passes have the same input is not recorded",
       .advice = "Where one text's tokens are generated, run the encoder once, before the loop, and give its result to "
                 "each pass (transformers: encoder_outputs=, or generate())."}};
}

// Adapters of low rank that are not merged into the weights beside which they lie.
std::vector<Finding> FindAdapters(const StepFacts& facts) {
  if (facts.steps().kind != StepKind::kInference) return {};
  std::set<std::string> around;  // modules
  for (const WorkItem& item : facts.items()) {
    const size_t end = item.group->label.find(".lora_");
    if (end != std::string::npos) around.insert(item.group->label.substr(0, end));
  }
  // With what adds their results, and Python's part; but for the weight itself.
  const auto is_in = [&](const WorkItem& item) {
    const std::string& label = item.group->label;
    return around.contains(label.substr(0, std::min(label.find(".lora_"), label.find(':'))));
  };
  const double ns = facts.Sum(is_in);
  if (!facts.IsAtLeast(ns, kRepeatedPercent)) return {};
  return {{.where = facts.LayersOf(is_in),
           .line = facts.LineOfLongest(is_in),
           .sentence =
               absl::StrFormat("Adapters (LoRA) are computed beside the weights that they change, in %d layers: %s.",
                               around.size(), facts.PartOfStep(ns)),
           .gain_ns = ns,
           .basis = GainBasis::kComputed,
           .evidence = "table layers: lora_A, lora_B",
           .advice = "In inference with one adapter, add it to the weights once: model.merge_and_unload() (peft); the "
                     "results are the same but for rounding.",
           .changes_numerics = true}};
}

std::vector<Finding> FindFrozenLayers(const StepFacts& facts) {
  if (facts.steps().kind != StepKind::kTraining) return {};
  std::set<const LayerGroup*> computing, trained;
  for (const WorkItem& item : facts.items()) {
    if (IsBackward(item.doing.direction)) trained.insert(item.group);
    const bool computes = item.IsHostCompute() && item.doing.direction == LayerDirection::kForward;
    if (computes && item.group->layers.size() == 1) computing.insert(item.group);
  }
  const auto is_in = [&](const WorkItem& item) {
    return computing.contains(item.group) && !trained.contains(item.group);
  };
  const double ns = facts.Sum(is_in);
  if (!facts.IsAtLeast(ns, kFrozenPercent) || trained.empty()) return {};
  return {{.where = facts.LayersOf(is_in),
           .line = facts.LineOfLongest(is_in),
           .sentence = absl::StrFormat("Layers compute forward and never backward in a %s: %s.", facts.StepNoun(),
                                       facts.PartOfStep(ns)),
           .gain_ns = ns,
           .evidence = "table layers: no backward pass",
           .advice = "If the same inputs come again, as in each epoch, compute their results once and keep them "
                     "(features of a frozen encoder, a teacher's outputs).",
           .is_information = true}};
}

}  // namespace

std::vector<Finding> FindRepeatedWork(const StepFacts& facts) {
  if (!facts.HasSteps() || facts.HasGpuTimes()) return {};
  std::vector<Finding> findings;
  for (auto* find : {FindParametrizations, FindMadeFromNumbers, FindPrefixes, FindUnreadRows, FindEncoderAgain,
                     FindFrozenLayers, FindAdapters})
    Append(find(facts), findings);
  return findings;
}

}  // namespace dlhook::analyzer::findings
