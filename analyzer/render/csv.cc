// RFC 4180, but with "\n" line ends, as is usual on this system. A row is a line: line ends inside a cell are escaped.
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/renderer.h"
#include "analyzer/render/run_facts.h"

namespace dlhook::analyzer::inline render {
namespace {

std::string CellText(const Cell& cell) {
  if (const auto* text = std::get_if<CellString>(&cell)) return CsvField(text->str());
  if (const auto* integer = std::get_if<int64_t>(&cell)) return absl::StrCat(*integer);
  if (const auto* real = std::get_if<double>(&cell)) return absl::StrFormat("%.9g", *real);
  return "";
}

void AppendCsv(const Table& table, std::string* out) {
  const char* separator = "";
  for (const Column& column : table.columns) {
    absl::StrAppend(out, separator, CsvField(column.name));
    separator = ",";
  }
  out->push_back('\n');
  for (const Row& row : table.rows) {
    separator = "";
    for (const Cell& cell : row) {
      absl::StrAppend(out, separator, CellText(cell));
      separator = ",";
    }
    out->push_back('\n');
  }
}

}  // namespace

std::string RenderCsv(const Report& report) {
  std::string out;
  for (const Table& table : report.tables) {
    if (!out.empty()) out.push_back('\n');
    AppendCsv(table, &out);
  }
  return out;
}

std::vector<std::string> CsvNotes(const Report& report) {
  std::vector<std::string> notes;
  if (!report.environment.empty()) notes.push_back(absl::StrCat("environment: ", report.environment));
  for (const Table& table : report.tables) {
    for (const std::string& note : table.notes) notes.push_back(absl::StrCat(table.name, ": ", note));
  }
  for (std::string& remark : ReportRemarks(report)) notes.push_back(std::move(remark));
  return notes;
}

}  // namespace dlhook::analyzer::render
