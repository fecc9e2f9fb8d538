// Where training steps begin: see step_assembly.h.

#include "analyzer/steps/step_assembly.h"

namespace dlhook::analyzer::inline steps {
namespace {

// the part of the training steps that must begin alike to make it a habit
constexpr double kMostOfAll = 0.75;
constexpr size_t kMinSteps = 3;

using Signatures = std::vector<uint64_t>;  // of runs; the one closest to the trained run first

// How nearly all steps of a kind begin: the runs before the trained one.
struct Habit {
  Signatures runs;
  Signatures behind;  // of these, the ones that the first step lacks and that come once more after the last step
};

Habit HabitOf(const std::vector<Signatures>& beginnings, const std::set<uint64_t>& behind_last) {
  Habit habit;
  if (beginnings.size() < kMinSteps) return habit;
  while (true) {
    const size_t at = habit.runs.size();
    std::map<uint64_t, size_t> counts;
    for (const Signatures& runs : beginnings) {
      if (runs.size() > at && std::equal(habit.runs.begin(), habit.runs.end(), runs.begin())) ++counts[runs[at]];
    }
    const auto most = absl::c_max_element(counts, [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == counts.end()) return habit;
    if (static_cast<double>(most->second) < kMostOfAll * static_cast<double>(beginnings.size())) return habit;
    if (beginnings.front().size() <= at && behind_last.contains(most->first)) habit.behind.push_back(most->first);
    habit.runs.push_back(most->first);
  }
}

class BeginningFinder {
 public:
  BeginningFinder(const TraceModel& model, const Moments& moments, const std::vector<StepItem>& items,
                  const std::vector<TrainingItems>& trainings)
      : model_(model), moments_(moments), items_(items), trainings_(trainings) {}

  std::vector<size_t> Find() {
    FindHabits();
    std::vector<size_t> begins;
    for (const TrainingItems& training : trainings_) begins.push_back(BeginOf(training));
    return begins;
  }

 private:
  bool IsRun(size_t item) const { return items_[item].kind == MomentKind::kForward; }

  void FindHabits() {
    std::set<uint64_t> behind_last;
    for (size_t i = trainings_.empty() ? items_.size() : trainings_.back().end; i < items_.size(); ++i) {
      if (IsRun(i)) behind_last.insert(SignatureOfRun(items_[i]));
    }
    std::map<uint64_t, std::vector<Signatures>> beginnings;
    std::set<uint64_t> with_runs;  // what was not recorded in full tells no habit beside what was
    for (const TrainingItems& training : trainings_) {
      if (IsRun(training.trained)) with_runs.insert(training.update);
    }
    for (const TrainingItems& training : trainings_) {
      if (!IsRun(training.trained) && with_runs.contains(training.update)) continue;
      Signatures& runs = beginnings[training.update].emplace_back();
      for (size_t i = training.trained; i-- > training.begin;) {
        if (IsRun(i)) runs.push_back(SignatureOfRun(items_[i]));
      }
    }
    for (const auto& [update, runs] : beginnings) habits_[update] = HabitOf(runs, behind_last);
  }

  size_t BeginOf(const TrainingItems& training) const {
    const Habit& habit = habits_.at(training.update);
    size_t runs = 0;
    for (size_t i = training.trained; i-- > training.begin;) {
      if (!IsRun(i)) continue;
      const bool is_habit = runs < habit.runs.size() && habit.runs[runs] == SignatureOfRun(items_[i]);
      ++runs;
      const bool belongs = IsTrainedNetwork(training, i) ? is_habit && !IsEvaluation(training, habit, i)
                                                         : is_habit || (IsRun(i + 1) && items_[i + 1].continues_pass);
      if (!belongs) return i + 1;
    }
    return training.begin;
  }

  bool IsTrainedNetwork(const TrainingItems& training, size_t run) const {
    for (size_t i = training.trained; i < training.end; ++i) {
      for (LayerIndex layer : items_[run].layers) {
        if (std::binary_search(items_[i].layers.begin(), items_[i].layers.end(), layer)) return true;
      }
    }
    return false;
  }

  bool IsEvaluation(const TrainingItems& training, const Habit& habit, size_t run) const {
    const StepItem& trained = items_[training.trained];
    if (items_[run].batch > 0 && trained.batch > 0 && items_[run].batch != trained.batch) return true;
    for (size_t i = run + 1; i < training.trained; ++i) {
      if (items_[i].kind == MomentKind::kInput) return true;
    }
    if (absl::c_linear_search(habit.behind, SignatureOfRun(items_[run]))) return true;
    return IsCalledElsewhere(training, run);
  }

  // The frames of a stack, for finding where two stacks diverge from the outermost frame on.
  using Frames = std::vector<PythonFrame>;
  static size_t CommonFrames(const Frames& a, const Frames& b) {
    size_t common = 0;
    while (common < std::min(a.size(), b.size())) {
      const PythonFrame& one = a[a.size() - 1 - common];
      const PythonFrame& other = b[b.size() - 1 - common];
      if (one.file != other.file || one.function != other.function || one.line != other.line) break;
      ++common;
    }
    return common;
  }

  bool IsCalledElsewhere(const TrainingItems& training, size_t run) const {
    size_t update = training.end - 1;
    while (update > training.trained && items_[update].kind != MomentKind::kUpdate) --update;
    const Frames* const of_run = FramesOf(run);
    const Frames* const trained = FramesOf(training.trained);
    const Frames* const updating = FramesOf(update);
    if (of_run == nullptr || trained == nullptr || updating == nullptr) return false;
    const size_t with_run = CommonFrames(*trained, *of_run);
    const size_t with_update = CommonFrames(*trained, *updating);
    if (with_run != with_update) return with_run < with_update;
    if (with_run >= std::min(of_run->size(), updating->size())) return false;
    const PythonFrame& one = (*of_run)[of_run->size() - 1 - with_run];
    const PythonFrame& other = (*updating)[updating->size() - 1 - with_run];
    return one.file == other.file && one.function == other.function && one.line > other.line;
  }

  // Of the first moment with a stack; nullptr: no complete stack.
  const Frames* FramesOf(size_t item) const {
    const size_t end = item + 1 < items_.size() ? items_[item + 1].first : moments_.size();
    for (size_t i = items_[item].first; i < end; ++i) {
      if (moments_.KindOf(i) != items_[item].kind) continue;
      const Moment moment = moments_[i];
      if (!moment.is_scope) continue;
      const StackIndex stack = model_.scopes.look[moment.index].stack;
      if (stack == kNone) continue;
      return model_.python_stacks[stack].is_cut ? nullptr : &model_.python_stacks[stack].frames;
    }
    return nullptr;
  }

  const TraceModel& model_;
  const Moments& moments_;
  const std::vector<StepItem>& items_;
  const std::vector<TrainingItems>& trainings_;
  std::map<uint64_t, Habit> habits_;  // by signature of the update
};

}  // namespace

std::vector<size_t> FindStepBeginnings(const TraceModel& model, const Moments& moments,
                                       const std::vector<StepItem>& items,
                                       const std::vector<TrainingItems>& trainings) {
  return BeginningFinder(model, moments, items, trainings).Find();
}

uint64_t SignatureOfRun(const StepItem& run) {
  uint64_t signature = 0;
  for (LayerIndex layer : run.layers) signature = signature * 1000003 + layer + 1;
  return signature;
}

}  // namespace dlhook::analyzer::steps
