// Names and counts.
#include "analyzer/doctor/finding.h"

#include <algorithm>
#include <iterator>

#include "analyzer/io/byte_source.h"

namespace dlhook::analyzer::inline doctor {

const char* LevelName(Level level) {
  constexpr const char* kNames[] = {"ok", "note", "warning", "problem"};
  static_assert(std::size(kNames) == static_cast<size_t>(Level::kProblem) + 1);
  return kNames[static_cast<size_t>(level)];
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
