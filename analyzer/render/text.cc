// Tables for people: aligned, in lines of Report.width as far as possible, with what matters about
// the run below.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "analyzer/render/renderer.h"
#include "analyzer/render/run_facts.h"
#include "analyzer/render/text_columns.h"

namespace dlhook::analyzer {
namespace {

constexpr absl::string_view kGap = "  ";

void AppendLine(std::string line, std::string* out) {
  line.erase(line.find_last_not_of(' ') + 1);
  absl::StrAppend(out, line, "\n");
}

// Lines after the first are indented.
void AppendSentence(absl::string_view sentence, size_t width, std::string* out) {
  const char* indent = "";
  for (const std::string& line : Wrapped(sentence, width - 4)) {
    AppendLine(absl::StrCat(indent, line), out);
    indent = "    ";
  }
}

void AppendHeader(const std::vector<TextColumn>& columns, std::string* out) {
  size_t lines = 0;
  for (const TextColumn& column : columns) lines = std::max(lines, column.header.size());
  for (size_t i = 0; i < lines; ++i) {
    std::vector<std::string> parts;
    for (const TextColumn& column : columns) {
      const size_t above = lines - column.header.size();
      parts.push_back(Padded(i < above ? "" : column.header[i - above], column));
    }
    AppendLine(absl::StrJoin(parts, kGap), out);
  }
  std::vector<std::string> rules;
  for (const TextColumn& column : columns) rules.emplace_back(column.width, '-');
  AppendLine(absl::StrJoin(rules, kGap), out);
}

// The last column may take several lines, the others stand in the first of them.
void AppendRow(const std::vector<TextColumn>& columns, size_t row, std::string* out) {
  const TextColumn& last = columns.back();
  std::vector<std::string> last_lines = {last.cells[row]};
  if (!last.right && TextWidth(last.cells[row]) > last.width)
    last_lines = Wrapped(last.cells[row], last.width);
  for (size_t line = 0; line < last_lines.size(); ++line) {
    std::vector<std::string> parts;
    for (size_t i = 0; i + 1 < columns.size(); ++i) {
      parts.push_back(
          Padded(line == 0 ? Shortened(columns[i].cells[row], columns[i].width) : "", columns[i]));
    }
    parts.push_back(Padded(Shortened(last_lines[line], last.width), last));
    AppendLine(absl::StrJoin(parts, kGap), out);
  }
}

void AppendTable(const Table& table, size_t width, std::string* out) {
  AppendSentence(absl::StrCat(table.name, table.title.empty() ? "" : ": ", table.title), width,
                 out);
  if (table.rows.empty()) {
    absl::StrAppend(out, "(no rows)\n");
  } else {
    const TextColumns columns = LayOutColumns(table, width, kGap.size());
    AppendHeader(columns.shown, out);
    for (size_t row = 0; row < table.rows.size(); ++row) AppendRow(columns.shown, row, out);
    if (!columns.hidden.empty()) {
      AppendSentence(absl::StrCat("(no room for: ", absl::StrJoin(columns.hidden, ", "),
                                  "; see --format csv)"),
                     width, out);
    }
  }
  for (const std::string& note : table.notes) AppendSentence(note, width, out);
}

}  // namespace

std::string RenderText(const Report& report) {
  const size_t width = std::max(report.width, 20);
  std::string out;
  for (const Table& table : report.tables) {
    if (!out.empty()) out.push_back('\n');
    AppendTable(table, width, &out);
  }
  const std::vector<std::string> remarks = RunRemarks(*report.run);
  if (!remarks.empty() && !out.empty()) out.push_back('\n');
  for (const std::string& remark : remarks) AppendSentence(remark, width, &out);
  return out;
}

}  // namespace dlhook::analyzer
