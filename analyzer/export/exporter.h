// An exporter turns a run into a file for other tools: from its profile (calls by stack), from its timeline (what happened
// when), or from its tables.
//
// To add one:
//   1. write analyzer/export/NAME.cc with a function like those declared below;
//   2. add its line to kExporters in analyzer/export/registry.cc.
#pragma once

#include "analyzer/export/timeline.h"
#include "analyzer/profile/profile.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline exports {

// Takes the bytes of an export piece by piece, so that a long run's export is never in memory as a whole.
class ExportOutput {
 public:
  // `write` takes pieces in order; after its first error it is not called again.
  explicit ExportOutput(std::function<absl::Status(absl::string_view)> write) : write_(std::move(write)) {}
  ExportOutput(const ExportOutput&) = delete;
  ExportOutput& operator=(const ExportOutput&) = delete;

  // To append to. Call Flush at places where a text may be divided: at the ends of lines.
  std::string& bytes() { return bytes_; }
  void Flush() {
    if (bytes_.size() >= kPieceBytes) Write();
  }
  // Writes the rest.
  absl::Status Finish() {
    Write();
    return status_;
  }
  // False after an error: the rest need not be made.
  bool ok() const { return status_.ok(); }

 private:
  static constexpr size_t kPieceBytes = 1 << 20;

  void Write() {
    if (status_.ok() && !bytes_.empty()) status_ = write_(bytes_);
    bytes_.clear();
  }

  const std::function<absl::Status(absl::string_view)> write_;
  std::string bytes_;
  absl::Status status_;
};

struct ExportOptions {
  Weight weight = Weight::kTime;   // for formats with a single one
  bool with_lines = false;         // names of frames include lines, if the format has no field for them
  std::string python = "python3";  // for Parquet: an interpreter that has pyarrow
};

using ProfileExport = std::string(const Profile& profile, const ExportOptions& options);
using TimelineExport = void(const Timeline& timeline, ExportOutput& output);
// Writes to `path`, which does not exist: everything that is known of the timeline's run, and the report's tables.
using TablesExport = absl::Status(const Timeline& run, const std::vector<Table>& tables, const ExportOptions& options,
                                  const std::string& path);

struct Exporter {
  absl::string_view name;
  absl::string_view summary;  // for --help
  bool is_binary;
  // One of these; the others are null.
  ProfileExport* of_profile;
  TimelineExport* of_timeline = nullptr;
  TablesExport* of_tables = nullptr;
  bool is_folder = false;
};

const std::vector<Exporter>& Exporters();

ProfileExport ExportFolded, ExportPprof, ExportCallgrind;
TimelineExport ExportPerfetto, ExportChrome;
TablesExport ExportSqlite, ExportParquet;

struct WeightWord {
  absl::string_view name;
  absl::string_view unit;
  absl::string_view meaning;
  Weight weight;
};
const std::vector<WeightWord>& WeightWords();  // by Weight

}  // namespace dlhook::analyzer::exports
