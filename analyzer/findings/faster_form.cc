// Rule faster-form: a step computes something in a form for which PyTorch has a faster one.
//
//   attention by parts     a product, elementwise operations, softmax, a product; or scaled_dot_product_attention that falls back
//                          to these (dropout on the CPU)
//   dense gradients        an embedding's gradient is as large as its table, however few rows a batch reads
//   packed sequences       a recurrent network computes each time step by itself
//   recomputation          checkpoints compute the forward pass again: information, as they save memory
//
// The gain is at most the time of these operations: how much the other form takes is not known.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/calls/python_places.h"
#include "analyzer/findings/rules.h"
#include "analyzer/table/human.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kFormPercent = 10;
constexpr double kPackedOps = 1000;  // of a step

using Names = std::vector<absl::string_view>;

bool IsAmong(const std::string& name, const Names& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
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
  explicit Forms(const StepFacts& facts) : facts_(facts) {
    for (const ScopeName& name : ReadScopeNames(facts.model())) parts_.push_back(PartOf(name));
    const ScopeColumns& scopes = facts.model().scopes;
    ThreadIndex thread = kNone;
    for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
      const Part part = parts_[scopes.look[scope].name];
      const bool is_outermost = scopes.parent[scope] == kNone || !IsOp(scopes.parent[scope]);
      const bool counts = part == Part::kDense || part == Part::kPacked || part == Part::kMath || is_outermost;
      if (!counts || !IsOp(scope)) continue;
      const ThreadIndex own = scopes.thread[scope];
      if (facts.StepAt(facts.model().threads[own].process, scopes.start_ns[scope]) == kNone) continue;
      const auto ns = static_cast<double>(scopes.duration_ns[scope]);
      if (part == Part::kDense) dense.Add(ns, scope);
      if (part == Part::kPacked) packed.Add(ns, scope);
      if (part == Part::kMath) attention.Add(ns, scope);
      if (own != thread) stage_ = Stage::kNone;
      thread = own;
      if (is_outermost) Follow(scope, part, ns);
    }
  }

  Form attention, dense, packed;

 private:
  enum class Stage : uint8_t { kNone, kProduct, kSoftmax };
  enum class Part : uint8_t { kOther, kDense, kPacked, kMath, kProduct, kSoftmax, kBetween, kAside };

  static Part PartOf(const ScopeName& name) {
    const auto is = [&](const Names& names) { return IsAmong(name.op, names); };
    if (is({"embedding_dense_backward", "_embedding_bag_dense_backward"})) return Part::kDense;
    if (is({"_pack_padded_sequence"})) return Part::kPacked;
    if (is({"_scaled_dot_product_attention_math"})) return Part::kMath;
    if (is({"matmul", "bmm", "baddbmm", "einsum"})) return Part::kProduct;
    if (is({"softmax", "_softmax"})) return Part::kSoftmax;
    if (is({"div", "div_", "mul", "mul_", "add", "add_", "masked_fill", "masked_fill_", "where", "dropout", "dropout_",
            "type_as", "tril", "eq", "ne", "lt", "ones", "full"})) {
      return Part::kBetween;
    }
    return name.is_view || name.is_bookkeeping ? Part::kAside : Part::kOther;
  }

  bool IsOp(ScopeIndex scope) const { return facts_.model().scopes.look[scope].kind == ScopeKind::kFrameworkOp; }

  // Outermost ops in order: a product, others between, softmax, others, a product.
  void Follow(ScopeIndex scope, Part part, double ns) {
    switch (part) {
      case Part::kProduct:
        if (stage_ == Stage::kSoftmax) attention.Add(between_ns_, scope);
        stage_ = Stage::kProduct;
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
  std::vector<Part> parts_;  // by name
  Stage stage_ = Stage::kNone;
  double between_ns_ = 0;
};

Finding OfForm(const StepFacts& facts, double ns, ScopeIndex scope, std::string sentence, const char* advice) {
  Finding finding;
  const TraceModel& model = facts.model();
  const StackIndex stack = scope == kNone ? kNone : model.scopes.look[scope].stack;
  const LayerIndex layer = scope == kNone ? kNone : facts.attribution().of_scope[scope].layer;
  if (stack != kNone) finding.line = LineLabel(model, ReadPythonPlaces(model)[stack]);
  if (layer != kNone) {
    finding.where = facts.attribution().layers[layer].name;
    finding.line = facts.attribution().layers[layer].line;
  }
  finding.gain_ns = std::min(ns, facts.step_ns());
  finding.sentence = absl::StrCat(sentence, ": ", facts.PartOfStep(finding.gain_ns), ".");
  finding.advice = advice;
  finding.basis = GainBasis::kUpperBound;
  finding.confidence = Confidence::kMedium;
  finding.evidence = "table work and accounting: time of these operations";
  return finding;
}

}  // namespace

std::vector<Finding> FindFasterForms(const StepFacts& facts) {
  if (!facts.HasSteps() || facts.HasGpuTimes() || !facts.UsesTorch()) return {};
  std::vector<Finding> findings;
  const Forms forms(facts);
  const auto per_step = [&](const Form& form) { return form.ns / facts.count(); };
  if (facts.IsAtLeast(per_step(forms.attention), kFormPercent)) {
    findings.push_back(OfForm(
        facts, per_step(forms.attention), forms.attention.last,
        absl::StrFormat("Attention is computed by parts %.0f times a %s (a product, softmax, a product; what lies "
                        "between these in the "
                        "forward pass)",
                        forms.attention.count / facts.count(), facts.StepNoun()),
        "torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=...) in one operation; on the CPU it is "
        "fused only without dropout."));
  }
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
  const auto is_recurrent = [&](const WorkItem& item) {
    return item.group->layers.size() == 1 &&
           IsAmong(facts.attribution().layers[item.group->layers.front()].type, {"lstm", "gru", "rnn"});
  };
  double ops = 0;
  for (const auto& [name, count] : facts.counted().ops) ops += count;
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
