// Rule faster-form, told by the sizes of the tensors that operations make:
//
//   broadcast       an operation makes a tensor several times as large as all that PyTorch held, which is reduced at once:
//                   differences of all pairs for distances
//   joined anew     cat at one line makes a larger tensor each time within a step, which nothing between reads: all before is
//                   copied again
//   expanded        cat copies a tensor that was expanded right before, and a product goes through all of it: the expanded part has
//                   the same result in all rows
//   mostly zeros    a product with a diagonal matrix that was made right before
//   mean of rows    of an embedding, right behind it: one operation for both
//   chains          two products of the program one behind the other, in an order that needs four times as many operations
//   loops           the same operation runs many times inside of one, as torch.vmap's fallback does
//   large windows   poolings whose results are as large as what the operation before made, far slower than others of the run
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
constexpr double kFewestInside = 32;
constexpr double kFewestJoins = 16;  // in a step
constexpr double kGrowsInPercent = 90;
// Of a step, without the products' own time: how much of that is the expanded part's is not known.
constexpr double kExpandedPercent = 5;
constexpr double kWindowNs = 48;     // for each element of a pooling's result: about 1 for each of its window
constexpr double kElementBytes = 4;  // of results; of shorter types there are more elements
constexpr int64_t kPooledBytes = 1 << 16;

class TensorForms {
 public:
  explicit TensorForms(const StepFacts& facts)
      : facts_(facts),
        scopes_(facts.model().scopes),
        names_(facts.scope_names()),
        made_(TensorsMade(facts)),
        products_(ProductsOfOperations(facts)) {
    steps_ = StepsOf(facts, made_);
  }

  std::vector<Finding> Find() const {
    std::vector<Finding> findings;
    for (const auto& found : {Broadcast(), JoinedAnew(), JoinedExpanded(), MostlyZeros(), MeanOfRows(), Chains(),
                              Loops(), LargeWindows()}) {
      if (found) findings.push_back(*found);
    }
    return findings;
  }

 private:
  const std::string& OpOf(size_t i) const { return names_[scopes_.look[made_[i].scope].name].op; }
  double NsOf(size_t i) const { return static_cast<double>(scopes_.duration_ns[made_[i].scope]); }
  LayerIndex LayerOf(size_t i) const { return facts_.attribution().of_scope[made_[i].scope].layer; }
  bool FollowsInStep(size_t i, size_t next) const {
    return next < made_.size() && scopes_.thread[made_[i].scope] == scopes_.thread[made_[next].scope] &&
           made_[i].step == made_[next].step;
  }

  double NsOfAll(const std::set<size_t>& tensors) const { return TimeOfMade(facts_, made_, tensors).ns; }

  // Of a library, the first behind the operation; kNone: there is none.
  OpIndex CallBehind(size_t i) const {
    const CallColumns& calls = facts_.model().calls;
    const auto [begin, end] = calls.RangeOf(scopes_.thread[made_[i].scope]);
    const auto starts = calls.start_ns.begin();
    const auto next = std::lower_bound(starts + begin, starts + end, scopes_.EndOf(made_[i].scope)) - starts;
    return static_cast<CallIndex>(next) < end ? calls.op[static_cast<CallIndex>(next)] : kNone;
  }

  // Over more than one product of elements.
  bool SumsUp(size_t i) const {
    const auto product = products_.find(made_[i].scope);
    return product != products_.end() && MatmulShapeOf(*product->second)->k > 1;
  }

  // The next operation makes as much.
  bool IsMadeOf(size_t i) const { return FollowsInStep(i, i + 1) && made_[i + 1].bytes == made_[i].bytes; }

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

  std::optional<Finding> JoinedAnew() const {
    struct Joins {
      double count = 0, grows = 0, is_read = 0, bytes = 0, needed_bytes = 0;
      OpIndex next_call = kNone;
      size_t last = 0;
      int64_t least_bytes = 0;
      std::set<size_t> tensors;
    };
    std::map<StackIndex, Joins> by_stack;
    for (size_t i = 0; i < made_.size(); ++i) {
      const StackIndex stack = scopes_.look[made_[i].scope].stack;
      if (stack == kNone || (OpOf(i) != "cat" && OpOf(i) != "concat")) continue;
      Joins& joins = by_stack[stack];
      const bool grows = joins.count > 0 && FollowsInStep(joins.last, i) && made_[i].bytes > made_[joins.last].bytes;
      if (joins.count++ == 0) joins.least_bytes = made_[i].bytes;
      joins.grows += grows ? 1 : 0;
      // By operations behind it, whose sizes grow with it.
      const OpIndex next_call = CallBehind(i);
      joins.is_read += (next_call != joins.next_call && grows) || IsMadeOf(i) ? 1 : 0;
      joins.next_call = next_call;
      joins.bytes += static_cast<double>(made_[i].bytes);
      joins.needed_bytes +=
          static_cast<double>(made_[i].bytes) - (grows ? static_cast<double>(made_[joins.last].bytes) : 0);
      joins.last = i;
      joins.tensors.insert(i);
    }
    std::optional<Finding> most;
    for (auto& [stack, joins] : by_stack) {
      const double times = joins.count / steps_;
      if (times < kFewestJoins || joins.grows < kGrowsInPercent / 100 * joins.count) continue;
      if (joins.is_read > joins.count / 2) continue;
      const double ns = NsOfAll(joins.tensors) * (1 - joins.needed_bytes / joins.bytes);
      if (!facts_.IsAtLeast(ns, kFormPercent) || (most && most->gain_ns > ns)) continue;
      most = OfForm(facts_, ns, made_[joins.last].scope,
                    absl::StrFormat("Tensors are joined %.0f times a %s (aten::%s), each time with all before: from %s "
                                    "to %s. All but the new part",
                                    times, facts_.StepNoun(), OpOf(joins.last), HumanCell(joins.least_bytes, "bytes"),
                                    HumanCell(made_[joins.last].bytes, "bytes")),
                    "Append the parts to a list and join them once, behind the loop (torch.stack, torch.cat), or write "
                    "them into one tensor that was made before it.");
    }
    return most;
  }

  // By the operation before, of the program itself, but for other views.
  bool IsExpandedBefore(size_t i) const {
    const ScopeIndex joined = made_[i].scope;
    for (ScopeIndex scope = joined; scope-- > 0 && scopes_.thread[scope] == scopes_.thread[joined];) {
      const ScopeName& name = names_[scopes_.look[scope].name];
      if (facts_.IsOp(scopes_.parent[scope])) continue;
      if (name.op.starts_with("expand") || !name.is_view) return name.op.starts_with("expand");
    }
    return false;
  }

  std::optional<Finding> JoinedExpanded() const {
    std::set<size_t> tensors;
    for (size_t i = 1; i < made_.size(); ++i) {
      if (OpOf(i) != "cat" || !FollowsInStep(i, i + 1) || !IsExpandedBefore(i)) continue;
      if (OpOf(i + 1) == "linear" || OpOf(i + 1) == "addmm" || OpOf(i + 1) == "matmul") tensors.insert({i, i + 1});
    }
    const double ns = NsOfAll(tensors);
    if (!facts_.IsAtLeast(ns, kExpandedPercent)) return std::nullopt;
    Finding finding = OfForm(
        facts_, ns, made_[*tensors.begin()].scope,
        absl::StrFormat(
            "aten::cat copies a tensor that was expanded (%s in all); where they are joined along the features, the "
            "product behind it goes through each copy of the same values, forward and backward",
            HumanCell(made_[*tensors.begin()].bytes, "bytes")),
        "If they are joined along the features: multiply each part with its own part of the weight, before it is "
        "expanded, and add the results by broadcasting: part(x) + code(z)[:, None] for linear(cat(x, z.expand(...))).");
    finding.is_information = true;  // along which dimension is not recorded
    return finding;
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

  // Operations of two products in this order and in the other one; equal if the second does not multiply the first one's result.
  static std::pair<double, double> OrdersOf(const MatmulShape& first, const MatmulShape& second) {
    const auto sides = [](const MatmulShape& shape) {
      const bool is_column = shape.order == "col";
      return std::array{static_cast<double>(is_column ? shape.n : shape.m), static_cast<double>(shape.k),
                        static_cast<double>(is_column ? shape.m : shape.n)};
    };
    const auto [rows, inner, columns] = sides(first);
    const auto [other_rows, other_inner, other_columns] = sides(second);
    const double now = rows * inner * columns + other_rows * other_inner * other_columns;
    if (first.batch == second.batch && other_rows == rows && other_inner == columns)
      return {now, inner * columns * other_columns + rows * inner * other_columns};
    if (first.batch == second.batch && other_inner == rows && other_columns == columns)
      return {now, other_rows * rows * inner + other_rows * inner * columns};
    return {now, now};
  }

  std::optional<Finding> Chains() const {
    std::vector<MadeTensor> chain;  // and all that their layers do
    std::set<size_t> all;
    ScopeIndex last = kNone;  // the operation before, a product
    double now = 0, other = 0;
    for (ScopeIndex scope = 0; scope < scopes_.size(); ++scope) {
      const ScopeName& name = names_[scopes_.look[scope].name];
      if (!facts_.IsOutermostOp(scope) || name.is_view) continue;
      const ScopeIndex before = std::exchange(last, kNone);
      const auto product = products_.find(scope);
      if (product == products_.end() || !IsAmong(name.op, {"matmul", "mm", "bmm"})) continue;
      last = scope;
      const bool is_one_line = before != kNone && scopes_.look[before].stack == scopes_.look[scope].stack &&
                               scopes_.look[scope].stack != kNone && !IsInBackward(facts_.model(), scope);
      const size_t step = is_one_line ? facts_.StepOfScope(scope) : kNone;
      if (step == kNone || step != facts_.StepOfScope(before)) continue;
      const auto [flops, of_other] = OrdersOf(*MatmulShapeOf(*products_.at(before)), *MatmulShapeOf(*product->second));
      if (flops < kTimesLarger * of_other) continue;
      for (const ScopeIndex of : {before, scope}) {
        all.insert(chain.size());
        chain.push_back({.scope = of, .step = step});
      }
      now += flops;
      other += of_other;
    }
    const double ns = all.empty() ? 0 : TimeOfMade(facts_, chain, all, /*with_calls=*/true).ns * (1 - other / now);
    if (!facts_.IsAtLeast(ns, kFormPercent)) return std::nullopt;
    return OfForm(
        facts_, ns, chain.back().scope,
        absl::StrFormat("Two products one behind the other, if the second multiplies the first one's result, "
                        "need %.0f times as many operations as in the other order; what that costs",
                        now / other),
        "Python multiplies from the left: A @ (B @ v) in place of A @ B @ v (torch.linalg.multi_dot finds the "
        "order); Q @ (K.T @ V) where no softmax is between.");
  }

  // Of torch.vmap: an operation in which the same one runs again and again.
  std::optional<Finding> Loops() const {
    std::map<ScopeIndex, double> inside;  // by the outermost operation
    for (ScopeIndex scope = 0; scope < scopes_.size(); ++scope) {
      if (!facts_.IsOp(scope) || facts_.IsOutermostOp(scope)) continue;
      ScopeIndex outermost = scope;
      while (facts_.IsOp(scopes_.parent[outermost])) outermost = scopes_.parent[outermost];
      if (scopes_.look[outermost].name == scopes_.look[scope].name) ++inside[outermost];
    }
    double ns = 0;
    ScopeIndex most = kNone;
    for (const auto& [outermost, times] : inside) {
      if (times < kFewestInside || facts_.StepOfScope(outermost) == kNone) continue;
      ns += static_cast<double>(scopes_.duration_ns[outermost]) / facts_.count();
      if (most == kNone || scopes_.duration_ns[outermost] > scopes_.duration_ns[most]) most = outermost;
    }
    if (!facts_.IsAtLeast(ns, kFormPercent)) return std::nullopt;
    return OfForm(
        facts_, ns, most,
        absl::StrFormat("An operation calls itself for each member of a batch (aten::%s, %.0f times), as "
                        "torch.vmap does where it has no rule for it",
                        names_[scopes_.look[most].name].op, inside[most]),
        "Call it without vmap on the whole batch, if it takes one, or use operations that vmap knows: it warns "
        "of those that it does not (\"performance drop\").");
  }

  std::optional<Finding> LargeWindows() const {
    struct Pooling {
      double element_ns = INFINITY;  // the least: others may interrupt
      std::set<size_t> tensors;
    };
    std::map<LayerIndex, Pooling> poolings;
    for (size_t i = 1; i < made_.size(); ++i) {
      const std::string& op = OpOf(i);
      if (!absl::StrContains(op, "max_pool") && !absl::StrContains(op, "avg_pool")) continue;
      if (absl::StrContains(op, "adaptive") || absl::StrContains(op, "backward") || !FollowsInStep(i - 1, i)) continue;
      // With the indices of the largest, which take twice the bytes.
      const bool is_as_large =
          made_[i].bytes >= std::max(kPooledBytes, made_[i - 1].bytes) && made_[i].bytes <= 2 * made_[i - 1].bytes;
      if (!is_as_large || LayerOf(i) == kNone) continue;
      Pooling& pooling = poolings[LayerOf(i)];
      pooling.tensors.insert(i);
      pooling.element_ns = std::min(pooling.element_ns, NsOf(i) * kElementBytes / static_cast<double>(made_[i].bytes));
    }
    std::erase_if(poolings, [](const auto& of) { return of.second.element_ns < kWindowNs; });
    std::set<size_t> tensors;
    for (const auto& [layer, pooling] : poolings) tensors.insert(pooling.tensors.begin(), pooling.tensors.end());
    const double ns = NsOfAll(tensors);
    if (!facts_.IsAtLeast(ns, kFormPercent)) return std::nullopt;
    const Pooling& longest = MostOf(poolings, [](const auto& of) { return of.element_ns; })->second;
    return OfForm(facts_, ns, made_[*longest.tensors.begin()].scope,
                  absl::StrFormat("Large windows of poolings overlap (aten::%s, results as large as what they read): "
                                  "an element takes up to %s",
                                  OpOf(*longest.tensors.begin()), HumanTime(longest.element_ns)),
                  "Maxima and means of a window of k x k are those of k x 1 and of 1 x k one behind the other; a "
                  "maximum of 9 x 9 is two of 5 x 5 (SPPF in place of SPP).");
  }

  const StepFacts& facts_;
  const ScopeColumns& scopes_;
  const std::vector<ScopeName>& names_;
  const std::vector<MadeTensor> made_;
  const std::map<ScopeIndex, const Op*> products_;
  double steps_ = 1;
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
