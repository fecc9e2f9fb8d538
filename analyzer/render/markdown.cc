// Tables in Markdown (GitHub's), for issues and wikis: the values of text, all columns that have some.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/renderer.h"
#include "analyzer/render/run_facts.h"
#include "analyzer/render/text_columns.h"

namespace dlhook::analyzer::inline render {
namespace {

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

std::string RenderMarkdown(const Report& report) {
  std::string out;
  for (const Table& table : report.tables) {
    if (!out.empty()) out += "\n";
    AppendMarkdownTable(table, out);
  }
  for (const std::string& remark : ReportRemarks(report)) absl::StrAppend(&out, "\n", MarkdownText(remark), "\n");
  return out;
}

}  // namespace dlhook::analyzer::render
