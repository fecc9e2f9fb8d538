// An exporter turns a profile into the bytes of a file for other tools. It is a pure function: no I/O, no state.
//
// To add one:
//   1. write analyzer/export/NAME.cc with a function `std::string ExportName(const Profile&, const ExportOptions&)`,
//   declared below;
//   2. add its line to kExporters in analyzer/export/registry.cc and its file to CMakeLists.txt.
#ifndef DLHOOK_ANALYZER_EXPORT_EXPORTER_H_
#define DLHOOK_ANALYZER_EXPORT_EXPORTER_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "analyzer/export/profile.h"

namespace dlhook::analyzer::inline exports {

struct ExportOptions {
  Weight weight = Weight::kTime;  // for formats with a single one
  bool with_lines = false;        // names of frames include lines, if the format has no field for them
  double min_percent = 0.5;       // for a graph: functions and edges below this part of the whole are omitted
};

struct Exporter {
  absl::string_view name;
  absl::string_view summary;  // for --help
  bool is_binary;
  std::string (*write)(const Profile&, const ExportOptions&);
};

const std::vector<Exporter>& Exporters();

std::string ExportFolded(const Profile& profile, const ExportOptions& options);
std::string ExportPprof(const Profile& profile, const ExportOptions& options);
std::string ExportCallgrind(const Profile& profile, const ExportOptions& options);
std::string ExportDot(const Profile& profile, const ExportOptions& options);

struct WeightWord {
  absl::string_view name;
  absl::string_view unit;
  absl::string_view meaning;
  Weight weight;
};
const std::vector<WeightWord>& WeightWords();  // by Weight

}  // namespace dlhook::analyzer::exports

#endif  // DLHOOK_ANALYZER_EXPORT_EXPORTER_H_
