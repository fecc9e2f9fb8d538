// Widths, headers and cells of text tables, and colours: ECMA-48 "select graphic rendition", the sequences that every
// terminal since the VT100 understands or ignores.
#include "analyzer/render/text_columns.h"

#include <iterator>

#include "analyzer/model/onednn_text.h"
#include "analyzer/render/escape.h"
#include "analyzer/table/table_ops.h"

namespace dlhook::analyzer::inline render {
namespace {

constexpr std::pair<absl::string_view, absl::string_view> kShortWords[] = {
    {"backward", "bwd"},
    {"backward-bias", "bwd-bias"},
    {"backward-data", "bwd-data"},
    {"backward-weights", "bwd-weights"},
    {"batch_normalization", "batch_norm"},
    {"convolution", "conv"},
    {"deconvolution", "deconv"},
    {"group_normalization", "group_norm"},
    {"inner_product", "inner_prod"},
    {"layer_normalization", "layer_norm"},
};
// "trial:convolution": an activity for an op of the kind after the colon.
constexpr absl::string_view kPrefixes[] = {"create:", "search:", "trial:"};

constexpr absl::string_view kKnownNumbers[] = {"g",  "mb", "ic", "oc", "id", "ih", "iw", "od", "oh", "ow", "kd",
                                               "kh", "kw", "sd", "sh", "sw", "dd", "dh", "dw", "pd", "ph", "pw"};
constexpr absl::string_view kAxes = "dhw";
constexpr int64_t kMaxSize = int64_t{1} << 30;

// One spatial axis, with dilation as frameworks count it.
struct Axis {
  int64_t in = 0, out = 0, kernel = 1, stride = 1, dilation = 1, padding = 0;

  bool FollowsFromTheRest() const {
    const int64_t reach = dilation * (kernel - 1) + 1;
    return out == 0 || (stride > 0 && out == (in + 2 * padding - reach) / stride + 1);
  }
};

int64_t NumberOr(const ProblemNumbers& numbers, const std::string& key, int64_t otherwise) {
  const auto found = numbers.find(key);
  return found == numbers.end() ? otherwise : found->second;
}

// Those in the problem, outermost first.
std::vector<Axis> AxesOf(const ProblemNumbers& numbers) {
  std::vector<Axis> axes;
  for (const char c : kAxes) {
    const auto number = [&](absl::string_view name, int64_t otherwise) {
      return NumberOr(numbers, absl::StrCat(name, std::string(1, c)), otherwise);
    };
    if (number("i", 0) == 0) continue;
    axes.push_back(
        {number("i", 0), number("o", 0), number("k", 1), number("s", 1), number("d", 0) + 1, number("p", 0)});
  }
  return axes;
}

// "k5", "k3x1"; nothing if all axes have `usual`.
void AppendAxes(absl::string_view letter, const std::vector<Axis>& axes, int64_t Axis::*member, int64_t usual,
                std::string* out) {
  const auto is = [member](int64_t value) { return [=](const Axis& axis) { return axis.*member == value; }; };
  if (absl::c_all_of(axes, is(usual))) return;
  absl::StrAppend(out, " ", letter);
  if (absl::c_all_of(axes, is(axes.front().*member))) {
    absl::StrAppend(out, axes.front().*member);
    return;
  }
  absl::StrAppend(out, absl::StrJoin(axes, "x", [member](std::string* text, const Axis& axis) {
                    absl::StrAppend(text, axis.*member);
                  }));
}

// Only digits, letters and "_": a number that ParseProblemNumbers ignores must not be lost. No impossible sizes: text
// from a trace may contain anything, and they are multiplied.
bool IsDescriptor(absl::string_view text, const ProblemNumbers& numbers) {
  if (numbers.count("mb") == 0 || numbers.count("ic") == 0) return false;
  const auto is_plain = [](char c) { return c == '_' || absl::ascii_isalnum(c); };
  if (!absl::c_all_of(text, is_plain)) return false;
  return absl::c_all_of(numbers, [](const auto& number) {
    return number.second >= 0 && number.second <= kMaxSize && absl::c_linear_search(kKnownNumbers, number.first);
  });
}

std::string HumanDescriptor(const ProblemNumbers& numbers) {
  const std::vector<Axis> axes = AxesOf(numbers);
  std::string text = absl::StrCat(numbers.at("mb"), "x", numbers.at("ic"));
  for (const Axis& axis : axes) absl::StrAppend(&text, "x", axis.in);
  if (const int64_t channels = NumberOr(numbers, "oc", 0); channels > 0) absl::StrAppend(&text, " oc", channels);
  if (NumberOr(numbers, "kw", 0) > 0) AppendAxes("k", axes, &Axis::kernel, 0, &text);
  AppendAxes("s", axes, &Axis::stride, 1, &text);
  AppendAxes("d", axes, &Axis::dilation, 1, &text);
  AppendAxes("p", axes, &Axis::padding, 0, &text);
  if (!absl::c_all_of(axes, [](const Axis& axis) { return axis.FollowsFromTheRest(); })) {
    AppendAxes("o", axes, &Axis::out, 0, &text);
  }
  if (const int64_t groups = NumberOr(numbers, "g", 1); groups != 1) absl::StrAppend(&text, " g", groups);
  return text;
}

constexpr size_t kMinText = 15;      // text is not shortened below this
constexpr size_t kMinLastText = 22;  // the last column is not wrapped into shorter lines
constexpr size_t kComfortableText = 32;
constexpr size_t kComfortableLastText = 40;  // sentences
constexpr double kHotPercent = 10;           // of the time
constexpr absl::string_view kCut = "..";
constexpr size_t kLeastApart = 15;  // in less there is no room for two parts of a name
constexpr size_t kTellingName = 8;  // a shorter name without its class ("Compute", "forward") says too little
constexpr char kNotKnown[] = "-";   // as in HumanCell

// See table.h about columns named "unit".
bool HoldsUnitOfPrevious(const Table& table, size_t index) {
  return index > 0 && table.columns[index].name == "unit" && table.columns[index].type == ColumnType::kText &&
         table.columns[index - 1].type != ColumnType::kText && table.columns[index - 1].unit.empty();
}

std::string CellText(const Table& table, const Row& row, size_t index) {
  std::string unit = table.columns[index].unit;
  if (index + 1 < row.size() && HoldsUnitOfPrevious(table, index + 1)) {
    if (const auto* row_unit = std::get_if<CellString>(&row[index + 1])) unit = *row_unit;
  }
  std::string text = HumanCell(row[index], unit);
  if (table.columns[index].name == "problem") text = HumanProblem(text);
  if (table.columns[index].name == "direction" && text == DirectionName(Direction::kUnknown)) return kNotKnown;
  if (unit != table.columns[index].unit && !IsUnitInCell(unit)) absl::StrAppend(&text, " ", unit);
  return VisibleText(text);
}

// The words of the name in as few lines as fit into `width`, without a unit that the cells show.
std::vector<std::string> HeaderLines(const Column& column, size_t width) {
  absl::string_view name = column.name;
  if (!column.unit.empty()) absl::ConsumeSuffix(&name, absl::StrCat("_", column.unit));
  std::vector<std::string> words = absl::StrSplit(VisibleText(name), '_');
  if (!IsUnitInCell(column.unit)) words.push_back(VisibleText(column.unit));
  for (const std::string& word : words) width = std::max(width, TextWidth(word));
  std::vector<std::string> lines;
  for (const std::string& word : words) {
    if (!lines.empty() && TextWidth(lines.back()) + 1 + TextWidth(word) <= width) {
      absl::StrAppend(&lines.back(), " ", word);
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

// A share of time for which less is better.
bool IsHot(const Column& column, const Cell& cell) {
  const auto* percent = std::get_if<double>(&cell);
  return percent != nullptr && column.unit == "%" && column.better == Better::kLower && *percent >= kHotPercent;
}

void FitWidth(TextColumn* column) {
  column->width = 0;
  for (const std::string& cell : column->cells) column->width = std::max(column->width, TextWidth(cell));
  for (const std::string& line : column->header) column->width = std::max(column->width, TextWidth(line));
}

TextColumn MakeColumn(const Table& table, size_t index) {
  const Column& column = table.columns[index];
  TextColumn text;
  text.name = column.name;
  text.right = column.type != ColumnType::kText;
  text.detail = column.detail;
  for (const Row& row : table.rows) {
    text.cells.push_back(CellText(table, row, index));
    text.hot.push_back(IsHot(column, row[index]));
  }
  FitWidth(&text);
  text.header = HeaderLines(column, text.width);
  FitWidth(&text);
  return text;
}

bool SaysNothing(const TextColumn& column) {
  return absl::c_all_of(column.cells, [](const std::string& cell) { return cell.empty() || cell == kNotKnown; });
}

// Length of a line with text columns of at most `text_width`.
size_t LineWidth(const std::vector<TextColumn>& columns, size_t text_width, size_t last_text_width, size_t gap) {
  size_t total = 0;
  for (const TextColumn& column : columns) {
    const size_t limit = &column == &columns.back() ? last_text_width : text_width;
    total += gap + (column.right ? column.width : std::min(column.width, limit));
  }
  return total - std::min(total, gap);
}

void TakeShortWords(std::vector<TextColumn>* columns) {
  for (TextColumn& column : *columns) {
    if (column.name != "kind" && column.name != "direction") continue;
    for (std::string& cell : column.cells) cell = ShortWord(cell);
    FitWidth(&column);
  }
}

// Shortens the widest text columns until the line fits; first the last one, whose text continues below.
void ShortenText(size_t width, size_t gap, std::vector<TextColumn>* columns) {
  TextColumn& last = columns->back();
  const size_t total = LineWidth(*columns, SIZE_MAX, SIZE_MAX, gap);
  if (total > width && !last.right && last.width > kComfortableLastText)
    last.width = std::max(kComfortableLastText, last.width - std::min(last.width, total - width));
  for (size_t now = LineWidth(*columns, SIZE_MAX, SIZE_MAX, gap); now > width; --now) {
    TextColumn* widest = nullptr;
    for (TextColumn& column : *columns) {
      const size_t least = &column == &columns->back() ? kMinLastText : kMinText;
      if (column.right || column.width <= least) continue;
      if (widest == nullptr || column.width > widest->width) widest = &column;
    }
    if (widest == nullptr) return;
    --widest->width;
  }
}

// A single word that is a C++ name: its last parts alone are enough.
bool IsName(absl::string_view text) {
  return absl::c_all_of(text, [](char c) { return absl::ascii_isalnum(c) || c == '_' || c == ':'; });
}

constexpr absl::string_view kEnd = "\033[0m";

absl::string_view Begin(Style style) {
  // Cyan, magenta and orange of the 256 colours that no theme changes: as far from white as from black.
  constexpr absl::string_view kBegins[] = {"",        "\033[1;38;5;30m",  "\033[1m",
                                           "\033[2m", "\033[1;38;5;132m", "\033[38;5;130m"};
  return kBegins[static_cast<size_t>(style)];
}

}  // namespace

std::string HumanProblem(absl::string_view problem) {
  const absl::string_view descriptor = problem.substr(0, problem.find(' '));
  const std::optional<ProblemNumbers> numbers = ParseProblemNumbers(descriptor);
  if (!numbers || !IsDescriptor(descriptor, *numbers)) return std::string(problem);
  return absl::StrCat(HumanDescriptor(*numbers), problem.substr(descriptor.size()));
}

std::string ShortWord(absl::string_view word) {
  for (absl::string_view prefix : kPrefixes) {
    absl::string_view rest = word;
    if (absl::ConsumePrefix(&rest, prefix)) return absl::StrCat(prefix, ShortWord(rest));
  }
  for (const auto& [whole, part] : kShortWords) {
    if (word == whole) return std::string(part);
  }
  return std::string(word);
}

size_t TextWidth(absl::string_view text) {
  return absl::c_count_if(text, [](char c) { return (c & 0xc0) != 0x80; });
}

std::string Shortened(const std::string& text, size_t width) {
  if (TextWidth(text) <= width || text.size() != TextWidth(text)) return text;
  const size_t scope = IsName(text) ? text.find("::") : std::string::npos;
  if (scope != std::string::npos) {
    const std::string rest = text.substr(scope + 2);
    if (rest.size() > kTellingName || absl::StrContains(rest, "::")) return Shortened(rest, width);
  }
  const size_t kept = width - kCut.size();
  return absl::StrCat(text.substr(0, kept - kept / 2), kCut, text.substr(text.size() - kept / 2));
}

namespace {

// The end of a text, and where others end alike, what stands before that: "..layer.3..tion.self.key".
std::string ShortenedEnd(const std::string& text, const std::set<std::string>& others, size_t width) {
  size_t alike = 0;  // characters at the end
  for (const std::string& other : others) {
    const auto [here, there] = std::mismatch(text.rbegin(), text.rend(), other.rbegin(), other.rend());
    if (other != text) alike = std::max(alike, static_cast<size_t>(here - text.rbegin()));
  }
  const size_t room = width - kCut.size();
  if (alike < room || room < kLeastApart) return absl::StrCat(kCut, text.substr(text.size() - room));
  const size_t before = std::min(text.size() - alike, room / 3), rest = room - before - kCut.size();
  return absl::StrCat(kCut, text.substr(text.size() - alike - before, before), kCut, text.substr(text.size() - rest));
}

}  // namespace

std::vector<std::string> ShortenedApart(const std::vector<std::string>& texts, size_t width) {
  std::vector<std::string> shortened;
  std::map<std::string, std::set<std::string>> wholes;  // by short form
  for (const std::string& text : texts) {
    shortened.push_back(Shortened(text, width));
    wholes[shortened.back()].insert(text);
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    const bool is_cut = texts[i].size() > width && texts[i].size() == TextWidth(texts[i]);
    if (!is_cut || wholes[shortened[i]].size() == 1) continue;
    shortened[i] = ShortenedEnd(texts[i], wholes[Shortened(texts[i], width)], width);
  }
  return shortened;
}

std::string Padded(const std::string& text, const TextColumn& column) {
  const std::string space(column.width - std::min(column.width, TextWidth(text)), ' ');
  return column.right ? space + text : text + space;
}

std::vector<std::string> Wrapped(absl::string_view text, size_t width) {
  std::vector<std::string> lines = {""};
  const std::string visible = VisibleText(text);
  for (absl::string_view word : absl::StrSplit(visible, ' ', absl::SkipEmpty())) {
    if (!lines.back().empty() && TextWidth(lines.back()) + 1 + TextWidth(word) > width) lines.emplace_back();
    absl::StrAppend(&lines.back(), lines.back().empty() ? "" : " ", word);
  }
  return lines;
}

TextColumns LayOutColumns(const Table& table, size_t width, size_t gap) {
  TextColumns columns;
  std::vector<TextColumn>& shown = columns.shown;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (HoldsUnitOfPrevious(table, i)) continue;
    TextColumn column = MakeColumn(table, i);
    if (i == 0 || !SaysNothing(column)) shown.push_back(std::move(column));
  }
  const auto hide = [&](std::vector<TextColumn>::iterator column) {
    columns.hidden.insert(columns.hidden.begin(), column->name);
    shown.erase(column);
  };
  if (LineWidth(shown, SIZE_MAX, kComfortableLastText, gap) > width) TakeShortWords(&shown);
  while (LineWidth(shown, kComfortableText, kComfortableText, gap) > width) {
    const auto detail = std::find_if(shown.rbegin(), shown.rend(), [](const TextColumn& c) { return c.detail; });
    if (detail == shown.rend()) break;
    hide(std::next(detail).base());
  }
  while (shown.size() > 2 && LineWidth(shown, kMinText, kMinLastText, gap) > width) hide(std::prev(shown.end()));
  ShortenText(width, gap, &shown);
  for (TextColumn& column : shown) {
    if (!column.right && &column != &shown.back()) column.cells = ShortenedApart(column.cells, column.width);
  }
  return columns;
}

std::string Styled(absl::string_view text, Style style, bool color) {
  const size_t begin = text.find_first_not_of(' ');
  if (!color || style == Style::kPlain || begin == absl::string_view::npos) return std::string(text);
  const size_t end = text.find_last_not_of(' ') + 1;
  return absl::StrCat(text.substr(0, begin), Begin(style), text.substr(begin, end - begin), kEnd, text.substr(end));
}

size_t StyleLength(absl::string_view text) {
  for (const Style style : {Style::kTitle, Style::kHeader, Style::kQuiet, Style::kHot, Style::kWarning}) {
    if (absl::StartsWith(text, Begin(style))) return Begin(style).size();
  }
  return absl::StartsWith(text, kEnd) ? kEnd.size() : 0;
}

}  // namespace dlhook::analyzer::render
