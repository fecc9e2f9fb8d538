// The activities of a process over time, as far as its scopes and calls show them: the basis of steps and phases.
#pragma once

#include <bitset>

#include "absl/container/flat_hash_set.h"
#include "analyzer/layers/attribution.h"

namespace dlhook::analyzer::inline steps {

enum class MomentKind : uint8_t {
  kOther,    // no evidence for steps: loss.item(), a metric, preparing an input
  kInput,    // the program asks its input pipeline for a batch
  kArrival,  // values come from the host to a device: a batch, weights
  kForward,  // an op of a network
  kBackward,
  kUpdate,
  kZeroGrad  // or what an optimizer does between the gradients that it computes itself
};

MomentKind KindOf(LayerDirection direction);

// An outermost scope with a meaning, or a call outside such scopes.
struct Moment {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  MomentKind kind = MomentKind::kOther;
  bool is_graph_node = false;  // TensorFlow: its threads work on one step together
  bool is_scope = false;
  ThreadIndex thread = 0;
  uint32_t index = 0;        // ScopeIndex or CallIndex
  LayerIndex layer = kNone;  // for kForward
  uint32_t rank = 0;  // for kForward: ascending in the order of the first forward pass, equal for the same layer (or
                      // op)
  uint32_t name = 0;  // for scopes; 0 for calls
  int64_t run = -1;   // of a program that XLA compiled; -1: none
  int64_t function = -1;  // index of the run of a tf.function or session that it is in; -1: none, or several at once
  int64_t link = -1;      // for kForward: the sequence number of its backward node, if any

  // Of so many equal ones.
  void KeepPart(size_t part, size_t parts) {
    const int64_t whole_ns = end_ns - start_ns, from_ns = start_ns;
    start_ns = from_ns + whole_ns * static_cast<int64_t>(part) / static_cast<int64_t>(parts);
    end_ns = from_ns + whole_ns * static_cast<int64_t>(part + 1) / static_cast<int64_t>(parts);
  }
};

// Moments in 5 bytes each: what the scope or call itself tells is looked up when a moment is read.
class Moments {
 public:
  using value_type = Moment;
  using const_iterator = ColumnIterator<Moments, Moment>;

  // Both must outlive it.
  Moments(const TraceModel& model, const Attribution& attribution) : model_(&model), attribution_(&attribution) {}

  size_t size() const { return told_.size(); }
  const_iterator begin() const { return {this, 0}; }
  const_iterator end() const { return {this, size()}; }
  MomentKind KindOf(size_t i) const { return KindOf(told_[i]); }
  int64_t StartOf(size_t i) const { return StartOf(told_[i]); }
  Moment operator[](size_t i) const {
    const Told told = told_[i];
    if ((told.flags & kIsApart) != 0) return apart_[told.index];
    return (told.flags & kIsScope) != 0 ? OfScope(told.index, KindOf(told)) : OfCall(told.index, KindOf(told));
  }

  // The moment that a scope or a call is.
  Moment OfScope(ScopeIndex scope, MomentKind kind) const;
  Moment OfCall(CallIndex call, MomentKind kind) const;

  void reserve(size_t count) { told_.reserve(count); }
  void AddScope(ScopeIndex scope, MomentKind kind) { told_.push_back({scope, FlagsOf(kind, kIsScope)}); }
  void AddCall(CallIndex call, MomentKind kind) { told_.push_back({call, FlagsOf(kind, 0)}); }
  // One that differs from its scope or call: it begins later, or is a part of it.
  void AddApart(const Moment& moment) {
    told_.push_back({static_cast<uint32_t>(apart_.size()), FlagsOf(moment.kind, kIsApart)});
    apart_.push_back(moment);
  }
  void Append(const Moments& others, size_t i) {
    (others.told_[i].flags & kIsApart) != 0 ? AddApart(others[i]) : told_.push_back(others.told_[i]);
  }

  // A run of a function of TensorFlow's, or of several at the same time, which time can't tell apart.
  struct FunctionRun {
    int64_t start_ns, end_ns;
    bool is_one;
  };
  bool has_functions() const { return !functions_.empty(); }
  void SetFunctions(std::vector<FunctionRun> ascending) { functions_ = std::move(ascending); }
  bool IsInFunction(int64_t ns) const { return FunctionAt(ns) != functions_.end(); }

  // Orders by start those from one on, or merges those before and from one on, which are in order each.
  void Order(size_t from);
  void Merge(size_t middle);

 private:
  enum : uint8_t { kKind = 7, kIsScope = 8, kIsApart = 16 };
  struct [[gnu::packed]] Told {
    uint32_t index;  // ScopeIndex, CallIndex or index in `apart_`
    uint8_t flags;   // MomentKind and what `index` is
  };

  static uint8_t FlagsOf(MomentKind kind, uint8_t is) { return static_cast<uint8_t>(kind) | is; }
  static MomentKind KindOf(Told told) { return static_cast<MomentKind>(told.flags & kKind); }
  int64_t StartOf(Told told) const {
    if ((told.flags & kIsApart) != 0) return apart_[told.index].start_ns;
    return (told.flags & kIsScope) != 0 ? model_->scopes.start_ns[told.index] : model_->calls.start_ns[told.index];
  }

  std::vector<FunctionRun>::const_iterator FunctionAt(int64_t ns) const {
    const auto is_before = [](const FunctionRun& run, int64_t at_ns) { return run.end_ns <= at_ns; };
    const auto run = absl::c_lower_bound(functions_, ns, is_before);
    return run != functions_.end() && run->start_ns <= ns ? run : functions_.end();
  }

  const TraceModel* model_;
  const Attribution* attribution_;
  std::vector<Told> told_;
  std::vector<Moment> apart_;
  std::vector<FunctionRun> functions_;
};

inline Moment Moments::OfScope(ScopeIndex scope, MomentKind kind) const {
  const ScopeColumns& scopes = model_->scopes;
  Moment moment;
  moment.start_ns = scopes.start_ns[scope];
  moment.end_ns = moment.start_ns + scopes.duration_ns[scope];
  moment.kind = kind;
  const bool is_xla = scopes.look[scope].kind == ScopeKind::kXlaOp;
  moment.is_graph_node = is_xla || scopes.look[scope].kind == ScopeKind::kGraphNode;
  moment.is_scope = true;
  moment.thread = scopes.thread[scope];
  moment.index = scope;
  moment.layer = attribution_->PlaceOfScope(scope).layer;
  moment.rank = moment.layer;
  moment.name = scopes.look[scope].name;
  const int64_t link = scopes.link[scope];
  if (is_xla) moment.run = CompiledLink::Of(link).run;
  if ((moment.is_graph_node && !is_xla) || kind == MomentKind::kInput) {
    const auto function = FunctionAt(moment.start_ns);
    if (function != functions_.end() && function->is_one) moment.function = function - functions_.begin();
  }
  if (!is_xla) moment.link = link;
  return moment;
}

// A set of numbers that are not negative, most of which lie close together.
class NumberSet {
 public:
  void Insert(int64_t number) { pages_[number / kPage].set(static_cast<size_t>(number % kPage)); }
  bool Has(int64_t number) const {
    const auto page = pages_.find(number / kPage);
    return page != pages_.end() && page->second.test(static_cast<size_t>(number % kPage));
  }

 private:
  static constexpr int64_t kPage = 512;
  absl::flat_hash_map<int64_t, std::bitset<kPage>> pages_;
};

struct ProcessMoments {
  Moments moments;             // ascending by start
  NumberSet trained_links;     // sequence numbers of backward nodes that ran
  bool has_compiled = false;   // windows are those of XLA's operations, outside of which nothing tells steps
  bool has_op_scopes = false;  // of framework ops
  bool has_updates = false;
  bool has_backward_scopes = false;
  bool has_forward_scopes = false;
};

// Which pass the operations of XLA's programs are in.

// XLA runs the operations of a program in any order that the data allow, gradients' constants first. The backward pass
// begins where the least time of products contradicts that, of all operations if the forward pass has no product.
class XlaTurns {
 public:
  XlaTurns(const TraceModel& model, const Attribution& attribution, ProcessIndex process, const GraphReplays& replays);

  bool has_any() const { return !runs_.empty(); }

  // Of an operation, or a part of a graph, that by itself is of the moment's kind. The last update of a run ends the step;
  // those before it are a part of the backward pass, in which they are. Programs without products (metrics, random
  // numbers) are no passes, nor are products outside of jit: each would be one.
  MomentKind KindOf(const Moment& moment) const;

  // What the CUDA graph does that this operation launches; null: it launches none.
  const std::vector<ReplayedPart>* GraphOf(ScopeIndex scope) const;

 private:
  // An execution of a program.
  struct Run {
    // Start and duration of its products, or of all its operations if it has none forward; backward: less than 0.
    std::vector<std::pair<int64_t, int64_t>> passes;
    bool has_forward = false, has_gradients = false;
    int64_t first_ns = INT64_MAX;
    int64_t turn_ns = INT64_MIN;         // the backward pass begins
    int64_t last_update_ns = INT64_MIN;  // the last update begins
  };

  // Both passes in one program, the forward one without a product.
  static bool IsPlain(const Run& run) { return run.has_forward && run.has_gradients && run.turn_ns == INT64_MIN; }
  bool IsOurs(ScopeIndex scope, ProcessIndex process) const;
  void Note(ScopeIndex scope, MomentKind kind);
  void NotePlain(ScopeIndex scope, MomentKind kind);
  void NoteGraph(CallIndex call, ProcessIndex process, const std::vector<ReplayedPart>& parts);
  static void NotePass(const Moment& moment, Run* run);
  bool IsProduct(uint32_t op) const;
  bool IsNetwork(const std::string& program) const;
  static void FindTurn(Run& run);

  const TraceModel& model_;
  absl::flat_hash_map<int64_t, Run> runs_;
  absl::flat_hash_set<std::string> networks_;  // programs with products
  absl::flat_hash_map<ScopeIndex, const std::vector<ReplayedPart>*> graphs_;
};

ProcessMoments CollectMoments(const TraceModel& model, const Attribution& attribution, ProcessIndex process);

}  // namespace dlhook::analyzer::steps
