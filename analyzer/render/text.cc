// Tables for people: aligned, in lines of Report.width as far as possible, with what matters about the run below.
#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "analyzer/render/human.h"
#include "analyzer/render/renderer.h"
#include "analyzer/render/run_facts.h"

namespace dlhook::analyzer {
namespace {

constexpr size_t kGap = 2;           // between columns
constexpr size_t kMinTextWidth = 16;  // text is not shortened below this
constexpr absl::string_view kCut = "..";

// Characters, taking text to be UTF-8 without wide or combining ones.
size_t Width(absl::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });
}

// Text from the trace must not move the cursor or break the line.
std::string Printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

// Cuts the middle out: a problem's beginning and end tell more than its middle.
std::string Shortened(const std::string& text, size_t width) {
  if (Width(text) <= width || text.size() != Width(text)) return text;
  const size_t kept = width - kCut.size();
  return absl::StrCat(text.substr(0, kept - kept / 2), kCut, text.substr(text.size() - kept / 2));
}

std::string Padded(const std::string& text, size_t width, bool right) {
  const std::string space(width - std::min(width, Width(text)), ' ');
  return right ? space + text : text + space;
}

// One column as it is printed.
struct TextColumn {
  bool right = false;
  std::vector<std::string> header;  // lines
  std::vector<std::string> cells;
  size_t width = 0;

  size_t CellWidth() const {
    size_t widest = 0;
    for (const std::string& cell : cells) widest = std::max(widest, Width(cell));
    return widest;
  }
};

// The words of the name on as few lines as fit into `width`, without a unit that the cells show.
std::vector<std::string> HeaderLines(const Column& column, size_t width) {
  absl::string_view name = column.name;
  if (!column.unit.empty()) absl::ConsumeSuffix(&name, absl::StrCat("_", column.unit));
  std::vector<std::string> words = absl::StrSplit(name, '_');
  if (!IsUnitInCell(column.unit)) words.push_back(column.unit);
  for (const std::string& word : words) width = std::max(width, Width(word));
  std::vector<std::string> lines;
  for (const std::string& word : words) {
    if (!lines.empty() && Width(lines.back()) + 1 + Width(word) <= width) {
      absl::StrAppend(&lines.back(), " ", word);
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

TextColumn MakeColumn(const Table& table, size_t index) {
  const Column& column = table.columns[index];
  TextColumn text;
  text.right = column.type != ColumnType::kText;
  for (const Row& row : table.rows) text.cells.push_back(Printable(HumanCell(row[index], column.unit)));
  text.width = text.CellWidth();
  text.header = HeaderLines(column, text.width);
  for (const std::string& line : text.header) text.width = std::max(text.width, Width(line));
  return text;
}

// Takes from the widest text columns what the line is too long.
void FitInto(size_t width, std::vector<TextColumn>* columns) {
  size_t total = 0;
  for (const TextColumn& column : *columns) total += column.width + kGap;
  total -= std::min(total, kGap);
  while (total > width) {
    TextColumn* widest = nullptr;
    for (TextColumn& column : *columns) {
      if (!column.right && (widest == nullptr || column.width > widest->width)) widest = &column;
    }
    if (widest == nullptr || widest->width <= kMinTextWidth) return;
    --widest->width;
    --total;
  }
}

void AppendLine(std::string line, std::string* out) {
  line.erase(line.find_last_not_of(' ') + 1);
  absl::StrAppend(out, line, "\n");
}

void AppendHeader(const std::vector<TextColumn>& columns, std::string* out) {
  size_t lines = 0;
  for (const TextColumn& column : columns) lines = std::max(lines, column.header.size());
  for (size_t i = 0; i < lines; ++i) {
    std::vector<std::string> parts;
    for (const TextColumn& column : columns) {
      const size_t above = lines - column.header.size();
      parts.push_back(Padded(i < above ? "" : column.header[i - above], column.width, column.right));
    }
    AppendLine(absl::StrJoin(parts, "  "), out);
  }
  std::vector<std::string> rules;
  for (const TextColumn& column : columns) rules.emplace_back(column.width, '-');
  AppendLine(absl::StrJoin(rules, "  "), out);
}

// Breaks at spaces; lines after the first are indented.
void AppendSentence(absl::string_view sentence, size_t width, std::string* out) {
  std::string line;
  for (absl::string_view word : absl::StrSplit(sentence, ' ', absl::SkipEmpty())) {
    if (!line.empty() && Width(line) + 1 + Width(word) > width) {
      AppendLine(std::move(line), out);
      line = "   ";
    }
    absl::StrAppend(&line, line.empty() ? "" : " ", Printable(std::string(word)));
  }
  AppendLine(std::move(line), out);
}

void AppendTable(const Table& table, size_t width, std::string* out) {
  AppendSentence(absl::StrCat(table.name, table.title.empty() ? "" : ": ", table.title), width, out);
  std::vector<TextColumn> columns;
  for (size_t i = 0; i < table.columns.size(); ++i) columns.push_back(MakeColumn(table, i));
  FitInto(width, &columns);
  AppendHeader(columns, out);
  for (size_t row = 0; row < table.rows.size(); ++row) {
    std::vector<std::string> parts;
    for (const TextColumn& column : columns) {
      parts.push_back(Padded(Shortened(column.cells[row], column.width), column.width, column.right));
    }
    AppendLine(absl::StrJoin(parts, "  "), out);
  }
  if (table.rows.empty()) absl::StrAppend(out, "(no rows)\n");
  for (const std::string& note : table.notes) AppendSentence(note, width, out);
}

}  // namespace

std::string RenderText(const Report& report) {
  std::string out;
  for (const Table& table : report.tables) {
    if (!out.empty()) out.push_back('\n');
    AppendTable(table, report.width, &out);
  }
  const std::vector<std::string> remarks = RunRemarks(*report.run);
  if (!remarks.empty() && !out.empty()) out.push_back('\n');
  for (const std::string& remark : remarks) AppendSentence(remark, report.width, &out);
  return out;
}

}  // namespace dlhook::analyzer
