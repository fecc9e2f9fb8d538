// How often functions are compiled.
#pragma once

#include <map>
#include <string>

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline work {

// In the whole run, by function: "XLA compiles jit(scan)", "tf.function traces train_step".
std::map<std::string, double> CountCompilations(const TraceModel& model);

}  // namespace dlhook::analyzer::work
