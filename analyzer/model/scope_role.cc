#include "analyzer/model/scope_role.h"

#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace dlhook::analyzer::inline model {
namespace {

constexpr char kEvaluatePrefix[] = "autograd::engine::evaluate_function: ";

enum class Where : uint8_t { kBegins, kEnds, kContains, kWhole, kLastPart };  // the last part of a path begins so

struct Pattern {
  Where where;
  absl::string_view text;
  ScopeRole role;
};

// The first match counts.
constexpr Pattern kPatterns[] = {
    {Where::kBegins, "Optimizer.step#", ScopeRole::kOptimizerStep},
    {Where::kBegins, "Optimizer.zero_grad#", ScopeRole::kZeroGrad},
    {Where::kBegins, "Optimizer.", ScopeRole::kOptimizer},
    {Where::kBegins, "enumerate(DataLoader)#", ScopeRole::kInput},
    {Where::kLastPart, "IteratorGetNext", ScopeRole::kInput},  // a TensorFlow node, or an event of an eager call
    {Where::kBegins, "Iterator::", ScopeRole::kInputPipeline},
    {Where::kBegins, kEvaluatePrefix, ScopeRole::kEvaluate},
    {Where::kContains, "gradient_tape/", ScopeRole::kGradientNode},
    {Where::kBegins, "gradients/", ScopeRole::kGradientNode},
    {Where::kContains, "/gradients/", ScopeRole::kGradientNode},
    {Where::kBegins, kTorchRegionPrefix, ScopeRole::kTorchRegion},
    {Where::kBegins, kCompiledFunction, ScopeRole::kCompiledCode},
    {Where::kContains, "CompiledFxGraph", ScopeRole::kCompiledCode},
    {Where::kEnds, "AccumulateGrad", ScopeRole::kAccumulate},
    {Where::kWhole, "aten::to", ScopeRole::kConversion},
    {Where::kWhole, "aten::_to_copy", ScopeRole::kConversion},
    {Where::kWhole, "aten::copy_", ScopeRole::kConversion},
    {Where::kWhole, "aten::clone", ScopeRole::kConversion},
    {Where::kWhole, "aten::contiguous", ScopeRole::kConversion},
    {Where::kBegins, "gloo:send", ScopeRole::kMessage},
    {Where::kBegins, "gloo:recv", ScopeRole::kMessage},
    {Where::kBegins, "XLA ", ScopeRole::kXla},
    {Where::kBegins, "ProfilerStep#", ScopeRole::kProfilerStep},
};

bool Fits(absl::string_view name, const Pattern& pattern) {
  switch (pattern.where) {
    case Where::kBegins:
      return absl::StartsWith(name, pattern.text);
    case Where::kEnds:
      return absl::EndsWith(name, pattern.text);
    case Where::kContains:
      return absl::StrContains(name, pattern.text);
    case Where::kWhole:
      return name == pattern.text;
    case Where::kLastPart:
      return absl::StartsWith(name.substr(name.rfind('/') + 1), pattern.text);
  }
  return false;
}

}  // namespace

ScopeRole RoleOfName(absl::string_view name) {
  for (const Pattern& pattern : kPatterns) {
    if (Fits(name, pattern)) return pattern.role;
  }
  return absl::StrContains(name, "::") ? ScopeRole::kOther : ScopeRole::kFunction;
}

absl::string_view TorchRegion(absl::string_view name) {
  return absl::ConsumePrefix(&name, kTorchRegionPrefix) ? name : absl::string_view();
}

absl::string_view WithoutEngine(absl::string_view name) { return absl::StripPrefix(name, kEvaluatePrefix); }

}  // namespace dlhook::analyzer::model
