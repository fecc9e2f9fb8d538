// Names of compiled functions: see compiled_names.h.
#include "analyzer/calls/compiled_names.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace dlhook::analyzer::inline calls {
namespace {

constexpr absl::string_view kResume = "torch_dynamo_resume_in_";

struct Numbering {
  absl::string_view compiler;
  absl::string_view prefix;
  char before_number;
};
constexpr Numbering kNumberings[] = {{"torch.compile", kTorchRegionPrefix, '/'},
                                     {"tf.function", "EagerLocalExecute: __inference_", '_'}};

}  // namespace

bool IsResumed(const CompiledCode& code) { return absl::StartsWith(code.function, kResume); }

std::string CompiledFunctionName(absl::string_view function) {
  if (!absl::ConsumePrefix(&function, kResume)) return std::string(function);
  const size_t at = function.rfind("_at_");
  if (at == absl::string_view::npos) return std::string(function);
  return absl::StrCat(function.substr(0, at), " from line ", function.substr(at + 4), " on");
}

CompiledRun CompiledRunOf(absl::string_view scope) {
  for (const Numbering& numbering : kNumberings) {
    absl::string_view function = scope;
    if (!absl::ConsumePrefix(&function, numbering.prefix)) continue;
    const size_t end = function.rfind(numbering.before_number);
    if (end != absl::string_view::npos) return {numbering.compiler, function.substr(0, end)};
  }
  return {};
}

std::string FileLine(const CompiledCode& code) {
  if (code.file.empty()) return "";
  return absl::StrCat(absl::string_view(code.file).substr(code.file.rfind('/') + 1), ":", code.line);
}

const CompiledCode* FindCompilation(const TraceModel& model, ProcessIndex process, absl::string_view region) {
  for (const CompiledCode& code : model.compiled) {
    const bool is_it = code.kind == CompiledKind::kCompilation && code.process == process && !code.is_backward;
    if (is_it && code.region == region) return &code;
  }
  return nullptr;
}

bool IsTorchRegion(const TraceModel& model, ScopeIndex scope) {
  return scope != kNone && model.RoleOf(scope) == ScopeRole::kTorchRegion;
}

bool IsBetweenGraphs(const TraceModel& model, ScopeIndex scope) {
  const ScopeIndex region = model.scopes.parent[scope];
  const StackIndex stack = model.scopes.look[scope].stack;
  if (stack == kNone || !IsTorchRegion(model, region) || model.scopes.look[region].stack == kNone) return false;
  const auto& frames = model.python_stacks[stack].frames;
  const size_t outer = model.python_stacks[model.scopes.look[region].stack].frames.size();
  if (frames.size() <= outer || model.python_stacks[stack].is_cut) return false;
  return std::none_of(frames.begin(), frames.end() - static_cast<ptrdiff_t>(outer), [&](const PythonFrame& frame) {
    const std::string& file = model.names[frame.file];
    return absl::StrContains(file, "/torch/_") || absl::StrContains(file, "/torch/fx/") || absl::StartsWith(file, "<");
  });
}

}  // namespace dlhook::analyzer::calls
