// Names and counts.
#include "analyzer/doctor/finding.h"

#include <algorithm>

#include "analyzer/io/byte_source.h"

namespace dlhook::analyzer::inline doctor {

const char* LevelName(Level level) {
  switch (level) {
    case Level::kOk:
      return "ok";
    case Level::kNote:
      return "note";
    case Level::kWarning:
      return "warning";
    case Level::kProblem:
      return "problem";
  }
  return "";
}

std::string ShortPath(const std::string& path) {
  const std::string kPackages = "-packages/";
  const size_t packages = path.rfind(kPackages);
  return packages == std::string::npos ? BaseName(path) : path.substr(packages + kPackages.size());
}

int CountBad(const std::vector<Finding>& findings) {
  return static_cast<int>(std::count_if(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.level == Level::kWarning || finding.level == Level::kProblem;
  }));
}

}  // namespace dlhook::analyzer::doctor
