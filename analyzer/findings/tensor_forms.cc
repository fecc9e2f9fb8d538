// Rule faster-form, told by the sizes of the tensors that operations make:
//
//   broadcast       an operation makes a tensor several times as large as all that PyTorch held, which is reduced at once:
//                   differences of all pairs for distances
//   mostly zeros    a product with a diagonal matrix that was made right before
//   mean of rows    of an embedding, right behind it: one operation for both
//
// Times are those of the layers, forward and backward.
//
// Rule faster-form: modules of one list that are called one by one, and whose results are joined (cat, stack): heads, tables.

#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr int64_t kBroadcastBytes = 1 << 20;
constexpr int64_t kTimesLarger = 4;  // than all blocks before; and than what it is reduced to
constexpr int64_t kPairsBytes = 1 << 10;
constexpr size_t kReducedWithin = 4;  // operations

class TensorForms {
 public:
  explicit TensorForms(const StepFacts& facts)
      : facts_(facts),
        scopes_(facts.model().scopes),
        names_(facts.scope_names()),
        made_(TensorsMade(facts)),
        products_(ProductsOfOperations(facts)) {}

  std::vector<Finding> Find() const {
    std::vector<Finding> findings;
    for (const auto& found : {Broadcast(), MostlyZeros(), MeanOfRows()}) {
      if (found) findings.push_back(*found);
    }
    return findings;
  }

 private:
  const std::string& OpOf(size_t i) const { return names_[scopes_.look[made_[i].scope].name].op; }
  bool FollowsInStep(size_t i, size_t next) const {
    return next < made_.size() && scopes_.thread[made_[i].scope] == scopes_.thread[made_[next].scope] &&
           made_[i].step == made_[next].step;
  }

  double NsOfAll(const std::set<size_t>& tensors) const { return TimeOfMade(facts_, made_, tensors).ns; }

  // Over more than one product of elements.
  bool SumsUp(size_t i) const {
    const auto product = products_.find(made_[i].scope);
    return product != products_.end() && MatmulShapeOf(*product->second)->k > 1;
  }

  static bool Reduces(const std::string& op) {
    static constexpr std::array<absl::string_view, 14> kReductions = {
        "sum", "mean", "norm", "linalg_vector_norm", "amin",        "amax",   "max",
        "min", "any",  "all",  "logsumexp",          "sum_to_size", "nansum", "argmin"};
    return absl::c_linear_search(kReductions, op);
  }

  std::optional<Finding> Broadcast() const {
    std::set<size_t> tensors;
    size_t largest = made_.size();
    int64_t reduced_bytes = 0;
    for (size_t i = 0; i < made_.size(); ++i) {
      // It broadcasts and reduces by itself.
      const bool is_whole = IsAmong(OpOf(i), {"cosine_similarity", "pairwise_distance"});
      if (is_whole && made_[i].bytes >= std::max(kBroadcastBytes, kTimesLarger * made_[i].largest_before)) {
        tensors.insert(i);
        if (largest == made_.size() || made_[largest].bytes < made_[i].bytes) largest = i;
        continue;
      }
      const bool may_be = IsAmong(OpOf(i), {"sub", "mul", "add", "rsub"}) || (OpOf(i) == "einsum" && !SumsUp(i));
      if (!may_be || made_[i].largest_before == 0) continue;  // its operands are not known
      if (made_[i].bytes < std::max(kBroadcastBytes, kTimesLarger * made_[i].largest_before)) continue;
      size_t end = i + 1;
      while (end < i + kReducedWithin && FollowsInStep(i, end) && made_[end].bytes == made_[i].bytes) ++end;
      if (!FollowsInStep(i, end) || !Reduces(OpOf(end)) || kTimesLarger * made_[end].bytes > made_[i].bytes) continue;
      if (made_[end].bytes < kPairsBytes) continue;  // a loss of tensors that were there before, say
      for (size_t of = i; of <= end; ++of) tensors.insert(of);
      if (largest < made_.size() && made_[largest].bytes >= made_[i].bytes) continue;
      largest = i;
      reduced_bytes = made_[end].bytes;
    }
    const double ns = NsOfAll(tensors);
    if (!facts_.IsAtLeast(ns, kFormPercent)) return std::nullopt;
    return OfForm(
        facts_, ns, made_[largest].scope,
        absl::StrFormat("Broadcasting in aten::%s makes a tensor of %s, %.0f times as large as any that PyTorch held, "
                        "and %s, forward and backward",
                        OpOf(largest), HumanCell(made_[largest].bytes, "bytes"),
                        static_cast<double>(made_[largest].bytes) / static_cast<double>(made_[largest].largest_before),
                        OpOf(largest) == "cosine_similarity" || OpOf(largest) == "pairwise_distance"
                            ? "sums over it"
                            : absl::StrCat("operations behind it reduce it to ", HumanCell(reduced_bytes, "bytes"))),
        OpOf(largest) == "cosine_similarity"
            ? "Of all pairs by a product: F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).T."
        : OpOf(largest) == "mul" || OpOf(largest) == "einsum"
            ? "A sum of products needs no such tensor: a product (z.T @ z for the mean of outer products), or one "
              "torch.einsum that sums up, too."
            : "Distances of all pairs need no such tensor: torch.cdist(a, b), or a product: |a|^2 + "
              "|b|^2 - 2 a @ b.T.");
  }

  static bool IsAmong(const std::string& op, std::initializer_list<absl::string_view> ops) {
    return absl::c_linear_search(ops, op);
  }

  // These operations and what is right behind them.
  template <typename Follows>
  std::optional<Finding> Pairs(std::initializer_list<absl::string_view> first, const Follows& follows,
                               absl::string_view sentence, const char* advice) const {
    std::set<size_t> tensors;
    for (size_t i = 0; i + 1 < made_.size(); ++i) {  // a step may begin between them
      const bool is_next = scopes_.thread[made_[i].scope] == scopes_.thread[made_[i + 1].scope];
      if (is_next && IsAmong(OpOf(i), first) && follows(i)) tensors.insert({i, i + 1});
    }
    const double ns = TimeOfMade(facts_, made_, tensors, /*with_calls=*/true).ns;
    if (!facts_.IsAtLeast(ns, kFormPercent)) return std::nullopt;
    const size_t i = *tensors.begin();
    return OfForm(facts_, ns, made_[i].scope,
                  absl::StrCat(sentence, " (aten::", OpOf(i), ", ", HumanCell(made_[i].bytes, "bytes"),
                               ", then aten::", OpOf(i + 1), ")"),
                  advice);
  }

  std::optional<Finding> MostlyZeros() const {
    return Pairs(
        {"diag", "diag_embed", "block_diag"},
        [&](size_t i) {
          return made_[i].bytes >= kPairsBytes && IsAmong(OpOf(i + 1), {"matmul", "mm", "bmm", "linear", "addmm"});
        },
        "A matrix that is zero but for its diagonal, or for blocks, is made and multiplied",
        "Multiply by the elements themselves: d[:, None] * x for diag(d) @ x, x * d for x @ diag(d); blocks one by "
        "one, "
        "or equal ones by torch.bmm.");
  }

  std::optional<Finding> MeanOfRows() const {
    return Pairs(
        {"embedding"},
        [&](size_t i) {
          return made_[i].bytes >= std::max(kBroadcastBytes, kTimesLarger * made_[i + 1].bytes) &&
                 IsAmong(OpOf(i + 1), {"mean", "sum", "amax", "max"});
        },
        "Rows of an embedding are copied for nothing but their mean, sum or maximum",
        "nn.EmbeddingBag(..., mode=\"mean\") (F.embedding_bag) adds the rows up where they are; padding_idx leaves "
        "some "
        "out.");
  }

  const StepFacts& facts_;
  const ScopeColumns& scopes_;
  const std::vector<ScopeName>& names_;
  const std::vector<MadeTensor> made_;
  const std::map<ScopeIndex, const Op*> products_;
};

}  // namespace

std::vector<Finding> FormsOfTensors(const StepFacts& facts) { return TensorForms(facts).Find(); }

namespace {

constexpr size_t kFewestMembers = 8;    // of a list of modules
constexpr double kSmallOpNs = 100'000;  // of these, from the start of one to that of the next, on average

// Modules of lists that run the same operations one after the other, in the forward pass.
class ModuleLists {
 public:
  explicit ModuleLists(const StepFacts& facts) : facts_(facts), places_(facts.places()), names_(facts.scope_names()) {
    const ScopeColumns& scopes = facts.model().scopes;
    for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
      const auto& [name, kind, stack] = scopes.look[scope];
      if (!facts.IsOutermostOp(scope) || stack == kNone || places_[stack].is_in_backward) continue;
      const std::string& op = names_[name].op;
      if ((op == "cat" || op == "stack") && places_[stack].module() != kNone) Join(scope);
      if (!names_[name].is_view) ops_.push_back(scope);
    }
  }

  std::vector<Finding> Find() const {
    double ns = forward_ns_ / facts_.count();
    for (const WorkItem& item : facts_.items()) {
      const bool is_of_list = absl::c_any_of(item.group->layers, [&](LayerIndex layer) {
        const std::string& module = facts_.attribution().layers[layer].module;
        return absl::c_any_of(lists_, [&](const std::string& list) { return absl::StartsWith(module, list); });
      });
      ns += is_of_list && IsBackward(item.doing.direction) ? item.ns : 0;
    }
    if (joins_ == 0 || forward_ns_ / operations_ > kSmallOpNs || !facts_.IsAtLeast(ns, kFormPercent)) return {};
    Finding finding =
        OfForm(facts_, ns * (1 - joins_ / members_), join_,
               absl::StrFormat("%.0f modules of %s run the same operations one after the other, and their results are "
                               "joined (%s). All but one of %s, forward and backward",
                               members_ / joins_, lists_.begin()->substr(0, lists_.begin()->size() - 1),
                               names_[facts_.model().scopes.look[join_].name].op,
                               lists_.size() == 1 ? "them" : absl::StrCat("each of ", lists_.size(), " such lists")),
               "If none reads another's result, one module for all has larger and fewer operations: one nn.Linear with "
               "all outputs (query, key and value of all heads), torch.bmm or a grouped convolution where each has an "
               "input of its own, one nn.Embedding with offsets for several tables.");
    finding.where = *lists_.begin() + "*";
    return {finding};
  }

 private:
  // "attn.0.heads." of "attn.0.heads.3"; empty: of no list.
  std::string ListOf(ModuleIndex module) const {
    const std::vector<std::string>& names = facts_.model().modules[module].names;
    if (names.empty()) return "";
    const size_t end = names.front().find_last_not_of("0123456789") + 1;
    return end == names.front().size() || end == 0 || names.front()[end - 1] != '.' ? "" : names.front().substr(0, end);
  }

  // Back from the operation that joins results in a module: those of modules that it calls.
  void Join(ScopeIndex join) {
    const ScopeColumns& scopes = facts_.model().scopes;
    const ModuleIndex around = places_[scopes.look[join].stack].module();
    if (facts_.StepOfScope(join) == kNone) return;
    std::map<ModuleIndex, std::vector<NameIndex>> members;  // and their operations
    std::string list;
    size_t first = ops_.size();
    for (; first > 0 && scopes.thread[ops_[first - 1]] == scopes.thread[join]; --first) {
      const ScopeLook& look = scopes.look[ops_[first - 1]];
      const std::vector<ModuleIndex>& modules = places_[look.stack].modules;
      const auto found = absl::c_find(modules, around);
      if (found == modules.end() || found == modules.begin()) break;
      const std::string own = ListOf(*(found - 1));
      if (own.empty() || (!list.empty() && own != list)) break;
      list = own;
      members[*(found - 1)].push_back(look.name);
    }
    if (members.size() < kFewestMembers || first == ops_.size()) return;
    if (absl::c_any_of(members, [&](const auto& member) { return member.second != members.begin()->second; })) return;
    forward_ns_ += static_cast<double>(scopes.start_ns[join] - scopes.start_ns[ops_[first]]);
    operations_ += static_cast<double>(ops_.size() - first);
    members_ += static_cast<double>(members.size());
    ++joins_;
    join_ = join;
    lists_.insert(list);
  }

  const StepFacts& facts_;
  const std::vector<PythonPlace>& places_;
  const std::vector<ScopeName>& names_;
  std::vector<ScopeIndex> ops_;                                       // outermost ones so far
  double forward_ns_ = 0, operations_ = 0, members_ = 0, joins_ = 0;  // of all steps
  ScopeIndex join_ = kNone;                                           // the last one
  std::set<std::string> lists_;
};

}  // namespace

std::vector<Finding> EqualModules(const StepFacts& facts) { return ModuleLists(facts).Find(); }

}  // namespace dlhook::analyzer::findings
