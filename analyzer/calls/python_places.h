// The location of a Python stack in the user's program and modules.
#pragma once

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline calls {

struct PythonPlace {
  std::vector<ModuleIndex> modules;  // whose calls are on the stack, innermost first, up to the call of backward()
  // Equal if the innermost module (or the program, if there is none) makes the call from the same place, comparing all
  // lines inside the module's call, whatever its caller. kNone: not known.
  uint32_t path = kNone;
  uint32_t all_lines = kNone;  // equal if the whole stack is
  NameIndex file = kNone;      // of the innermost line of the program itself
  NameIndex function = kNone;  // that this line is in
  uint32_t line = 0;
  bool is_in_optimizer = false;         // in an optimizer's own code: the innermost frame that is not PyTorch's decides
  bool is_called_by_optimizer = false;  // in other code that it calls: a closure, a hook
  bool is_in_backward = false;          // inside a call of backward() …
  bool runs_user_code = false;          // … which runs a module or the user's code again: recomputation
  bool is_in_forward = false;           // the outermost module is called by a `forward` that was called itself
  ModuleIndex module() const { return modules.empty() ? kNone : modules.front(); }
};

// Whether the file is installed (except for libraries of models) or belongs to Python itself: its lines say nothing
// about the user's program.
bool IsFrameworkFile(absl::string_view file);

// The package, "keras", whose function is the innermost that both stacks have in common: it runs from the one to the other;
// empty: a function of the program, its models, PyTorch or Python does.
std::string PackageBetween(const TraceModel& model, const PythonStack& before, const PythonStack& after);

// The package, "keras", that calls this function (its file and name) on the stack; empty: none but PyTorch and Python.
std::string PackageAround(const TraceModel& model, const PythonStack& stack, std::pair<NameIndex, NameIndex> function);

// One element per stack of the model, or per element of `stacks`, whose frames are the model's.
std::vector<PythonPlace> ReadPythonPlaces(const TraceModel& model);
std::vector<PythonPlace> ReadPythonPlaces(const TraceModel& model, absl::Span<const PythonStack> stacks);

// "encode" for "main.<locals>.encode"; empty for a file's main code, and if it is not known (kNone).
std::string FunctionName(const TraceModel& model, NameIndex function);

// "alexnet.py:42"; empty if the file is not known.
std::string LineLabel(const TraceModel& model, const PythonPlace& place);

// Names of a run's modules, and which of them are layers.
struct ModuleName {
  std::string model;      // "AlexNet", "AlexNet #2"; empty for a layer outside any model, such as a loss
  std::string name;       // qualified within its model; for a root its type; empty if only the type is known
  std::string type;       // without its package: "Conv2d"
  bool is_whole = false;  // the framework's own, calling no other module: one layer
  bool is_root = false;
};

// One element per module. Models of one type are numbered per process, in the order of their first call.
std::vector<ModuleName> NameModules(const TraceModel& model, const std::vector<PythonPlace>& places);

}  // namespace dlhook::analyzer::calls
