// What the modules of a run are called, and which of them are layers as a whole.
#ifndef DLHOOK_ANALYZER_CALLS_MODULE_NAMES_H_
#define DLHOOK_ANALYZER_CALLS_MODULE_NAMES_H_

#include <string>
#include <vector>

#include "analyzer/calls/python_places.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline calls {

struct ModuleName {
  std::string model;      // "AlexNet", "AlexNet #2"; empty for a layer that stands alone, such as a loss
  std::string name;       // qualified in its model; of a root its type; empty where only the type is known
  std::string type;       // without its path: "Conv2d"
  bool is_whole = false;  // of the framework, and calls no further module: one layer
  bool is_root = false;
};

// One element per module. Models of one type are numbered by process, in the order in which they were first called.
std::vector<ModuleName> NameModules(const TraceModel& model, const std::vector<PythonPlace>& places);

}  // namespace dlhook::analyzer::calls

#endif  // DLHOOK_ANALYZER_CALLS_MODULE_NAMES_H_
