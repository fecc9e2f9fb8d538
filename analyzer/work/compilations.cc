// How often functions are compiled: see compilations.h. XLA's compilations are scopes; what others compile shows when it first
// runs.
#include "analyzer/work/compilations.h"

#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/calls/scope_names.h"
#include "analyzer/model/scope_looks.h"

namespace dlhook::analyzer::inline work {

std::map<std::string, double> CountCompilations(const TraceModel& model) {
  std::vector<std::string> functions;  // by name
  for (const std::string& name : model.names) {
    const CompiledRun run = CompiledRunOf(name);
    const char* does = run.compiler == "tf.function" ? " traces " : " compiles frame ";
    functions.push_back(run.compiler.empty() ? "" : absl::StrCat(run.compiler, does, run.function));
  }
  std::map<std::string, double> times;
  std::set<NameIndex> known;
  const auto is_of_compiler = [&](const ScopeLook& look) {
    return look.kind == ScopeKind::kXlaCompilation || !functions[look.name].empty();
  };
  ForEachScopeThat(model.scopes, is_of_compiler, [&](ScopeIndex scope) {
    const ScopeLook& look = model.scopes.look[scope];
    const bool is_xlas = look.kind == ScopeKind::kXlaCompilation;
    if (is_xlas || known.insert(look.name).second) ++times[is_xlas ? model.names[look.name] : functions[look.name]];
  });
  return times;
}

}  // namespace dlhook::analyzer::work
