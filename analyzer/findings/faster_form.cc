// Rule faster-form: a step computes something in a form for which PyTorch has a faster one.
//
//   attention by parts     a product, elementwise operations, softmax, a product; or scaled_dot_product_attention that falls back
//                          to these (dropout on the CPU)
//   collectives            of Gloo: form_of_collectives.cc
//   norms by parts         a module for layer or RMS normalization, on a GPU, of three kernels or more; on the CPU a module of such
//                          a name that takes means, and deviations or roots, by operations of its own
//   dense gradients        an embedding's gradient is as large as its table, however few rows a batch reads
//   packed sequences       a recurrent network computes each time step by itself
//   equal modules          tensor_forms.cc
//   sizes of tensors       tensor_forms.cc
//   recomputation          checkpoints compute the forward pass again: information, as they save memory
//
// The gain is at most the time of these operations, on a GPU that of their kernels: how much the other form takes is not
// known. The last five and the gradients are judged on the CPU only.

#include "analyzer/findings/rules.h"
#include "analyzer/model/gemm_shape.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kPackedOps = 1000;  // of a step
constexpr size_t kFewestParts = 3;   // different kernels of a norm that is not fused

using Names = std::vector<absl::string_view>;

bool IsAmong(const std::string& name, const Names& names) { return absl::c_linear_search(names, name); }

bool IsOfType(const StepFacts& facts, const WorkItem& item, const Names& types) {
  const Layer* const layer = facts.OnlyLayerOf(item);
  return layer != nullptr && IsAmong(layer->type, types);
}

// Operations of one form.
struct Form {
  double ns = 0;  // of all steps
  double count = 0;
  ScopeIndex last = kNone;

  void Add(double duration_ns, ScopeIndex scope) {
    ns += duration_ns;
    ++count;
    last = scope;
  }
};

class Forms {
 public:
  explicit Forms(const StepFacts& facts) : facts_(facts), asked_(facts.model()) {
    for (const Op& op : facts.model().ops) result_bytes_.push_back(ResultBytes(op));
    for (const ScopeName& name : facts.scope_names()) parts_.push_back(PartOf(name));
    const ScopeColumns& scopes = facts.model().scopes;
    std::pair<ThreadIndex, size_t> at = {kNone, kNone};  // thread and step
    for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
      const Part part = parts_[scopes.look[scope].name];
      const bool is_outermost = facts.IsOutermostOp(scope);
      const bool counts = part == Part::kDense || part == Part::kPacked || part == Part::kMath ||
                          part == Part::kSoftmaxBackward || is_outermost;
      const size_t step = counts && facts.IsOp(scope) ? facts.StepOfScope(scope) : kNone;
      if (step == kNone) continue;
      const auto ns = static_cast<double>(TimeOf(scope));
      if (part == Part::kDense) dense.Add(ns, scope);
      if (part == Part::kPacked) packed.Add(ns, scope);
      if (part == Part::kMath) attention.Add(ns, scope);
      if (part == Part::kSoftmaxBackward) of_backward.Add(ns, scope);
      math += part == Part::kMath ? 1 : 0;
      const std::pair own = {scopes.thread[scope], step};
      if (std::exchange(at, own) != own) {
        stage_ = Stage::kNone;
        is_behind_attention_ = is_next_head_ = false;
      }
      if (is_outermost) Follow(scope, part, ns);
    }
  }

  Form attention, of_backward, dense, packed;
  double math = 0;         // of `attention`: scaled_dot_product_attention itself
  double score_bytes = 0;  // that attention by parts stores, of all steps; as far as known
  double heads = 0;        // of `attention`: those right behind another one, which count with their products

 private:
  enum class Stage : uint8_t { kNone, kProduct, kSoftmax };
  enum class Part : uint8_t { kOther, kDense, kPacked, kMath, kProduct, kSoftmax, kSoftmaxBackward, kBetween, kAside };

  static Part PartOf(const ScopeName& name) {
    const auto is = [&](const Names& names) { return IsAmong(name.op, names); };
    if (is({"embedding_dense_backward", "_embedding_bag_dense_backward"})) return Part::kDense;
    if (is({"_pack_padded_sequence"})) return Part::kPacked;
    if (is({"_scaled_dot_product_attention_math"})) return Part::kMath;
    if (is({"matmul", "bmm", "baddbmm", "einsum"})) return Part::kProduct;
    if (is({"softmax", "_softmax"})) return Part::kSoftmax;
    if (is({"_softmax_backward_data"})) return Part::kSoftmaxBackward;
    if (is({"div", "div_", "mul", "mul_", "add", "add_", "masked_fill", "masked_fill_", "where", "dropout", "dropout_",
            "type_as", "tril", "eq", "ne", "lt", "ones", "full"})) {
      return Part::kBetween;
    }
    return name.is_view || name.is_bookkeeping ? Part::kAside : Part::kOther;
  }

  int64_t TimeOf(ScopeIndex scope) const {
    const ScopeColumns& scopes = facts_.model().scopes;
    if (!facts_.HasGpuTimes()) return scopes.duration_ns[scope];
    return std::max<int64_t>(asked_.GpuNs(scopes.thread[scope], scopes.start_ns[scope], scopes.EndOf(scope)), 0);
  }

  // Of a call of the op; 0: it is no product, or of unknown shape.
  static double ResultBytes(const Op& op) {
    const std::optional<MatmulShape> shape = MatmulShapeOf(op);
    if (!shape || !op.bytes) return 0;
    const auto result = static_cast<double>(shape->m) * static_cast<double>(shape->n);
    const double operands = static_cast<double>(shape->k) * static_cast<double>(shape->m + shape->n);
    return static_cast<double>(*op.bytes) * result / (operands + result);
  }

  // Of the outermost products in the scope.
  double ResultBytes(ScopeIndex scope) const {
    const CallColumns& calls = facts_.model().calls;
    const ScopeColumns& scopes = facts_.model().scopes;
    const auto [begin, end] = calls.RangeOf(scopes.thread[scope]);
    const auto starts = calls.start_ns.begin();
    const auto first = std::lower_bound(starts + begin, starts + end, scopes.start_ns[scope]) - starts;
    double bytes = 0;
    for (auto call = static_cast<CallIndex>(first); call < end && calls.start_ns[call] < scopes.EndOf(scope); ++call) {
      const CallIndex around = calls.parent[call];
      if (around == kNone || result_bytes_[calls.op[around]] == 0) bytes += result_bytes_[calls.op[call]];
    }
    return bytes;
  }

  // Outermost ops in order: a product, others between, softmax, others, a product.
  void Follow(ScopeIndex scope, Part part, double ns) {
    switch (part) {
      case Part::kProduct:
        if (stage_ == Stage::kSoftmax) {
          attention.Add(between_ns_ + (is_next_head_ ? product_ns_ + ns : 0), scope);
          score_bytes += product_bytes_;
          heads += is_next_head_ ? 1 : 0;
        }
        is_next_head_ = stage_ == Stage::kProduct && is_behind_attention_;
        is_behind_attention_ = stage_ == Stage::kSoftmax;
        product_ns_ = ns;
        stage_ = Stage::kProduct;
        product_bytes_ = ResultBytes(scope);
        between_ns_ = 0;
        break;
      case Part::kSoftmax:
        stage_ = stage_ == Stage::kProduct ? Stage::kSoftmax : Stage::kNone;
        between_ns_ += ns;
        break;
      case Part::kBetween:
        between_ns_ += ns;
        break;
      case Part::kAside:
        break;
      default:
        stage_ = Stage::kNone;
    }
  }

  const StepFacts& facts_;
  const AskedTimes asked_;
  std::vector<Part> parts_;           // by name
  std::vector<double> result_bytes_;  // by op
  Stage stage_ = Stage::kNone;
  double between_ns_ = 0;
  double product_bytes_ = 0;  // of the last product's result
  double product_ns_ = 0;
  bool is_behind_attention_ = false, is_next_head_ = false;  // the last product
};

// A norm's kernels in forward passes of the steps.
struct Norm {
  LayerIndex layer = kNone;  // one of the module's
  double ns = 0;
  double kernels = 0;
  std::set<NameIndex> names;
};

std::vector<Finding> NormsByParts(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  const std::vector<Place> places = GpuPlaces(model, facts.attribution());
  std::map<std::string, Norm> norms;  // by module
  for (GpuIndex activity = 0; activity < model.gpu.size(); ++activity) {
    const auto& [layer, direction] = places[activity];
    const GpuKernelIndex kernel = model.gpu.kernel[activity];
    if (layer == kNone || direction != LayerDirection::kForward || kernel == kNone) continue;
    const Layer& of = facts.attribution().layers[layer];
    if (!absl::StrContains(of.module_type, "RMSNorm") && !absl::StrContains(of.module_type, "LayerNorm")) continue;
    const ProcessIndex process = model.gpu_devices[model.gpu.device[activity]].process;
    if (facts.StepAt(process, GpuAskedNs(model, activity)) == kNone) continue;
    Norm& norm = norms[of.module];
    norm.layer = layer;
    norm.ns += static_cast<double>(model.gpu.DurationNs(activity));
    ++norm.kernels;
    norm.names.insert(model.gpu_kernels[kernel].name);
  }
  std::erase_if(norms, [](const auto& norm) { return norm.second.names.size() < kFewestParts; });
  double ns = 0, kernels = 0;
  for (const auto& [module, norm] : norms) {
    ns += norm.ns / facts.count();
    kernels += norm.kernels / facts.count();
  }
  const auto count = static_cast<double>(norms.size());
  if (!facts.IsAtLeast(ns, kFormPercent)) return {};
  const Layer& first = facts.attribution().layers[norms.begin()->second.layer];
  return {{.where = first.module_type,
           .line = first.line,
           .sentence = absl::StrFormat("Norms are computed by parts, %d %s in %.1f kernels each: %s.", norms.size(),
                                       norms.size() == 1 ? "module" : "modules", kernels / count, facts.PartOfStep(ns)),
           .gain_ns = ns * (1 - count / kernels),
           .evidence = "table layers: kernels; that all but one of them go",
           .advice = "torch.nn.functional.rms_norm or layer_norm computes it in one kernel; torch.compile(model) fuses "
                     "its parts, too."}};
}

// The same on the CPU, forward and backward. There PyTorch computes its own RMSNorm by parts, too.
std::vector<Finding> NormsByOperations(const StepFacts& facts) {
  struct Norm {
    double ns = 0;
    std::set<std::string> ops;  // of forward passes
    const Layer* layer = nullptr;

    bool Has(const Names& names) const {
      return absl::c_any_of(names, [&](absl::string_view name) { return ops.contains(std::string(name)); });
    }
    bool IsNorm() const {
      return Has({"mean"}) && Has({"mul", "div"}) &&
             (Has({"std", "var", "rsqrt"}) || (Has({"pow", "square"}) && Has({"sqrt"})));
    }
    bool IsOfSquares() const { return !Has({"sub", "std", "var", "var_mean"}); }
  };
  std::map<std::string, Norm> norms;  // by module
  for (const WorkItem& item : facts.items()) {
    const Layer* const layer = facts.OnlyLayerOf(item);
    if (layer == nullptr || layer->module.empty() || !absl::StrContains(layer->module_type, "Norm")) continue;
    Norm& norm = norms[layer->module];
    norm.ns += item.ns;
    norm.layer = layer;
    if (item.IsHostCompute()) norm.ops.insert("product");
    if (item.scope != nullptr && item.doing.direction == LayerDirection::kForward) norm.ops.insert(item.scope->op);
  }
  std::erase_if(norms, [](const auto& norm) { return !norm.second.IsNorm() || norm.second.Has({"product"}); });
  std::vector<Finding> findings;
  for (const bool is_of_squares : {false, true}) {
    double ns = 0, count = 0;
    const Layer* first = nullptr;
    for (const auto& [module, norm] : norms) {
      if (norm.IsOfSquares() != is_of_squares) continue;
      ns += norm.ns;
      ++count;
      if (first == nullptr) first = norm.layer;
    }
    if (!facts.IsAtLeast(ns, kFormPercent)) continue;
    Finding& finding = findings.emplace_back(
        OfForm(facts, ns, kNone,
               absl::StrFormat("Norms are computed by parts (%s) in %g %s",
                               is_of_squares ? "means of squares, quotients" : "means, deviations, quotients", count,
                               count == 1 ? "module" : "modules"),
               is_of_squares ? "torch.compile(model), or of these modules, makes one loop of it. On processors "
                               "torch.nn.RMSNorm has the same parts."
                             : "nn.LayerNorm, nn.BatchNorm or nn.GroupNorm (torch.nn.functional.layer_norm ...) is one "
                               "operation, forward and backward."));
    finding.where = first->module_type;
    finding.line = first->line;
    finding.changes_numerics = !is_of_squares;
  }
  return findings;
}

}  // namespace

Finding OfForm(const StepFacts& facts, double ns, ScopeIndex scope, std::string sentence, const char* advice) {
  const double gain_ns = std::min(ns, facts.step_ns());
  Finding finding = {.sentence = absl::StrCat(sentence, ": ", facts.PartOfStep(gain_ns), "."),
                     .gain_ns = gain_ns,
                     .evidence = "table work and accounting: time of these operations",
                     .advice = advice};
  if (scope == kNone) return finding;
  finding.line = facts.LineOfStack(facts.model().scopes.look[scope].stack);
  if (const LayerIndex index = facts.attribution().of_scope[scope].layer; index != kNone) {
    const Layer& layer = facts.attribution().layers[index];
    finding.where = facts.attribution().NameOf(index);
    if (!layer.line.empty()) finding.line = layer.line;
  }
  return finding;
}

std::vector<Finding> FindFasterForms(const StepFacts& facts) {
  if (!facts.HasSteps() || !facts.UsesTorch()) return {};
  std::vector<Finding> findings;
  const Forms forms(facts);
  const auto per_step = [&](const Form& form) { return form.ns / facts.count(); };
  const bool are_heads = 2 * forms.heads > forms.attention.count;
  const double attention_ns = per_step(forms.attention) + (forms.attention.count > 0 ? per_step(forms.of_backward) : 0);
  if (facts.IsAtLeast(attention_ns, kFormPercent)) {
    findings.push_back(OfForm(
        facts, attention_ns, forms.attention.last,
        absl::StrFormat(
            "Attention is computed by parts %.0f times a %s%s%s (a product, softmax, a product; what lies between "
            "these in the forward pass%s%s)",
            forms.attention.count / facts.count(), facts.StepNoun(),
            are_heads ? absl::StrFormat(", %.0f times right behind another head", forms.heads / facts.count()) : "",
            forms.score_bytes == 0
                ? ""
                : absl::StrCat(" and stores ",
                               HumanCell(static_cast<int64_t>(forms.score_bytes / facts.count()), "bytes"),
                               " of scores"),
            are_heads ? ", and these of all but the first head" : "",
            forms.of_backward.count > 0 ? ", and softmax backward" : ""),
        are_heads ? "All heads in one product: q.view(batch, length, heads, -1).transpose(1, 2), k and v likewise, "
                    "then torch.nn.functional.scaled_dot_product_attention(q, k, v)."
        : 2 * forms.math > forms.attention.count
            ? "scaled_dot_product_attention has no fused form for these: it needs query, key and value of four "
              "dimensions (batch, heads, length, size), of one floating type, no mask with a gradient and, on the CPU, "
              "no dropout; several heads in one call."
        : facts.HasGpuTimes() ? "torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask, is_causal=...) "
                                "stores no scores (transformers: attn_implementation=\"sdpa\")."
                              : "torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=...) in one "
                                "operation; on the CPU it is fused only without dropout, and nowhere if its "
                                "weights are asked for (nn.MultiheadAttention: need_weights=False; transformers: no "
                                "output_attentions)."));
  }
  if (facts.HasGpuTimes()) {
    const LayerIndex layer = findings.empty() ? kNone : facts.attribution().of_scope[forms.attention.last].layer;
    const bool is_one_of_many = layer != kNone && forms.attention.count > facts.count();
    if (is_one_of_many) findings.back().where = facts.attribution().layers[layer].module_type;
    Append(NormsByParts(facts), findings);
    return findings;
  }
  Append(NormsByOperations(facts), findings);
  Append(FormsOfCollectives(facts), findings);
  const double update_ns =
      facts.Sum([](const WorkItem& item) { return item.doing.direction == LayerDirection::kUpdate; });
  if (facts.IsAtLeast(per_step(forms.dense), kFormPercent)) {
    findings.push_back(
        OfForm(facts, per_step(forms.dense) + update_ns, forms.dense.last,
               absl::StrFormat("The gradient of an embedding is made as large as its table in each %s, and the "
                               "optimizer goes through all of it",
                               facts.StepNoun()),
               "If a batch reads few of the rows: Embedding(..., sparse=True) with SGD, SparseAdam or Adagrad."));
  }
  const auto is_recurrent = [&](const WorkItem& item) { return IsOfType(facts, item, {"lstm", "gru", "rnn"}); };
  const double ops = facts.counted().AllOps();
  if (forms.packed.count > 0 && ops >= kPackedOps && facts.IsAtLeast(facts.Sum(is_recurrent), kFormPercent)) {
    findings.push_back(OfForm(
        facts, facts.Sum(is_recurrent), forms.packed.last,
        absl::StrFormat(
            "A recurrent network on packed sequences computes each time step by itself, a %s has %.0f operations",
            facts.StepNoun(), ops),
        "Give it the padded batch (no pack_padded_sequence), which oneDNN computes at once, sort batches by length, "
        "and leave out padded outputs afterwards."));
    findings.back().where = facts.LayersOf(is_recurrent);
    findings.back().changes_numerics = true;
  }
  Append(EqualModules(facts), findings);
  Append(FormsOfTensors(facts), findings);
  const auto is_recomputed = [](const WorkItem& item) { return item.doing.direction == LayerDirection::kRecompute; };
  if (facts.IsAtLeast(facts.Sum(is_recomputed), kFormPercent)) {
    findings.push_back(OfForm(facts, facts.Sum(is_recomputed), kNone,
                              "Checkpoints compute the forward pass again in the backward pass",
                              "If there is memory left: checkpoint fewer or cheaper blocks."));
    findings.back().where = facts.LayersOf(is_recomputed);
    findings.back().is_information = true;
  }
  return findings;
}

}  // namespace dlhook::analyzer::findings
