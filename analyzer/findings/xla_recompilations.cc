// Rule recompilations, of JAX: XLA compiles a function again after the first steps, for shapes that it has not seen, or
// because it is another function each time.
//
// Each compilation is a scope. Steps are known in windows without compilations only, so the loss is what compilations of a
// function take from the first known step on, spread over the steps for which the rest of that time is enough; without
// steps, what all but the function's first one take of the time since the first of all. Functions that are soon compiled
// for all their shapes are no loss: there must be several compilations, one of them in the later half of that time.
// Tracing and lowering, which JAX does before, are not in it: at least so much is lost.

#include "analyzer/findings/rules.h"
#include "analyzer/model/gemm_shape.h"
#include "analyzer/model/scope_looks.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kLeastPercentOfTime = 5;
constexpr size_t kLeastCompilations = 3;
constexpr size_t kShownShapes = 3;  // of an argument
constexpr size_t kManySizes = 8;    // of products, alike but for one dimension

constexpr char kShapesAdvice[] =
    "Pad the input to few sizes, and drop or pad a last batch that is smaller. JAX_LOG_COMPILES=1 names each "
    "compilation; static arguments compile again for each value, too.";
constexpr char kNewFunctionAdvice[] =
    " is another function in each call: a lambda, a closure, the body of scan, while_loop or cond that is defined in "
    "the loop; or a static argument changes. Define it once, outside of the loop, and put jax.jit around the whole "
    "step. JAX_EXPLAIN_CACHE_MISSES=1 says why.";

constexpr char kOutsideAdvice[] =
    "JAX compiles what runs outside of jax.jit by itself, once for each operation, shape and type: put jax.jit around "
    "the whole function of this line, or keep to few shapes.";

struct Function {
  ScopeIndex first = kNone;  // compilation in the span
  size_t count = 0;
  double ns = 0;
  double in_steps_ns = 0;  // of it, in steady steps
  int64_t last_ns = 0;     // the last one begins
};

struct Span {
  ProcessIndex process = 0;
  int64_t start_ns = 0;  // of the first known step, else of the first compilation
  int64_t end_ns = 0;    // of the process
  bool has_steps = false;
};

bool IsCompilation(const ScopeLook& look) { return look.kind == ScopeKind::kXlaCompilation; }

// What is compiled in the span; without steps not the first time.
std::map<std::string, Function> FunctionsOf(const StepFacts& facts, const Span& span) {
  const TraceModel& model = facts.model();
  std::map<std::string, Function> functions;
  const ScopeColumns& scopes = model.scopes;
  ForEachScopeThat(scopes, IsCompilation, [&](ScopeIndex scope) {
    if (scopes.start_ns[scope] < span.start_ns) return;
    if (model.threads[scopes.thread[scope]].process != span.process) return;
    absl::string_view name = model.names[scopes.look[scope].name];
    absl::ConsumePrefix(&name, kXlaCompiles);
    Function& function = functions[std::string(name)];
    if (function.first == kNone) {
      function.first = scope;
      if (!span.has_steps) return;
    }
    ++function.count;
    const auto ns = static_cast<double>(scopes.duration_ns[scope]);
    function.ns += ns;
    if (span.has_steps && facts.StepAt(span.process, scopes.start_ns[scope]) != kNone) function.in_steps_ns += ns;
    function.last_ns = std::max(function.last_ns, scopes.start_ns[scope]);
  });
  return functions;
}

// As XLA names the program of jit(train_step): jit_train_step.
std::string ProgramOf(absl::string_view function) {
  std::string program(function);
  const auto is_other = [](unsigned char c) { return !absl::ascii_isalnum(c) && c != '_' && c != '.' && c != '-'; };
  absl::c_replace_if(program, is_other, '_');
  program.erase(program.find_last_not_of('_') + 1);
  return program;
}

// A function's programs, as far as they are known.
std::vector<const CompiledProgram*> ProgramsOf(const TraceModel& model, const Span& span, const std::string& function) {
  std::vector<const CompiledProgram*> programs;
  const std::string name_of_program = ProgramOf(function);
  for (const CompiledProgram& program : model.compiled_programs) {
    if (program.process == span.process && program.name == name_of_program) programs.push_back(&program);
  }
  return programs;
}

std::string ShapeOf(const std::string& argument) { return argument.substr(argument.rfind(' ') + 1); }

// Whether one has arguments of the same shapes as one before. Gradients of a function are programs with its name.
bool AreRepeated(const std::vector<const CompiledProgram*>& programs) {
  std::set<std::vector<std::string>> different;
  for (const CompiledProgram* program : programs) {
    std::vector<std::string> shapes;
    for (const std::string& argument : program->arguments) shapes.push_back(ShapeOf(argument));
    different.insert(std::move(shapes));
  }
  return different.size() < programs.size();
}

// The arguments that differ between those with as many as the first one: "x f32[17,64], f32[18,64] and 4 more"; empty: none
// does, or they are not known.
std::string ChangedArguments(const std::vector<const CompiledProgram*>& programs) {
  std::vector<std::string> changed;
  for (size_t argument = 0; !programs.empty() && argument < programs[0]->arguments.size(); ++argument) {
    std::vector<std::string> shapes;
    std::string name;
    for (const CompiledProgram* program : programs) {
      if (program->arguments.size() != programs[0]->arguments.size()) continue;
      const std::string& text = program->arguments[argument];
      name = text.substr(0, text.rfind(' '));
      const std::string shape = ShapeOf(text);
      if (!absl::c_linear_search(shapes, shape)) shapes.push_back(shape);
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

// An operation of JAX that the program called by itself: its line leads to a function of JAX before it comes to jit.
bool IsOutsideOfJit(const TraceModel& model, StackIndex stack) {
  if (stack == kNone) return false;
  absl::string_view inner;  // of the program's innermost line
  for (const PythonFrame& frame : model.python_stacks[stack].frames) {
    const absl::string_view file = model.names[frame.file];
    if (!IsFrameworkFile(file)) break;
    inner = file;
  }
  return absl::StrContains(inner, "/jax/_src/") && !absl::EndsWith(inner, "/traceback_util.py") &&
         !absl::EndsWith(inner, "/pjit.py") && !absl::EndsWith(inner, "/api.py");
}

// Whether the run's products have so many sizes, by one of their dimensions.
bool HaveManySizes(const TraceModel& model, size_t many) {
  std::map<std::pair<int64_t, int64_t>, std::set<int64_t>> rows, columns, depths;
  size_t most = 0;
  for (const Op& op : model.ops) {
    const std::optional<MatmulShape> shape = MatmulShapeOf(op);
    if (!shape) continue;
    const auto [m, n, k] = std::tuple(shape->m, shape->n, shape->k);
    for (auto [sizes, by, size] :
         {std::tuple(&rows, std::pair(n, k), m), {&columns, {m, k}, n}, {&depths, {m, n}, k}}) {
      std::set<int64_t>& of = (*sizes)[by];
      of.insert(size);
      most = std::max(most, of.size());
    }
  }
  return most >= many;
}

// How its compilations differ, and what helps.
void Explain(const TraceModel& model, const Span& span, const std::string& name, const Function& function,
             Finding* finding) {
  const std::vector<const CompiledProgram*> programs = ProgramsOf(model, span, name);
  const std::string changed = ChangedArguments(programs);
  if (IsOutsideOfJit(model, model.scopes.look[function.first].stack)) {
    finding->advice = kOutsideAdvice;
  } else if (AreRepeated(programs)) {
    absl::StrAppend(&finding->sentence, " Its arguments have shapes that it was compiled for before.");
    finding->advice = absl::StrCat("It", kNewFunctionAdvice);
  } else if (changed.empty() && HaveManySizes(model, std::max(function.count / 4, kManySizes))) {
    absl::StrAppend(&finding->sentence, " The sizes of its products differ.");
    finding->advice = kShapesAdvice;
  } else if (changed.empty()) {
    finding->advice = absl::StrCat("If its arguments have the same shapes each time, it", kNewFunctionAdvice,
                                   " Else: ", kShapesAdvice);
  } else {
    absl::StrAppend(&finding->sentence, " Its arguments change: ", changed, ".");
    finding->advice = kShapesAdvice;
  }
}

Finding Describe(const StepFacts& facts, const Span& span, const std::string& name, const Function& function) {
  const TraceModel& model = facts.model();
  const auto count = static_cast<double>(function.count);
  const auto span_ns = static_cast<double>(span.end_ns - span.start_ns);
  const double rest_ns = std::max(1.0, facts.step_ns() - function.in_steps_ns / facts.count());  // of a step
  const double steps = span.has_steps ? std::max(1.0, (span_ns - function.ns) / rest_ns) : 1;
  const std::string where(absl::StripSuffix(absl::StripPrefix(name, "jit("), ")"));
  Finding finding = {
      .where = where,
      .line = facts.LineOfStack(model.scopes.look[function.first].stack),
      .sentence = absl::StrFormat("XLA compiles %s again %.0f times after the first %s, %s each: %s, %.0f %% of the "
                                  "time since then, without JAX's tracing.",
                                  where, count, span.has_steps ? facts.StepNoun() : "time",
                                  HumanTime(function.ns / count), HumanTime(function.ns), 100 * function.ns / span_ns),
      .gain_ns = function.ns / steps,
      .basis = GainBasis::kMeasured,
      .confidence = Confidence::kHigh,
      .evidence =
          span.has_steps
              ? "scopes \"XLA compiles …\" since the first known step; the steps since then are estimated by their mean"
              : "scopes \"XLA compiles …\" since the first one",
      .whole_ns = span_ns / steps};
  Explain(model, span, name, function, &finding);
  return finding;
}

// From the first known step on; without steps, of the process that waits longest for XLA's compilations, from the first
// one on.
Span SpanOf(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  Span span = {.start_ns = INT64_MAX, .has_steps = facts.HasSteps() && !facts.steps().tracks.empty()};
  if (span.has_steps) {
    span.process = facts.steps().tracks.front().process;
    for (const StepTrack& track : facts.options().analysis->steps()) {
      if (track.process == span.process && !track.steps.empty()) {
        span.start_ns = std::min(span.start_ns, track.steps.front().start_ns);
      }
    }
  } else {
    std::map<ProcessIndex, std::pair<int64_t, int64_t>> compiled;  // how long, and when first
    ForEachScopeThat(model.scopes, IsCompilation, [&](ScopeIndex scope) {
      const ProcessIndex process = model.threads[model.scopes.thread[scope]].process;
      const int64_t start_ns = model.scopes.start_ns[scope];
      auto& [sum_ns, first_ns] = compiled.try_emplace(process, 0, start_ns).first->second;
      sum_ns += model.scopes.duration_ns[scope];
      first_ns = std::min(first_ns, start_ns);
    });
    const auto most = MostOf(compiled, [](const auto& of) { return of.first; });
    if (most == compiled.end()) return span;
    span.process = most->first;
    span.start_ns = most->second.second;
  }
  span.end_ns = model.processes[span.process].end_ns;
  return span;
}

}  // namespace

bool SeesXlaCompilations(const StepFacts& facts) {
  const RecurringKeys<ScopeLook>& looks = facts.model().scopes.look.values();
  for (uint32_t look = 0; look < looks.size(); ++look) {
    if (IsCompilation(looks[look])) return true;
  }
  return !facts.model().compiled_ops.empty();
}

// One function, compiled for so long that it is much of the run. That grows with its operations: a loop of Python in it is one
// after the other.
std::vector<Finding> FindLongXlaCompilation(const StepFacts& facts) {
  constexpr double kLeastNs = 2e9;
  constexpr double kLeastPercent = 20;  // of the time since the first compilation
  constexpr size_t kUnrolled = 250;     // equal operations of one line: a deep network has some, too
  const TraceModel& model = facts.model();
  Span span = SpanOf(facts);
  if (span.end_ns == 0 || !model.read_spans.empty()) return {};
  const int64_t known_from_ns = span.start_ns;
  const bool has_steps = span.has_steps;
  span.start_ns = INT64_MIN;
  span.has_steps = true;  // the first compilation counts
  const std::map<std::string, Function> functions = FunctionsOf(facts, span);
  const auto longest = MostOf(functions, [](const Function& function) { return function.ns; });
  if (longest == functions.end() || longest->second.ns < kLeastNs) return {};
  const auto& [name, function] = *longest;
  // Again and again, or after the first step: recompilations tells it.
  if (function.count >= kLeastCompilations || (has_steps && function.last_ns > known_from_ns)) return {};
  int64_t first_ns = INT64_MAX;
  for (const auto& [other, of] : functions) first_ns = std::min(first_ns, model.scopes.start_ns[of.first]);
  const auto span_ns = static_cast<double>(span.end_ns - first_ns);
  if (function.ns < kLeastPercent / 100 * span_ns) return {};
  std::map<std::pair<std::string, std::string>, size_t> equal;  // operations by line and what they are
  const std::string program = ProgramOf(name);
  for (const CompiledOp& op : model.compiled_ops) {
    const bool moves = op.primitive == "copy" || op.primitive == "add" || op.primitive == "add_any";
    if (op.program == program && !op.line.empty() && !moves) ++equal[{op.line, op.primitive}];
  }
  const auto most = MostOf(equal, [](size_t count) { return count; });
  const bool is_unrolled = most != equal.end() && most->second >= kUnrolled;
  const std::string where(absl::StripSuffix(absl::StripPrefix(name, "jit("), ")"));
  const double steps = has_steps ? std::max(1.0, (span_ns - function.ns) / facts.step_ns()) : 1;
  return {
      {.where = where,
       .line = is_unrolled ? most->first.first : facts.LineOfStack(model.scopes.look[function.first].stack),
       .sentence = absl::StrFormat(
           "XLA compiles %s%s for %s, %.0f %% of the time from the first compilation to the end, without JAX's "
           "tracing.",
           where,
           is_unrolled
               ? absl::StrFormat(
                     ", in which %d operations (%s) are of one line, %s (as of a loop of Python, which is unrolled),",
                     most->second, most->first.second, most->first.first)
               : "",
           HumanTime(function.ns), 100 * function.ns / span_ns),
       .gain_ns = function.ns / steps,
       .evidence = "scope \"XLA compiles …\"; operations of its program by line",
       .advice = absl::StrCat(
           is_unrolled ? "jax.lax.scan or fori_loop in place of that loop compiles its body once."
                       : "A loop of Python in it (over time steps, layers) is unrolled: jax.lax.scan or fori_loop "
                         "compiles the body once. Large arrays that it closes over are constants, with which XLA "
                         "computes while it compiles: pass them as arguments.",
           " jax.config.update(\"jax_compilation_cache_dir\", FOLDER) keeps what was compiled between runs."),
       .is_information = !is_unrolled,
       .whole_ns = span_ns / steps,
       .whole = "the time since the first compilation"}};
}

std::vector<Finding> FindXlaRecompilations(const StepFacts& facts) {
  const Span span = SpanOf(facts);
  std::vector<Finding> findings;
  for (const auto& [name, function] : FunctionsOf(facts, span)) {
    const bool is_late = function.last_ns > span.start_ns / 2 + span.end_ns / 2;
    const double least_ns = kLeastPercentOfTime / 100 * static_cast<double>(span.end_ns - span.start_ns);
    if (function.count < kLeastCompilations || !is_late || function.ns < least_ns) continue;
    findings.push_back(Describe(facts, span, name, function));
  }
  return findings;
}

}  // namespace dlhook::analyzer::findings
