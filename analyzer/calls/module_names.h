// Names of a run's modules, and which of them are layers.
#pragma once

#include <string>
#include <vector>

#include "analyzer/calls/python_places.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline calls {

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
