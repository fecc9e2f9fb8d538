#include "analyzer/tables/calls/call_filter.h"

#include <set>

#include "analyzer/calls/op_labels.h"

namespace dlhook::analyzer::inline tables {

CallFilter::CallFilter(const TraceModel& model, const TableOptions& options) {
  const std::vector<std::string>& wanted = options.functions;
  const auto has = [&](const std::string& name) {
    return std::find(wanted.begin(), wanted.end(), name) != wanted.end();
  };
  for (const Op& op : model.ops) takes_.push_back(wanted.empty() || has(op.function) || has(KindLabel(op)));
}

std::vector<std::string> FunctionsAndKinds(const TraceModel& model) {
  std::set<std::string> names;
  for (const Op& op : model.ops) {
    names.insert(op.function);
    names.insert(KindLabel(op));
  }
  return {names.begin(), names.end()};
}

}  // namespace dlhook::analyzer::tables
