// Steps in runs of TensorFlow's functions: see function_steps.h.
#include "analyzer/steps/function_steps.h"

namespace dlhook::analyzer::inline steps {

namespace {

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

}  // namespace

FunctionSteps::FunctionSteps(const Moments& moments) {
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

size_t FunctionSteps::NumberOf(const Moment& moment) const {
  const auto is_before = [](const Step& step, int64_t ns) { return step.end_ns < ns; };
  return static_cast<size_t>(absl::c_lower_bound(steps_, moment.start_ns, is_before) - steps_.begin());
}

bool FunctionSteps::IsAhead(size_t number, const Moment& moment) const {
  if (moment.kind == MomentKind::kBackward) return moment.start_ns < steps_[number].backward_from_ns;
  return moment.kind == MomentKind::kUpdate && moment.start_ns < steps_[number].updates_from_ns;
}

}  // namespace dlhook::analyzer::steps
