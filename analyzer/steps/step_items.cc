// Combines moments into items: see step_items.h.
#include "analyzer/steps/step_items.h"

namespace dlhook::analyzer::inline steps {
namespace {

// From this share of single runs among its run sequences on, a network may begin passes.
constexpr double kMostRuns = 0.75;
constexpr size_t kMostRarely = 4;  // a network that begins passes does so in at least one of so many
constexpr size_t kSampleMoments = 1 << 16;

// By function: the name of the update that each of its steps has and that comes last in the mean.
std::map<int64_t, uint32_t> LastUpdates(const Moments& moments) {
  std::map<int64_t, uint32_t> result;
  int64_t function = -1;
  std::map<uint32_t, std::pair<int64_t, double>> updates;  // by name: how many, and the sum of their times
  const auto end_function = [&] {
    const auto last = absl::c_max_element(updates, [](const auto& a, const auto& b) { return a.second < b.second; });
    if (last != updates.end()) result[function] = last->first;
    updates.clear();
  };
  for (const Moment& moment : moments) {
    if (moment.function < 0 || moment.kind != MomentKind::kUpdate) continue;
    if (moment.function != function) end_function();
    function = moment.function;
    auto& [count, sum] = updates[moment.name];
    ++count;
    sum += static_cast<double>(moment.start_ns);
  }
  end_function();
  return result;
}

// Steps in runs of TensorFlow's functions. Its executor starts whatever is ready: variables are read and some gradients
// computed before the forward pass, some weights updated before the gradients of others, and a loop repeats layers.
class FunctionSteps {
 public:
  explicit FunctionSteps(const Moments& moments) {
    if (!moments.has_functions()) return;
    const std::map<int64_t, uint32_t> last_update = LastUpdates(moments);
    Step step;
    int64_t last_forward_ns = 0;
    std::vector<int64_t> gradients;  // when they begin
    const auto end_step = [&](bool has_last_update) {
      const bool follows_update = !has_last_update && last_update.contains(step.function) && !steps_.empty() &&
                                  steps_.back().function == step.function;
      if (!gradients.empty()) {
        step.backward_from_ns = std::min(last_forward_ns, gradients[gradients.size() / 2]);
        step.updates_from_ns = std::min(gradients.back(), step.end_ns);
      }
      if (follows_update) {
        steps_.back().end_ns = step.end_ns;
      } else if (step.function >= 0) {
        steps_.push_back(step);
      }
      step = {};
      last_forward_ns = 0;
      gradients.clear();
    };
    bool has_input = false;
    for (const Moment& moment : moments) {
      if (moment.function < 0) continue;
      const bool is_next = moment.function != step.function;
      const bool is_input = moment.kind == MomentKind::kInput;
      if (is_next || (is_input && has_input && !last_update.contains(moment.function))) end_step(false);
      has_input = (has_input && !is_next) || is_input;
      step.function = moment.function;
      step.end_ns = moment.start_ns;
      if (moment.kind == MomentKind::kForward) last_forward_ns = moment.start_ns;
      if (moment.kind == MomentKind::kBackward) gradients.push_back(moment.start_ns);
      const bool is_update = moment.kind == MomentKind::kUpdate && moment.name == last_update.at(moment.function);
      if (is_update) end_step(true);
    }
    end_step(false);
  }

  // For moments in a function: those of one step have the same number. A function is as many steps as its last update repeats
  // (passes without gradients in it belong to them); one that updates no weights, as many as it fetches batches, or one.
  size_t NumberOf(const Moment& moment) const {
    const auto is_before = [](const Step& step, int64_t ns) { return step.end_ns < ns; };
    return static_cast<size_t>(absl::c_lower_bound(steps_, moment.start_ns, is_before) - steps_.begin());
  }

  // Whether it is ahead of what it belongs to: a gradient before the last part of the forward pass, an update before the
  // last gradient. No more than half of the gradients are, for a forward pass may have a part behind them.
  bool IsAhead(size_t number, const Moment& moment) const {
    if (moment.kind == MomentKind::kBackward) return moment.start_ns < steps_[number].backward_from_ns;
    return moment.kind == MomentKind::kUpdate && moment.start_ns < steps_[number].updates_from_ns;
  }

 private:
  struct Step {
    int64_t end_ns = 0;
    int64_t function = -1;
    int64_t backward_from_ns = 0;
    int64_t updates_from_ns = 0;
  };

  std::vector<Step> steps_;  // ascending
};

class ItemMaker {
 public:
  ItemMaker(const Moments& moments, const Attribution& attribution, const NumberSet& trained_links, bool updates_apart)
      : moments_(moments), function_steps_(moments), trained_links_(trained_links), updates_apart_(updates_apart) {
    std::map<std::string, Network> networks = {{"", 0}};
    for (const Layer& layer : attribution.layers) {
      const auto network = networks.try_emplace(layer.model, static_cast<Network>(networks.size())).first->second;
      layers_.push_back({network, layer.type == "loss", ComputesWeight(layer)});
    }
    networks_.resize(networks.size());
    for (size_t i = 0; i < moments_.size(); ++i) {
      if (moments_.KindOf(i) != MomentKind::kForward) continue;
      const Moment moment = moments_[i];
      if (IsLoss(moment)) continue;
      Passes& of = networks_[NetworkOf(moment)];
      if (of.begin == SIZE_MAX) of.begin = i;
      if (moment.rank == moments_[of.begin].rank) of.last = i;
      of.last_rank = std::max(of.last_rank, moment.rank);
      of.final_rank = moment.rank;
    }
    for (size_t i = moments_.size(); i-- > 0;) {
      if (moments_.KindOf(i) != MomentKind::kForward || IsLoss(moments_[i])) continue;
      Passes& of = networks_[NetworkOf(moments_[i])];
      if (moments_[i].rank == of.final_rank) of.end = i;
    }
  }

  std::vector<StepItem> Run(const std::vector<int64_t>& cuts) {
    size_t cut = 0;
    for (size_t i = 0; i < moments_.size(); ++i) {
      bool at_cut = false;
      for (; cut < cuts.size() && cuts[cut] <= moments_.StartOf(i); ++cut) at_cut = true;
      is_cut_ |= at_cut;
      // For as many items per moment as so far: growing by doubling would take up to three times the memory.
      if (i == kSampleMoments) items_.reserve(items_.size() * (moments_.size() / kSampleMoments + 1) / 8 * 9);
      if (moments_.KindOf(i) != MomentKind::kOther) Take(i);
    }
    JoinPasses();
    return std::move(items_);
  }

 private:
  using Network = uint32_t;
  using Beginning = std::pair<uint32_t, uint32_t>;  // rank and name of a run's first moment

  Beginning BeginningOf(const StepItem& run) const {
    const Moment first = moments_[run.first];
    return {first.rank, first.name};
  }

  bool FollowsRun(size_t i) const {
    return i > 0 && items_[i].kind == MomentKind::kForward && items_[i - 1].kind == MomentKind::kForward &&
           !items_[i].at_cut;
  }

  struct Habit {
    size_t runs = 0;
    size_t rows = 0;   // uninterrupted sequences of runs
    size_t alone = 0;  // sequences of a single run
    bool BeginsPasses() const {
      return rows > 1 && static_cast<double>(alone) >= kMostRuns * static_cast<double>(rows);
    }
  };

  std::map<Beginning, Habit> Habits() const {
    std::map<Beginning, Habit> habits;
    for (size_t i = 0, next = 0; i < items_.size(); i = next) {
      next = i + 1;
      if (items_[i].kind != MomentKind::kForward) continue;
      while (next < items_.size() && FollowsRun(next) && BeginningOf(items_[next]) == BeginningOf(items_[i])) ++next;
      Habit& habit = habits[BeginningOf(items_[i])];
      habit.runs += next - i;
      ++habit.rows;
      habit.alone += next == i + 1 ? 1 : 0;
    }
    return habits;
  }

  void JoinPasses() {
    const std::map<Beginning, Habit> habits = Habits();
    size_t first = 0;
    for (size_t i = 0; i < items_.size(); ++i) {
      if (FollowsRun(i) && BeginningOf(items_[i]) != BeginningOf(items_[first])) {
        const Habit &of_first = habits.at(BeginningOf(items_[first])), &of_next = habits.at(BeginningOf(items_[i]));
        const bool both_once = of_first.runs == 1 && of_next.runs == 1;
        // What runs before few of the other's passes is no part of them (averaged weights that are validated now and then).
        items_[i].continues_pass =
            both_once || (of_first.BeginsPasses() && kMostRarely * of_first.rows >= of_next.rows);
      }
      if (!items_[i].continues_pass) first = i;
    }
  }

  // Work without a layer belongs to the one without a name.
  Network NetworkOf(const Moment& moment) const { return moment.layer == kNone ? 0 : layers_[moment.layer].network; }

  // A graph counts its steps and updates its metrics whenever the executor runs these nodes; weights are updated after
  // their gradients.
  bool IsBookkeeping(const Moment& moment) const {
    if (moment.kind != MomentKind::kUpdate || !moment.is_graph_node) return false;
    return items_.empty() || (items_.back().kind != MomentKind::kBackward && items_.back().kind != MomentKind::kUpdate);
  }

  // Whether it belongs to no item of its function's step: what is ahead of its pass, and a batch that is fetched during one.
  bool IsAside(const Moment& moment) {
    if (moment.function < 0) return false;
    const size_t number = function_steps_.NumberOf(moment);
    if (number != function_step_) of_function_.clear();
    function_step_ = number;
    if (moment.kind == MomentKind::kInput && !of_function_.empty()) {
      items_[of_function_.begin()->second].lacks_input = true;
      input_end_ns_ = moment.end_ns;
      return true;
    }
    return function_steps_.IsAhead(number, moment);
  }

  // A weight that is computed is a part of the pass around it, or begins the next one: whoever looks at it runs none.
  bool IsWeight(const Moment& moment) {
    if (moment.kind != MomentKind::kForward || moment.layer == kNone || !layers_[moment.layer].is_weight) return false;
    const bool in_pass = !items_.empty() && items_.back().kind == MomentKind::kForward && !is_cut_;
    if (in_pass) items_.back().end_ns = std::max(items_.back().end_ns, moment.end_ns);
    if (!in_pass && !weight_ns_) weight_ns_ = moment.start_ns;
    return true;
  }

  void Take(size_t i) {
    const Moment moment = moments_[i];
    at_ = i;
    if (moment.kind == MomentKind::kArrival) {
      if (!arrival_ || items_.empty()) arrival_ = i;  // before the first pass, weights arrive long before the batch
      arrived_ns_ = moment.end_ns;
      return;
    }
    if (IsBookkeeping(moment) || IsWeight(moment) || IsAside(moment)) return;
    StepItem* item = is_cut_ ? nullptr : Continued(moment);
    if (item == nullptr) {
      if (arrival_ && BeginsStep(moment.kind)) Begin(*arrival_, MomentKind::kInput).end_ns = arrived_ns_;
      item = &Begin(i, moment.kind);
    }
    if (moment.kind == MomentKind::kForward && weight_ns_) item->start_ns = std::min(item->start_ns, *weight_ns_);
    weight_ns_.reset();
    arrival_.reset();
    if (moment.function >= 0) of_function_[moment.kind] = static_cast<size_t>(item - items_.data());
    const bool is_late =
        moment.function >= 0 && moment.kind == MomentKind::kForward && of_function_.contains(MomentKind::kBackward);
    if (!is_late) item->end_ns = std::max(item->end_ns, moment.end_ns);
    if (moment.kind == MomentKind::kForward) AddToRun(moment, *item);
  }

  StepItem& Begin(size_t i, MomentKind kind) {
    const Moment moment = moments_[i];
    StepItem& item = items_.emplace_back();
    item.kind = kind;
    item.start_ns = moment.start_ns;
    item.end_ns = moment.end_ns;
    item.first = static_cast<uint32_t>(i);
    item.at_cut = is_cut_;
    is_cut_ = false;
    has_updated_ |= kind == MomentKind::kUpdate;
    return item;
  }

  // Values that arrive in the middle of a pass (labels for the loss) are no input of the next step.
  bool BeginsStep(MomentKind next) const {
    if (next == MomentKind::kForward || next == MomentKind::kInput) return true;
    const bool is_between = items_.empty() || items_.back().kind == MomentKind::kUpdate;
    return next == MomentKind::kZeroGrad && is_between;
  }

  void AddToRun(const Moment& moment, StepItem& item) {
    if (moment.link >= 0) NoteLink(moment, item);
    if (moment.link >= 0 && !item.is_linked) item.is_linked = trained_links_.Has(moment.link);
    const bool is_own = NetworkOf(moment) == NetworkOf(moments_[item.first]);
    if (!is_own && moment.run < 0 && moment.function < 0 && !IsLoss(moment)) return;  // IsShared
    if (is_own) own_rank_ = moment.rank;
    if (moment.layer != kNone && (!last_forward_ || last_forward_->layer != moment.layer || item.layers.empty())) {
      const auto at = absl::c_lower_bound(item.layers, moment.layer);
      if (at == item.layers.end() || *at != moment.layer) {
        item.layers.insert(at, moment.layer);
        if (moment.start_ns >= input_end_ns_) item.lacks_input = false;
      }
    }
    if (moment.rank == networks_[NetworkOf(moment)].last_rank)
      last_layer_in_ = static_cast<size_t>(&item - items_.data());
    last_forward_ = moment;
  }

  // An operator that makes no node has the number of the next one, which a later operator makes: a metric behind the
  // update is not trained because the next step's first layer is. What is before every update belongs to the first step: Keras builds
  // its layers by passes without data.
  void NoteLink(const Moment& moment, StepItem& item) {
    item.has_links = true;
    const size_t at = static_cast<size_t>(&item - items_.data());
    const bool is_same = link_.number == moment.link && link_.thread == moment.thread;
    if (link_.item == at) {
      link_.is_only = link_.is_only && is_same;
      return;
    }
    if (link_.is_only && is_same) items_[link_.item].is_linked = false;
    link_ = {at, moment.link, moment.thread, has_updated_};
  }

  // The item that `moment` continues; nullptr: it begins a new one.
  StepItem* Continued(const Moment& moment) {
    if (items_.empty()) return nullptr;
    StepItem& last = items_.back();
    if (moment.function >= 0) {
      const auto item = of_function_.find(moment.kind);
      if (item != of_function_.end()) return &items_[item->second];
      // Gradients of several functions are one backward pass.
      const bool goes_on = moment.kind == MomentKind::kBackward || moment.kind == MomentKind::kUpdate;
      return goes_on && last.kind == moment.kind ? &last : nullptr;
    }
    if (moment.kind == MomentKind::kInput) return nullptr;  // fetching an input continues nothing
    if (updates_apart_ && moment.kind == MomentKind::kUpdate && moment.is_scope) return nullptr;
    if (last.kind == moment.kind) {
      return moment.kind == MomentKind::kForward && BeginsRun(last, moment) ? nullptr : &last;
    }
    // Weights may be updated while gradients of others are still being computed (an executor runs what is ready;
    // optimizers fused into the backward pass).
    const bool goes_on = moment.kind == MomentKind::kBackward && last.kind == MomentKind::kUpdate && items_.size() > 1;
    if (goes_on && items_[items_.size() - 2].kind == MomentKind::kBackward) return &items_[items_.size() - 2];
    return nullptr;
  }

  bool BeginsRun(const StepItem& run, const Moment& moment) const {
    const Moment first = moments_[run.first];
    if (moment.run >= 0) return moment.run != first.run;
    if (!IsLoss(moment) && NetworkOf(moment) != NetworkOf(first)) return !IsShared(moment, first);
    if (!last_forward_) return false;
    if (moment.rank != first.rank) {
      // Others never begin as the first pass does, which made what they keep (a cache): behind the last layer one of those begins.
      const Passes& of = networks_[NetworkOf(moment)];
      return run.first == of.begin && of.last < of.end && last_forward_->rank == of.final_rank &&
             moment.rank < of.final_rank;
    }
    const bool may_differ = moment.is_scope && last_forward_->rank != moment.rank;
    if (moment.name != first.name && !(may_differ && PassesOn(moment, first))) return false;
    // A cell in a loop repeats before the pass is complete; behind the last layer a pass may go on (x[:, -1]).
    if (IsLoss(*last_forward_) || last_layer_in_ == static_cast<size_t>(&run - items_.data())) return true;
    return last_forward_->rank == networks_[NetworkOf(*last_forward_)].final_rank;
  }

  // Whether it is a module that the run's network has, too (one activation for all networks), which is named after the first
  // that had it: the run goes on behind it.
  bool IsShared(const Moment& moment, const Moment& first) const {
    constexpr size_t kMost = 3;  // of them in a row
    for (size_t i = at_ + 1; i < moments_.size() && i <= at_ + kMost; ++i) {
      const Moment next = moments_[i];
      if (next.kind != MomentKind::kForward) return false;
      if (NetworkOf(next) == NetworkOf(first)) return next.rank > own_rank_;
      if (NetworkOf(next) != NetworkOf(moment)) return false;
    }
    return false;
  }

  // Whether other layers follow before the operation with which the run began: the first pass may have begun with what later ones
  // keep (a weight that is made once).
  bool PassesOn(const Moment& moment, const Moment& first) const {
    for (size_t i = at_ + 1; i < moments_.size(); ++i) {
      const Moment next = moments_[i];
      if (next.kind != MomentKind::kForward) return false;
      if (next.layer == kNone || NetworkOf(next) != NetworkOf(moment)) continue;
      if (next.rank != moment.rank) return true;
      if (next.name == first.name) return false;
    }
    return false;
  }

  bool IsLoss(const Moment& moment) const { return moment.layer != kNone && layers_[moment.layer].is_loss; }

  const Moments& moments_;
  const FunctionSteps function_steps_;
  const NumberSet& trained_links_;
  const bool updates_apart_;
  size_t function_step_ = SIZE_MAX;           // the last one …
  int64_t input_end_ns_ = 0;                  // of the last batch that was fetched during a pass
  std::map<MomentKind, size_t> of_function_;  // … and its items
  struct OfLayer {
    Network network;
    bool is_loss, is_weight;
  };
  std::vector<OfLayer> layers_;
  struct Passes {
    uint32_t last_rank = 0;
    uint32_t final_rank =
        0;  // of the last pass: layers that ran first in a later pass (a cache's) have ranks behind the last one's
    // Moments: the first pass's begins; the last of that layer; the first of the layer that ends passes.
    size_t begin = SIZE_MAX, last = 0, end = SIZE_MAX;
  };
  std::vector<Passes> networks_;
  std::optional<Moment> last_forward_;
  uint32_t own_rank_ = 0;            // of the last run's network
  size_t at_ = 0;                    // the moment that is taken
  size_t last_layer_in_ = SIZE_MAX;  // the last item that has its network's layer of the last rank
  struct {
    size_t item = SIZE_MAX;
    int64_t number = -1;
    ThreadIndex thread = 0;
    bool is_only = false;             // of the item, which is behind an update
  } link_;                            // of the last item that has any
  std::optional<int64_t> weight_ns_;  // since when weights are computed for a pass that has not begun
  std::optional<size_t> arrival_;     // the first moment of values that arrived since the last item
  int64_t arrived_ns_ = 0;            // the end of the last one
  bool is_cut_ = false;
  bool has_updated_ = false;
  std::vector<StepItem> items_;
};

}  // namespace

// It is called with its network, or first by itself.
bool ComputesWeight(const Layer& layer) {
  return absl::StrContains(layer.module, "parametrizations.") || absl::StartsWith(layer.model, "ParametrizationList");
}

std::vector<StepItem> MakeItems(const Moments& moments, const Attribution& attribution, const NumberSet& trained_links,
                                const std::vector<int64_t>& cuts, bool updates_apart) {
  return ItemMaker(moments, attribution, trained_links, updates_apart).Run(cuts);
}

}  // namespace dlhook::analyzer::steps
