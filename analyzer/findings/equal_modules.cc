// Rule faster-form: modules of one list that are called one by one, and whose results are joined (cat, stack): heads, tables.

#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {
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
