#include "analyzer/import/imported_traces.h"

#include "analyzer/import/nsight/nsight_import.h"
#include "analyzer/io/byte_source.h"

namespace dlhook::analyzer::inline imports {

bool IsOthersTrace(const std::string& path) {
  return !absl::EndsWith(path, kTraceSuffix) && (IsNsightExport(path) || IsKinetoTrace(path));
}

absl::StatusOr<std::vector<ImportedTrace>> ImportTraces(const std::string& path,
                                                        const std::function<void(uint64_t)>& progress) {
  if (IsNsightExport(path)) return ImportNsight(path);
  absl::StatusOr<ImportedTrace> trace = ImportKineto(path, progress);
  if (!trace.ok()) return trace.status();
  return std::vector<ImportedTrace>{*std::move(trace)};
}

void LastTraces::Add(const std::string& path, std::vector<ImportedTrace> imported) {
  for (ImportedTrace& trace : imported) {
    Trace added = {path, std::move(trace)};
    for (Trace& known : traces_) {
      const ImportedTrace &one = known.imported, &other = added.imported;
      if (one.identity != other.identity || (one.start_ns <= other.end_ns && other.start_ns <= one.end_ns)) continue;
      if (one.start_ns < other.start_ns) std::swap(known, added);
      earlier_.push_back(BaseName(added.path));
      added.path.clear();
      break;
    }
    if (!added.path.empty()) traces_.push_back(std::move(added));
  }
}

std::string LastTraces::Note() const {
  if (earlier_.empty()) return "";
  return absl::StrCat("of each process the trace of the last time is read; of earlier times: ",
                      absl::StrJoin(earlier_, ", "), "; to read one of these, name it");
}

}  // namespace dlhook::analyzer::imports
