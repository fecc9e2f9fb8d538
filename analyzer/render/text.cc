// Tables as text: aligned, within Report.width if possible, with remarks about the run below.

#include "analyzer/render/renderer.h"
#include "analyzer/render/text_columns.h"

namespace dlhook::analyzer::inline render {
namespace {

constexpr absl::string_view kGap = "  ";
constexpr size_t kMaxHiddenLine = 2;  // lines for the names of hidden columns

// The lines of one report.
class TextWriter {
 public:
  TextWriter(size_t width, bool color) : width_(width), color_(color) {}

  void Line(std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&out_, line, "\n");
  }
  // Lines after the first are indented. `lead`: the styled beginning.
  void Sentence(absl::string_view sentence, absl::string_view lead = "", Style style = Style::kPlain) {
    const char* indent = "";
    for (const std::string& line : Wrapped(sentence, width_ - 4)) {
      const absl::string_view begin = *indent == '\0' && absl::StartsWith(line, lead) ? lead : "";
      Line(absl::StrCat(indent, Styled(begin, style, color_), line.substr(begin.size())));
      indent = "    ";
    }
  }
  void Indented(const std::string& sentence) {
    for (const std::string& line : Wrapped(sentence, width_ - 4)) Line(absl::StrCat("    ", line));
  }

  void WriteTable(const Table& table) {
    Sentence(absl::StrCat(table.name, table.title.empty() ? "" : ": ", table.title), table.name, Style::kTitle);
    if (table.rows.empty()) {
      Line("(no rows)");
    } else if (absl::c_any_of(table.columns,
                              [&](const Column& column) { return column.name == table.sentences_from; })) {
      Paragraphs(table);
    } else {
      const TextColumns columns = LayOutColumns(table, width_, kGap.size());
      Header(columns.shown);
      for (size_t row = 0; row < table.rows.size(); ++row) RowLines(columns.shown, row);
      Hidden(columns.hidden);
    }
    for (const std::string& note : table.notes) Sentence(note);
  }

  void Remark(const std::string& remark) { Sentence(remark, remark.substr(0, remark.find(':')), Style::kWarning); }
  bool is_empty() const { return out_.empty(); }
  std::string Take() { return std::move(out_); }

 private:
  void Header(const std::vector<TextColumn>& columns) {
    size_t lines = 0;
    for (const TextColumn& column : columns) lines = std::max(lines, column.header.size());
    for (size_t i = 0; i < lines; ++i) {
      std::vector<std::string> parts;
      for (const TextColumn& column : columns) {
        const size_t above = lines - column.header.size();
        parts.push_back(Styled(Padded(i < above ? "" : column.header[i - above], column), Style::kHeader, color_));
      }
      Line(absl::StrJoin(parts, kGap));
    }
    std::vector<std::string> rules;
    for (const TextColumn& column : columns) rules.emplace_back(column.width, '-');
    Line(Styled(absl::StrJoin(rules, kGap), Style::kQuiet, color_));
  }

  // The last column may take several lines; the others are in the first of these.
  void RowLines(const std::vector<TextColumn>& columns, size_t row) {
    const TextColumn& last = columns.back();
    std::vector<std::string> last_lines = {last.cells[row]};
    if (!last.right && TextWidth(last.cells[row]) > last.width) last_lines = Wrapped(last.cells[row], last.width);
    for (size_t line = 0; line < last_lines.size(); ++line) {
      std::vector<std::string> parts;
      for (size_t i = 0; i + 1 < columns.size(); ++i) {
        const TextColumn& column = columns[i];
        parts.push_back(line == 0 ? StyledCell(column, Padded(Shortened(column.cells[row], column.width), column), row)
                                  : Padded("", column));
      }
      parts.push_back(StyledCell(last, Padded(Shortened(last_lines[line], last.width), last), row));
      Line(absl::StrJoin(parts, kGap));
    }
  }

  // `text`: the cell, shortened and padded.
  std::string StyledCell(const TextColumn& column, const std::string& text, size_t row) const {
    if (column.hot[row]) return Styled(text, Style::kHot, color_);
    if (column.cells[row] == "-") return Styled(text, Style::kQuiet, color_);
    const size_t unit = column.right ? text.rfind(' ') : std::string::npos;
    if (unit == std::string::npos || unit + 1 == text.size() || absl::ascii_isdigit(text[unit + 1])) return text;
    return absl::StrCat(text.substr(0, unit), Styled(text.substr(unit), Style::kQuiet, color_));
  }

  // As many of their names as fit into a few lines: there may be dozens.
  void Hidden(const std::vector<std::string>& names) {
    if (names.empty()) return;
    std::string sentence;
    for (size_t shown = names.size(); shown > 0; --shown) {
      sentence = absl::StrCat("(no room for ", names.size(), " of the columns: ",
                              absl::StrJoin(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", "),
                              shown < names.size() ? ", ..." : "", "; --format csv has all)");
      if (Wrapped(sentence, width_ - 4).size() <= kMaxHiddenLine) break;
    }
    Sentence(sentence);
  }

  // Each row as a line, and below it its sentences in full, whatever the width: the first as it is, the second as what to
  // do, the rest by their names.
  void Paragraphs(const Table& table) {
    const TextColumns columns = LayOutColumns(table, kAnyWidth, kGap.size());
    const auto begin =
        absl::c_find_if(columns.shown, [&](const TextColumn& column) { return column.name == table.sentences_from; });
    for (size_t row = 0; row < table.rows.size(); ++row) {
      std::vector<std::string> head, rest;
      for (auto column = columns.shown.begin(); column != begin; ++column) {
        if (column->cells[row] != "-") head.push_back(column->cells[row]);
      }
      Sentence(absl::StrJoin(head, ", "), head.front(), Style::kHeader);
      for (auto column = begin; column != columns.shown.end(); ++column) {
        if (column->cells[row] == "-") continue;
        if (column - begin < 2) {
          Indented(absl::StrCat(column == begin ? "" : "-> ", column->cells[row]));
        } else {
          rest.push_back(absl::StrCat(column->name, ": ", column->cells[row]));
        }
      }
      if (!rest.empty()) Indented(absl::StrCat(absl::StrJoin(rest, "; "), "."));
    }
  }

  const size_t width_;
  const bool color_;
  std::string out_;
};

}  // namespace

std::string RenderText(const Report& report) {
  TextWriter writer(std::max(report.width, 20), report.color);
  if (!report.environment.empty())
    writer.Sentence(absl::StrCat("environment: ", report.environment, "."), "environment", Style::kWarning);
  for (const Table& table : report.tables) {
    if (!writer.is_empty()) writer.Line("");
    writer.WriteTable(table);
  }
  const std::vector<std::string> remarks = ReportRemarks(report);
  if (!remarks.empty() && !writer.is_empty()) writer.Line("");
  for (const std::string& remark : remarks) writer.Remark(remark);
  return writer.Take();
}

}  // namespace dlhook::analyzer::render
