// Layers and steps that several tables need: computed at first use, once for all of them.
#pragma once

#include <mutex>
#include <typeindex>
#include <typeinfo>

#include "analyzer/layers/attribution.h"
#include "analyzer/steps/phases.h"

namespace dlhook::analyzer::inline analysis {

struct AttributionOptions {
  bool use_framework_evidence = true;  // false: only pointers, shapes and order
};

// Never fails; what can't be attributed has layer kNone. Framework evidence first; pointers, shapes and order for calls
// that it leaves open, or if there is none, with names from the functions above them if known.
Attribution AttributeToLayers(const TraceModel& model, const AttributionOptions& options);

// Several tables may ask at the same time; each part is made once, while others wait.
class LayerAnalysis {
 public:
  // `model` must outlive it and not change.
  explicit LayerAnalysis(const TraceModel& model, AttributionOptions options = {}) : model_(model), options_(options) {}
  // For a slice of a run, for which both are known.
  LayerAnalysis(const TraceModel& model, Attribution attribution, std::vector<StepTrack> steps)
      : model_(model), attribution_(std::move(attribution)), steps_(std::move(steps)) {}
  // For some of a run's steps; `whole` must outlive it.
  LayerAnalysis(const LayerAnalysis& whole, std::vector<StepTrack> steps)
      : model_(whole.model_), whole_(&whole), steps_(std::move(steps)) {}
  // The same without a copy: `steps` must outlive it, too.
  LayerAnalysis(const LayerAnalysis& whole, const std::vector<StepTrack>* steps)
      : model_(whole.model_), whole_(&whole), known_steps_(steps) {}

  const Attribution& attribution() const;
  const std::vector<StepTrack>& steps() const;

  // What rooms above derive from it for several tables: the one T, made at its first use from `arguments`.
  template <typename T, typename... Arguments>
  const T& Derived(const Arguments&... arguments) const {
    Made& made = MadeOf(typeid(T));
    std::call_once(made.once, [&] { made.value = std::make_shared<const T>(arguments...); });
    return *static_cast<const T*>(made.value.get());
  }

 private:
  struct Made {
    std::once_flag once;
    std::shared_ptr<const void> value;
  };
  Made& MadeOf(std::type_index type) const {
    const std::lock_guard lock(mutex_);
    return derived_[type];
  }

  const TraceModel& model_;
  const AttributionOptions options_ = {};
  const LayerAnalysis* const whole_ = nullptr;                 // has the attribution
  const std::vector<StepTrack>* const known_steps_ = nullptr;  // elsewhere
  mutable std::once_flag attributed_, steps_found_;
  mutable std::optional<Attribution> attribution_;
  mutable std::optional<std::vector<StepTrack>> steps_;
  mutable std::mutex mutex_;
  mutable std::map<std::type_index, Made> derived_;
};

}  // namespace dlhook::analyzer::analysis
