// Which calls the tables `callers` and `stacks` cover.
#pragma once

#include "analyzer/model/trace_model.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer::inline tables {

inline constexpr char kNoStacks[] = "No stacks were kept: record with DLHOOK_STACKS=all (native and Python) or native.";
inline constexpr char kNoNativeStacks[] =
    "Without native stacks: record with DLHOOK_STACKS=all to see the framework's functions, too.";

// Calls that TableOptions.functions selects: by function ("sgemm_") or kind ("gemm", "reorder"); all if it is empty.
class CallFilter {
 public:
  CallFilter(const TraceModel& model, const TableOptions& options);
  bool Takes(OpIndex op) const { return takes_[op]; }

 private:
  std::vector<bool> takes_;  // by op
};

// The names that TableOptions.functions can use in this run.
std::vector<std::string> FunctionsAndKinds(const TraceModel& model);

}  // namespace dlhook::analyzer::tables
