// Where in the user's program and in which of his modules a Python stack stands.
#ifndef DLHOOK_ANALYZER_CALLS_PYTHON_PLACES_H_
#define DLHOOK_ANALYZER_CALLS_PYTHON_PLACES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline calls {

struct PythonPlace {
  std::vector<ModuleIndex> modules;  // whose calls are on the stack, innermost first, as far as the call of backward()
  // Equal where the innermost module (where there is none: the program) makes the call from the same place: by all lines inside
  // the module's call, whoever called the module. kNone: not known.
  uint32_t path = kNone;
  uint32_t all_lines = kNone;  // equal where the whole stack is
  NameIndex file = kNone;      // innermost line of the program itself
  uint32_t line = 0;
  bool is_in_optimizer = false;  // in its step, outside any module called from there
  bool is_in_backward = false;   // under a call of backward() …
  bool runs_user_code = false;  // … and under it a module or the user's lines again: what these compute is done again
  ModuleIndex module() const { return modules.empty() ? kNone : modules.front(); }
};

// Whether the file is installed (but for libraries of models) or of Python itself: its lines say nothing about the user's program.
bool IsFrameworkFile(absl::string_view file);

// One element per stack of the model; of `stacks`, whose frames are among the model's.
std::vector<PythonPlace> ReadPythonPlaces(const TraceModel& model);
std::vector<PythonPlace> ReadPythonPlaces(const TraceModel& model, absl::Span<const PythonStack> stacks);

// "alexnet.py:42"; empty where the file isn't known.
std::string LineLabel(const TraceModel& model, const PythonPlace& place);

}  // namespace dlhook::analyzer::calls

#endif  // DLHOOK_ANALYZER_CALLS_PYTHON_PLACES_H_
