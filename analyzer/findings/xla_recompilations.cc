// Rule recompilations, of JAX: XLA compiles a function again after the first steps, for shapes that it has not seen.
//
// Each compilation is a scope. Steps are known in windows without compilations only, so the loss is what compilations of a
// function take from the first known step on, spread over the steps for which the rest of that time is enough. Functions
// that are soon compiled for all their shapes are no loss: there must be several compilations, one of them in the later
// half of that time. Tracing and lowering, which JAX does before, are not in it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "analyzer/calls/python_places.h"
#include "analyzer/findings/rules.h"
#include "analyzer/model/scope_looks.h"
#include "analyzer/table/human.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kLeastPercentOfTime = 5;
constexpr size_t kLeastCompilations = 3;
constexpr size_t kShownShapes = 3;  // of an argument

constexpr char kShapesAdvice[] =
    "Pad the input to few sizes, and drop or pad a last batch that is smaller. JAX_LOG_COMPILES=1 names each "
    "compilation; static arguments compile again for each value, too.";

struct Function {
  std::vector<ScopeIndex> compilations;
  double ns = 0;
  int64_t last_ns = 0;  // the last one begins
};

struct Span {
  ProcessIndex process = 0;
  int64_t start_ns = 0;  // of the first known step
  int64_t end_ns = 0;    // of the process
};

std::map<std::string, Function> FunctionsOf(const TraceModel& model, const Span& span) {
  std::map<std::string, Function> functions;
  const ScopeColumns& scopes = model.scopes;
  const auto is_compilation = [](const ScopeLook& look) { return look.kind == ScopeKind::kXlaCompilation; };
  ForEachScopeThat(scopes, is_compilation, [&](ScopeIndex scope) {
    if (scopes.start_ns[scope] < span.start_ns) return;
    if (model.threads[scopes.thread[scope]].process != span.process) return;
    absl::string_view name = model.names[scopes.look[scope].name];
    absl::ConsumePrefix(&name, kXlaCompiles);
    Function& function = functions[std::string(name)];
    function.compilations.push_back(scope);
    function.ns += static_cast<double>(scopes.duration_ns[scope]);
    function.last_ns = std::max(function.last_ns, scopes.start_ns[scope]);
  });
  return functions;
}

// As XLA names the program of jit(train_step): jit_train_step.
std::string ProgramOf(absl::string_view function) { return absl::StrReplaceAll(function, {{"(", "_"}, {")", ""}}); }

// The arguments that differ between a function's programs: "x f32[17,64], f32[18,64] and 4 more"; empty: not known.
std::string ChangedArguments(const TraceModel& model, const Span& span, const std::string& function) {
  std::vector<const CompiledProgram*> programs;
  const std::string name_of_program = ProgramOf(function);
  for (const CompiledProgram& program : model.compiled_programs) {
    const bool is_its = program.process == span.process && program.name == name_of_program;
    if (is_its && (programs.empty() || program.arguments.size() == programs[0]->arguments.size())) {
      programs.push_back(&program);
    }
  }
  std::vector<std::string> changed;
  for (size_t argument = 0; !programs.empty() && argument < programs[0]->arguments.size(); ++argument) {
    std::vector<std::string> shapes;
    std::string name;
    for (const CompiledProgram* program : programs) {
      const std::string& text = program->arguments[argument];
      const size_t space = text.rfind(' ');
      name = text.substr(0, space);
      const std::string shape = text.substr(space + 1);
      if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) shapes.push_back(shape);
    }
    if (shapes.size() < 2) continue;
    const size_t shown = std::min(shapes.size(), kShownShapes);
    changed.push_back(absl::StrCat(name, " ", absl::StrJoin(shapes.begin(), shapes.begin() + shown, ", "),
                                   shapes.size() > shown ? absl::StrCat(" and ", shapes.size() - shown, " more") : ""));
  }
  constexpr size_t kMostArguments = 3;
  if (changed.size() > kMostArguments) changed.resize(kMostArguments);
  return absl::StrJoin(changed, "; ");
}

Finding Describe(const StepFacts& facts, const Span& span, const std::string& name, const Function& function) {
  const TraceModel& model = facts.model();
  const auto count = static_cast<double>(function.compilations.size());
  const auto span_ns = static_cast<double>(span.end_ns - span.start_ns);
  const double steps = std::max(1.0, (span_ns - function.ns) / facts.step_ns());
  Finding finding;
  finding.where = std::string(absl::StripSuffix(absl::StripPrefix(name, "jit("), ")"));
  const StackIndex stack = model.scopes.look[function.compilations.back()].stack;
  if (stack != kNone) finding.line = LineLabel(model, ReadPythonPlaces(model)[stack]);
  finding.sentence = absl::StrFormat(
      "XLA compiles %s again %.0f times after the first %s, %s each: %.0f %% of the time since then.", finding.where,
      count, facts.StepNoun(), HumanTime(function.ns / count), 100 * function.ns / span_ns);
  const std::string changed = ChangedArguments(model, span, name);
  if (!changed.empty()) absl::StrAppend(&finding.sentence, " Its arguments change: ", changed, ".");
  finding.gain_ns = function.ns / steps;
  finding.whole_ns = span_ns / steps;
  finding.confidence = Confidence::kHigh;
  finding.evidence =
      "scopes \"XLA compiles …\" since the first known step; the steps since then are estimated by their mean";
  finding.advice = kShapesAdvice;
  return finding;
}

}  // namespace

std::vector<Finding> FindXlaRecompilations(const StepFacts& facts) {
  Span span = {.process = facts.steps().tracks.front().process, .start_ns = INT64_MAX};
  for (const StepTrack& track : facts.options().analysis->steps()) {
    if (track.process == span.process && !track.steps.empty()) {
      span.start_ns = std::min(span.start_ns, track.steps.front().start_ns);
    }
  }
  span.end_ns = facts.model().processes[span.process].end_ns;
  std::vector<Finding> findings;
  for (const auto& [name, function] : FunctionsOf(facts.model(), span)) {
    const bool is_late = function.last_ns > span.start_ns / 2 + span.end_ns / 2;
    const double least_ns = kLeastPercentOfTime / 100 * static_cast<double>(span.end_ns - span.start_ns);
    if (function.compilations.size() < kLeastCompilations || !is_late || function.ns < least_ns) continue;
    findings.push_back(Describe(facts, span, name, function));
  }
  return findings;
}

}  // namespace dlhook::analyzer::findings
