// Which calls the tables of callers and stacks are about.
#ifndef DLHOOK_ANALYZER_PASSES_CALL_FILTER_H_
#define DLHOOK_ANALYZER_PASSES_CALL_FILTER_H_

#include <string>
#include <vector>

#include "analyzer/model/trace_model.h"
#include "analyzer/passes/pass.h"

namespace dlhook::analyzer {

inline constexpr char kNoStacks[] = "No stacks were kept: record with DLHOOK_STACKS=all (native and Python) or native.";
inline constexpr char kNoNativeStacks[] =
    "Without native stacks: record with DLHOOK_STACKS=all to see the framework's functions, too.";

// Calls of PassOptions.functions: of a function ("sgemm_") or a kind ("gemm", "reorder"); all where there are none.
class CallFilter {
 public:
  CallFilter(const TraceModel& model, const PassOptions& options);
  bool Takes(OpIndex op) const { return takes_[op]; }

 private:
  std::vector<bool> takes_;  // by op
};

// What PassOptions.functions may name in this run.
std::vector<std::string> FunctionsAndKinds(const TraceModel& model);

}  // namespace dlhook::analyzer

#endif  // DLHOOK_ANALYZER_PASSES_CALL_FILTER_H_
