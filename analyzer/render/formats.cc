// The list of formats, and those that are written cell by cell: csv, Markdown.

#include "analyzer/render/escape.h"
#include "analyzer/render/renderer.h"
#include "analyzer/render/text_columns.h"

namespace dlhook::analyzer::inline render {
namespace {

std::string CellText(const Cell& cell) {
  if (const auto* text = std::get_if<CellString>(&cell)) return CsvField(text->str());
  if (const auto* integer = std::get_if<int64_t>(&cell)) return absl::StrCat(*integer);
  if (const auto* real = std::get_if<double>(&cell)) return absl::StrFormat("%.9g", *real);
  return "";
}

void AppendCsv(const Table& table, std::string* out) {
  const auto line = [out](const auto& cells, auto text_of) {
    absl::StrAppend(out, absl::StrJoin(cells, ",", [&](std::string* to, const auto& cell) { *to += text_of(cell); }),
                    "\n");
  };
  line(table.columns, [](const Column& column) { return CsvField(column.name); });
  for (const Row& row : table.rows) line(row, CellText);
}

void AppendMarkdownTable(const Table& table, std::string& out) {
  absl::StrAppend(&out, "## ", MarkdownText(table.name), table.title.empty() ? "" : ": ", MarkdownText(table.title),
                  "\n\n");
  const TextColumns columns = LayOutColumns(table, kAnyWidth, 1);
  std::string names = "|", rules = "|";
  for (const TextColumn& column : columns.shown) {
    absl::StrAppend(&names, " ", MarkdownText(absl::StrJoin(column.header, " ")), " |");
    absl::StrAppend(&rules, column.right ? " ---: |" : " --- |");
  }
  absl::StrAppend(&out, table.rows.empty() ? "(no rows)" : absl::StrCat(names, "\n", rules), "\n");
  for (size_t row = 0; row < table.rows.size(); ++row) {
    out += "|";
    for (const TextColumn& column : columns.shown) absl::StrAppend(&out, " ", MarkdownText(column.cells[row]), " |");
    out += "\n";
  }
  for (const std::string& note : table.notes) absl::StrAppend(&out, "\n", MarkdownText(note), "\n");
}

}  // namespace

// RFC 4180, but with "\n" line ends, as is usual on this system. A row is a line: line ends inside a cell are escaped.
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
  absl::c_move(ReportRemarks(report), std::back_inserter(notes));
  return notes;
}

// Tables in Markdown (GitHub's), for issues and wikis: the values of text, all columns that have some.
std::string RenderMarkdown(const Report& report) {
  std::string out;
  for (const Table& table : report.tables) {
    if (!out.empty()) out += "\n";
    AppendMarkdownTable(table, out);
  }
  for (const std::string& remark : ReportRemarks(report)) absl::StrAppend(&out, "\n", MarkdownText(remark), "\n");
  return out;
}

const std::vector<Renderer>& Renderers() {
  static const auto& kRenderers = *new std::vector<Renderer>{
      {"text", "aligned columns and units for people", RenderText, true},
      {"csv", "a header line and raw numbers; tables are separated by an empty line", RenderCsv, false, CsvNotes},
      {"json", "one object: tables with typed columns, and the run", RenderJson},
      {"markdown", "tables for issues and wikis, with the values of text", RenderMarkdown, true},
  };
  return kRenderers;
}

}  // namespace dlhook::analyzer::render
