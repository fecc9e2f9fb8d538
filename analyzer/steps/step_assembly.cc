// Combines items into steps: see step_assembly.h.
#include "analyzer/steps/step_assembly.h"

namespace dlhook::analyzer::inline steps {
namespace {

constexpr std::ptrdiff_t kMostTrials = 2;  // passes before the first training step

// Items [begin, end) that are one step.
struct Draft {
  size_t begin = 0;
  size_t end = 0;
  StepKind kind = StepKind::kUnknown;
  uint64_t signature = 0;  // which update, or which pass: distinguishes steps that alternate
  int32_t micro_steps = 1;
  int64_t samples = 0;  // of its passes with gradients; 0: not known
  int32_t updates = 1, updates_of_most = 1;
};

class Assembler {
 public:
  Assembler(const TraceModel& model, const Attribution& attribution, const Moments& moments,
            const std::vector<StepItem>& items, bool has_cuts)
      : model_(model), attribution_(attribution), moments_(moments), items_(items), has_cuts_(has_cuts) {
    for (const StepItem& item : items_) {
      has_updates_ |= item.kind == MomentKind::kUpdate;
      has_backward_ |= item.kind == MomentKind::kBackward;
    }
    if (items_.empty()) return;
    zero_grad_begins_ = ZeroGradBegins();
    process_ = model_.threads[moments_[items_.front().first].thread].process;
    if (HasWindows(model_, process_) && !has_cuts_) LearnUpdates();
  }

  std::vector<Step> Run() {
    std::vector<Draft> drafts = SplitOffUntrained(CutAtUpdates());
    LeaveOutUnsure(drafts);
    JoinTurns(drafts);
    std::vector<Step> steps;
    steps.reserve(drafts.size());
    for (const Draft& draft : drafts) steps.push_back(MakeStep(draft));
    SetEnds(drafts, steps);
    return steps;
  }

 private:
  // Whether gradients are zeroed at the beginning of a step rather than at its end.
  bool ZeroGradBegins() const {
    for (const StepItem& item : items_) {
      if (item.kind == MomentKind::kZeroGrad) return true;
      if (item.kind == MomentKind::kForward) return false;
    }
    return false;
  }

  // An optimizer's step, identified by its name and where it was called; {}: the moment is none.
  using Mark = std::pair<uint32_t, uint32_t>;
  Mark MarkAt(size_t i) const {
    if (moments_.KindOf(i) != MomentKind::kUpdate) return {};
    const Moment moment = moments_[i];
    if (!moment.is_scope || moment.is_graph_node) return {};
    return {moment.name + 1, model_.scopes.look[moment.index].stack};
  }
  Mark MarkOf(const StepItem& item) const { return item.kind == MomentKind::kUpdate ? MarkAt(item.first) : Mark(); }

  // Recorded by a light tap that left out what the step consists of.
  bool IsBetweenWindows(const StepItem& item) const {
    return EndOfWindow(model_, process_, item.start_ns) <= item.start_ns;
  }

  // How often each optimizer steps in a training step that was recorded in full: in most of them.
  void LearnUpdates() {
    std::map<Mark, std::map<int64_t, int64_t>> steps;  // by how often it is in them
    for (const Draft& draft : CutAtUpdates()) {
      std::map<Mark, int64_t> counts;
      bool is_whole = Has(draft, MomentKind::kBackward);
      for (const StepItem& item : ItemsOf(draft)) {
        const Mark mark = MarkOf(item);
        if (mark == Mark()) continue;
        is_whole = is_whole && !IsBetweenWindows(item);
        ++counts[mark];
      }
      for (const auto& [mark, count] : counts) {
        steps[mark][is_whole ? count : 0] += 1;
        for (const auto& [other, of_other] : counts) {
          if (is_whole) in_one_step_.insert({mark, other});
        }
      }
    }
    for (auto& [mark, by_count] : steps) {
      by_count.erase(0);
      const auto most = absl::c_max_element(by_count, [](const auto& a, const auto& b) { return a.second < b.second; });
      updates_per_step_[mark] = most == by_count.end() ? 1 : most->first;
    }
  }

  // Whether the step has all its updates, the last one just before this item (or gradients were zeroed after it), and nothing else
  // tells where the next begins.
  bool FollowsLightStep(const Draft& current, const StepItem& item) const {
    size_t end = current.end;
    while (end > current.begin + 1 && items_[end - 1].kind == MomentKind::kZeroGrad) --end;
    const StepItem& last = items_[end - 1];
    const Mark mark = MarkOf(item), ended = MarkOf(last);
    if (ended == Mark()) return false;
    if (mark == Mark() && item.kind != MomentKind::kBackward) return false;
    if (!IsBetweenWindows(last) && (mark == Mark() || !IsBetweenWindows(item))) return false;
    const auto are_in_one = [&](const Mark& a, const Mark& b) { return in_one_step_.contains({a, b}); };
    if (are_in_one(mark, mark) && are_in_one(ended, ended) && !are_in_one(mark, ended)) return true;
    const Mark& of = mark == Mark() ? ended : mark;
    return absl::c_count_if(ItemsOf(current), [&](const StepItem& own) { return MarkOf(own) == of; }) >=
           updates_per_step_.at(of);
  }

  // `is_done`: the step so far has what steps end with.
  bool Begins(const Draft& current, bool is_done, const StepItem& item) const {
    if (has_cuts_) return item.at_cut;
    if (!updates_per_step_.empty() && FollowsLightStep(current, item)) return true;
    if (!is_done) return false;
    return item.kind == MomentKind::kInput || item.kind == MomentKind::kForward ||
           (item.kind == MomentKind::kZeroGrad && zero_grad_begins_) || IsNextFunction(current, item);
  }

  // Gradients of another run of a tf.function, whose pass is plain arithmetic.
  bool IsNextFunction(const Draft& current, const StepItem& item) const {
    if (item.kind != MomentKind::kBackward) return false;
    const int64_t function = moments_[item.first].function;
    return function >= 0 && function != moments_[items_[current.end - 1].first].function;
  }

  absl::Span<const StepItem> ItemsOf(const Draft& draft) const {
    return absl::MakeConstSpan(items_).subspan(draft.begin, draft.end - draft.begin);
  }

  bool Has(const Draft& draft, MomentKind kind) const {
    return absl::c_any_of(ItemsOf(draft), [&](const StepItem& item) { return item.kind == kind; });
  }

  std::vector<Draft> CutAtUpdates() const {
    const MomentKind last = has_updates_ ? MomentKind::kUpdate : MomentKind::kBackward;
    std::vector<Draft> drafts;
    bool is_done = false;
    for (size_t i = 0; i < items_.size(); ++i) {
      if (drafts.empty() || Begins(drafts.back(), is_done, items_[i])) {
        drafts.push_back({i, i});
        is_done = false;
      }
      drafts.back().end = i + 1;
      is_done |= items_[i].kind == last;
    }
    return drafts;
  }

  bool IsRun(size_t item) const { return items_[item].kind == MomentKind::kForward; }
  bool ContinuesPass(size_t item) const { return item < items_.size() && items_[item].continues_pass; }

  // Whether gradients of the run are computed: the tap says so; if it says nothing about the pass, a backward pass
  // follows immediately.
  bool IsTrained(const Draft& draft, size_t run) const {
    if (items_[run].has_links) return items_[run].is_linked;
    for (size_t i = run + 1; i < draft.end && (!IsRun(i) || ContinuesPass(i)); ++i) {
      if (items_[i].has_links) return false;
      if (items_[i].kind == MomentKind::kBackward) return true;
      if (items_[i].kind == MomentKind::kInput) return false;
    }
    return false;
  }

  // The first run whose gradients are computed, or the backward pass itself; draft.end: none.
  size_t FirstTrained(const Draft& draft) const {
    size_t first = draft.begin;
    for (; first < draft.end && items_[first].kind != MomentKind::kBackward; ++first) {
      if (IsRun(first) && IsTrained(draft, first)) return first;
    }
    return model_.scope_windows.empty() ? first : PassBeforeUpdate(draft, first);
  }

  // Where a light tap left out the gradients of a pass: the last pass before them, or before the update. Where it left out
  // all passes: the update.
  size_t PassBeforeUpdate(const Draft& draft, size_t gradients) const {
    if (!Has(draft, MomentKind::kUpdate)) return gradients;
    size_t pass = gradients;
    for (size_t i = draft.begin; i < gradients && items_[i].kind != MomentKind::kUpdate; ++i) {
      if (IsRun(i) && items_[i].has_links) pass = i;
    }
    for (size_t i = draft.begin; pass == draft.end && i < draft.end; ++i) {
      if (MarkOf(items_[i]) != Mark()) pass = i;
    }
    return pass;
  }

  // Passes before the beginning of a training step, and those after the last backward pass, are separate steps.
  std::vector<Draft> SplitOffUntrained(const std::vector<Draft>& raw) const {
    std::vector<TrainingItems> trainings;
    trainings.reserve(raw.size());
    for (const Draft& draft : raw) {
      const size_t trained = FirstTrained(draft);
      if (trained == draft.end) continue;
      const size_t end = has_cuts_ ? AfterLastBackward(draft) : draft.end;
      trainings.push_back({draft.begin, end, trained, SignatureOf(draft.begin, end)});
    }
    const std::vector<size_t> beginnings = FindStepBeginnings(model_, moments_, items_, trainings);
    const StepKind untrained_kind = UntrainedKind();
    std::vector<Draft> drafts;
    drafts.reserve(raw.size());
    size_t next = 0;
    for (const Draft& draft : raw) {
      if (next == trainings.size() || trainings[next].begin != draft.begin) {
        AddUntrained(draft.begin, draft.end, untrained_kind, drafts);
        continue;
      }
      const size_t begin = beginnings[next], end = trainings[next].end;
      if (begin > draft.begin) AddUntrained(draft.begin, begin, untrained_kind, drafts);
      Draft& step = drafts.emplace_back(Draft{begin, end, StepKind::kTraining, trainings[next].update});
      const auto is_backward = [](const StepItem& item) { return item.kind == MomentKind::kBackward; };
      step.micro_steps = std::max(static_cast<int32_t>(absl::c_count_if(ItemsOf(step), is_backward)), 1);
      step.samples = SamplesOf(step);
      if (end < draft.end) AddUntrained(end, draft.end, untrained_kind, drafts);
      ++next;
    }
    return drafts;
  }

  // Passes that may be no validation though the program trains: one or two before the first training step that never
  // come again (shapes of lazy modules are inferred, a graph is traced), and one after the last step of which the rest
  // was not recorded; and graphs that got no batch, for there was none left.
  void LeaveOutUnsure(std::vector<Draft>& drafts) const {
    auto first = absl::c_find_if(drafts, IsTraining);
    if (first == drafts.end()) return;
    if (model_.scope_windows.empty() && HasModule(*first)) {
      std::erase_if(drafts, [&](const Draft& draft) { return !IsTraining(draft) && !HasModule(draft); });
    }
    std::erase_if(drafts, [&](const Draft& draft) { return !IsTraining(draft) && items_[draft.end - 1].lacks_input; });
    const size_t count = drafts.size();
    if (count > 1 && !IsTraining(drafts.back()) && IsTraining(drafts[count - 2]) &&
        IsCut(drafts.back(), drafts[count - 2]))
      drafts.pop_back();
    first = absl::c_find_if(drafts, IsTraining);
    const bool come_again = !std::all_of(first, drafts.end(), IsTraining);
    if (!come_again && first - drafts.begin() <= kMostTrials) drafts.erase(drafts.begin(), first);
  }

  static bool IsTraining(const Draft& draft) { return draft.kind == StepKind::kTraining; }

  // Plain arithmetic is no pass in a program whose networks are modules.
  bool HasModule(const Draft& draft) const {
    return absl::c_any_of(LayersOf(draft.begin, draft.end),
                          [this](LayerIndex layer) { return !attribution_.layers[layer].module.empty(); });
  }

  bool IsCut(const Draft& last, const Draft& training) const {
    const std::set<LayerIndex> layers = LayersOf(last.begin, last.end),
                               trained = LayersOf(training.begin, training.end);
    const auto has_links = [this](const Draft& draft) {
      return absl::c_any_of(ItemsOf(draft), [](const StepItem& item) { return item.has_links; });
    };
    if (has_links(training) && !has_links(last)) return false;  // without gradients
    const bool is_part =
        layers.size() < trained.size() && std::includes(trained.begin(), trained.end(), layers.begin(), layers.end());
    return is_part || EndsUnseen();
  }

  // Whether the recording ended before the process did, or with its death.
  bool EndsUnseen() const {
    const ProcessInfo& process = model_.processes[process_];
    const auto is_limit = [](const Loss& loss) { return loss.reason == LossReason::kTraceLimit; };
    const auto is_own = [&](const AggregateRow& row) {
      return row.cause == AggregateCause::kTraceLimit && model_.threads[row.thread].process == process_;
    };
    return !process.has_footer || process.end == ProcessEnd::kVanished || absl::c_any_of(process.losses, is_limit) ||
           absl::c_any_of(model_.aggregates, is_own);
  }

  StepKind UntrainedKind() const {
    if (has_backward_ || has_updates_) return StepKind::kValidation;
    return Has({0, items_.size()}, MomentKind::kForward) ? StepKind::kInference : StepKind::kUnknown;
  }

  size_t AfterLastBackward(const Draft& draft) const {
    size_t end = draft.end;
    while (end > draft.begin && items_[end - 1].kind != MomentKind::kBackward &&
           items_[end - 1].kind != MomentKind::kUpdate && items_[end - 1].kind != MomentKind::kZeroGrad) {
      --end;
    }
    // Layers that did not run before: the forward pass of the next step, which a cut went through.
    const std::set<LayerIndex> before = LayersOf(draft.begin, end), after = LayersOf(end, draft.end);
    const auto ran = [&](LayerIndex layer) { return before.contains(layer); };
    return !after.empty() && absl::c_none_of(after, ran) ? draft.end : end;
  }

  // Of the forward passes there, without the loss.
  std::set<LayerIndex> LayersOf(size_t begin, size_t end) const {
    std::set<LayerIndex> layers;
    for (size_t i = begin; i < end; ++i) layers.insert(items_[i].layers.begin(), items_[i].layers.end());
    std::erase_if(layers, [this](LayerIndex layer) { return attribution_.layers[layer].type == "loss"; });
    return layers;
  }

  // One step per pass, with what precedes it; what follows the last pass belongs to it. Items without any pass are a
  // step only if cuts separate steps.
  void AddUntrained(size_t begin, size_t end, StepKind kind, std::vector<Draft>& drafts) const {
    size_t first = begin;
    uint64_t signature = 0;
    for (size_t i = begin; i < end; ++i) {
      if (!IsRun(i) || (has_cuts_ && kind != StepKind::kValidation)) continue;
      signature = signature * 1000003 + SignatureOfRun(items_[i]);
      if (i + 1 < end && ContinuesPass(i + 1)) continue;
      drafts.push_back({first, i + 1, kind, signature});
      first = i + 1;
      signature = 0;
    }
    if (first == begin) {
      if (has_cuts_) drafts.push_back({begin, end, kind});
    } else if (!drafts.empty()) {
      // An input that was requested but not used (the end of an epoch) does not belong to the step before it.
      while (end > first && items_[end - 1].kind == MomentKind::kInput) --end;
      drafts.back().end = std::max(drafts.back().end, end);
    }
  }

  // Which optimizers ran, identified by name and call site.
  uint64_t SignatureOf(size_t begin, size_t end) const {
    absl::InlinedVector<Mark, 4> marks;
    const size_t after = end < items_.size() ? items_[end].first : moments_.size();
    for (size_t i = items_[begin].first; i < after; ++i) {
      if (const Mark mark = MarkAt(i); mark != Mark() && !absl::c_linear_search(marks, mark)) marks.push_back(mark);
    }
    absl::c_sort(marks);
    uint64_t signature = 0;
    for (const auto& [name, stack] : marks) signature = (signature * 1000003 + name) * 1000003 + stack;
    return signature;
  }

  // The batches of the passes that have gradients computed: before each backward pass its first known one. A pass that does not
  // begin as the first one did goes on with the rows of that: a second head, another network.
  int64_t SamplesOf(const Draft& draft) const {
    int64_t sum = 0, of_pass = 0;
    bool all_known = true, has_begun = true;
    std::optional<LayerIndex> first;
    for (size_t i = draft.begin; i < draft.end; ++i) {
      if (IsRun(i) && IsTrained(draft, i)) {
        const LayerIndex layer = moments_[items_[i].first].layer;
        if (!first && layer != kNone) first = layer;
        const bool begins = !first || items_[i].layers.empty() || absl::c_binary_search(items_[i].layers, *first);
        has_begun |= begins;
        if (begins && of_pass == 0) of_pass = items_[i].batch;
      }
      if (items_[i].kind != MomentKind::kBackward) continue;
      if (has_begun) all_known &= of_pass > 0;
      sum += of_pass;
      of_pass = 0;
      has_begun = false;
    }
    if (sum == 0) sum = of_pass;  // gradients that were not recorded
    return all_known ? sum : 0;
  }

  void JoinTurns(std::vector<Draft>& drafts) const {
    std::vector<uint64_t> signatures;
    for (const Draft& draft : drafts) {
      const bool has_turn = draft.kind == StepKind::kTraining || draft.kind == StepKind::kInference;
      signatures.push_back(has_turn ? draft.signature : kNoTurn);
    }
    const std::vector<size_t> turns = FindTurns(signatures);
    if (turns.empty()) return;
    std::vector<Draft> joined;
    std::map<uint64_t, std::pair<int32_t, int64_t>> kinds;  // of the joined step: updates, samples
    for (size_t i = 0; i < drafts.size(); ++i) {
      if (turns[i] == 0) {
        joined.push_back(drafts[i]);
        kinds = {{signatures[i], {1, drafts[i].samples}}};
        continue;
      }
      Draft& step = joined.back();
      step.end = drafts[i].end;
      step.micro_steps = std::max(step.micro_steps, drafts[i].micro_steps);
      ++step.updates;
      auto& [updates, samples] = kinds[signatures[i]];
      samples += drafts[i].samples;
      step.updates_of_most = std::max(step.updates_of_most, ++updates);
      // Those of the optimizer with most updates: the others see the same ones again, or as many (a generator's).
      step.samples = 0;
      for (const auto& [kind, sums] : kinds) {
        if (sums.first == step.updates_of_most) step.samples = std::max(step.samples, sums.second);
      }
    }
    drafts = std::move(joined);
  }

  Step MakeStep(const Draft& draft) const {
    Step step;
    step.start_ns = items_[draft.begin].start_ns;
    const MomentKind first = items_[draft.begin].kind;
    const bool begins_unseen = !updates_per_step_.empty() && draft.begin > 0 && draft.kind == StepKind::kTraining &&
                               (first == MomentKind::kUpdate || first == MomentKind::kBackward);
    if (begins_unseen) step.start_ns = items_[draft.begin - 1].end_ns;
    step.kind = draft.kind;
    step.micro_steps = draft.micro_steps;
    step.updates = draft.updates;
    step.updates_of_most = draft.updates_of_most;
    step.model = ModelOf(draft);
    SetBatch(draft, step);
    step.phases = PhasesOf(draft);
    step.end_ns = step.start_ns;
    for (const StepItem& item : ItemsOf(draft)) step.end_ns = std::max(step.end_ns, item.end_ns);
    return step;
  }

  // For a training step, the network that is trained.
  std::string ModelOf(const Draft& draft) const {
    std::set<std::string> models;
    for (size_t i = draft.begin; i < draft.end; ++i) {
      if (draft.kind == StepKind::kTraining && IsRun(i) && !IsTrained(draft, i)) continue;
      for (LayerIndex layer : items_[i].layers) {
        const Layer& described = attribution_.layers[layer];
        if (described.type != "loss" && !described.model.empty()) models.insert(described.model);
      }
    }
    return models.size() == 1 ? *models.begin() : "";
  }

  // The first known batch size of its runs; for a training step, of the trained runs.
  void SetBatch(const Draft& draft, Step& step) const {
    for (size_t i = draft.begin; i < draft.end; ++i) {
      if (draft.kind == StepKind::kTraining && IsRun(i) && !IsTrained(draft, i)) continue;
      step.batch = items_[i].batch;
      step.batch_is_rows = items_[i].is_rows;
      if (step.batch > 0) break;
    }
    step.samples = draft.kind == StepKind::kTraining ? draft.samples : step.batch;
  }

  static PhaseKind PhaseOf(const StepItem& item, StepKind kind) {
    static constexpr PhaseKind kPhases[] = {PhaseKind::kUnknown, PhaseKind::kInput,    PhaseKind::kUnknown,
                                            PhaseKind::kForward, PhaseKind::kBackward, PhaseKind::kUpdate,
                                            PhaseKind::kUpdate};
    static_assert(std::size(kPhases) == static_cast<size_t>(MomentKind::kZeroGrad) + 1);
    const bool is_pass_alone = item.kind == MomentKind::kForward && kind != StepKind::kTraining;
    return is_pass_alone ? PhaseKind::kInference : kPhases[static_cast<size_t>(item.kind)];
  }

  // The loss, between the last layer and its gradient, belongs to the forward pass whatever it consists of.
  std::vector<PhaseInterval> PhasesOf(const Draft& draft) const {
    std::vector<PhaseInterval> phases;
    for (size_t i = draft.begin; i < draft.end; ++i) {
      const StepItem& item = items_[i];
      PhaseInterval phase = {item.start_ns, item.end_ns, PhaseOf(item, draft.kind)};
      const bool in_pass = i > draft.begin && items_[i].continues_pass;
      if (!phases.empty())
        phase.start_ns = in_pass ? phases.back().end_ns : std::max(phase.start_ns, phases.back().end_ns);
      const bool before_backward =
          IsRun(i) && i + 1 < draft.end &&
          (items_[i + 1].kind == MomentKind::kBackward || items_[i + 1].kind == MomentKind::kZeroGrad);
      if (before_backward) phase.end_ns = items_[i + 1].start_ns;
      if (phase.end_ns <= phase.start_ns) continue;
      const bool goes_on =
          !phases.empty() && phases.back().kind == phase.kind && phases.back().end_ns == phase.start_ns;
      if (goes_on) {
        phases.back().end_ns = phase.end_ns;
      } else {
        phases.push_back(phase);
      }
    }
    return phases;
  }

  void SetEnds(const std::vector<Draft>& drafts, std::vector<Step>& steps) const {
    for (size_t i = 0; i + 1 < steps.size(); ++i) {
      if (steps[i].kind == StepKind::kInference) {
        MeetAtLongestPause(drafts[i], drafts[i + 1], steps[i], steps[i + 1]);
      } else if (steps[i].kind == steps[i + 1].kind) {
        steps[i].end_ns = steps[i + 1].start_ns;
      }
      steps[i].end_ns = std::min(steps[i].end_ns, steps[i + 1].start_ns);
    }
  }

  // What follows a network's last layer belongs to its request, and so does what precedes the first one; requests are
  // separated at the longest pause in between.
  void MeetAtLongestPause(const Draft& draft, const Draft& next, Step& step, Step& next_step) const {
    int64_t busy_until_ns = step.end_ns;
    int64_t longest_ns = -1;
    int64_t pause_start_ns = 0;
    for (size_t i = items_[draft.end - 1].first + 1; i <= items_[next.begin].first; ++i) {
      const Moment moment = moments_[i];
      if (moment.start_ns - busy_until_ns > longest_ns && moment.start_ns >= step.end_ns) {
        longest_ns = moment.start_ns - busy_until_ns;
        pause_start_ns = busy_until_ns;
      }
      busy_until_ns = std::max(busy_until_ns, moment.end_ns);
    }
    if (longest_ns < 0) return;
    step.end_ns = pause_start_ns;
    next_step.start_ns = std::min(pause_start_ns + longest_ns, next_step.start_ns);
  }

  const TraceModel& model_;
  const Attribution& attribution_;
  const Moments& moments_;
  const std::vector<StepItem>& items_;
  const bool has_cuts_;
  ProcessIndex process_ = 0;
  bool has_updates_ = false;
  bool has_backward_ = false;
  bool zero_grad_begins_ = false;
  std::map<Mark, int64_t> updates_per_step_;     // where a light tap recorded
  std::set<std::pair<Mark, Mark>> in_one_step_;  // of steps there
};

}  // namespace

std::vector<Step> AssembleSteps(const TraceModel& model, const Attribution& attribution, const Moments& moments,
                                const std::vector<StepItem>& items, bool has_cuts) {
  return Assembler(model, attribution, moments, items, has_cuts).Run();
}

}  // namespace dlhook::analyzer::steps
