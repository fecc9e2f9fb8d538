// Names of slices, each once: what the page shows for a call, a scope, an activity of a GPU.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>

#include "analyzer/model/trace_model.h"
#include "analyzer/time/thread_activity.h"

namespace dlhook::analyzer::inline page {

class SliceNames {
 public:
  explicit SliceNames(const TraceModel& model) : model_(model), rules_(model) {}

  uint32_t OfCall(CallIndex call);
  uint32_t OfScope(ScopeIndex scope);
  uint32_t OfGpu(GpuIndex activity);
  uint32_t Index(std::string name, const char* kind, std::string details);
  // [[name, class, details]]; classes: library, waiting, preparing, framework, range, input, kernel, copy, communication, step,
  // and phases of steps.
  const nlohmann::ordered_json& json() const { return names_; }

 private:
  const TraceModel& model_;
  const ActivityRules rules_;
  std::map<OpIndex, uint32_t> of_op_;
  std::map<std::pair<NameIndex, ScopeKind>, uint32_t> of_scope_;
  std::map<std::tuple<std::string, std::string, std::string>, uint32_t> index_;
  nlohmann::ordered_json names_ = nlohmann::ordered_json::array();
};

}  // namespace dlhook::analyzer::page
