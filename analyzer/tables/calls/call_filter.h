// Which calls the tables of callers and stacks are about.
#ifndef DLHOOK_ANALYZER_TABLES_CALLS_CALL_FILTER_H_
#define DLHOOK_ANALYZER_TABLES_CALLS_CALL_FILTER_H_

#include <string>
#include <vector>

#include "analyzer/model/trace_model.h"
#include "analyzer/tables/table_kind.h"

namespace dlhook::analyzer::inline tables {

inline constexpr char kNoStacks[] = "No stacks were kept: record with DLHOOK_STACKS=all (native and Python) or native.";
inline constexpr char kNoNativeStacks[] =
    "Without native stacks: record with DLHOOK_STACKS=all to see the framework's functions, too.";

// Calls of TableOptions.functions: of a function ("sgemm_") or a kind ("gemm", "reorder"); all where there are none.
class CallFilter {
 public:
  CallFilter(const TraceModel& model, const TableOptions& options);
  bool Takes(OpIndex op) const { return takes_[op]; }

 private:
  std::vector<bool> takes_;  // by op
};

// What TableOptions.functions may name in this run.
std::vector<std::string> FunctionsAndKinds(const TraceModel& model);

}  // namespace dlhook::analyzer::tables

#endif  // DLHOOK_ANALYZER_TABLES_CALLS_CALL_FILTER_H_
