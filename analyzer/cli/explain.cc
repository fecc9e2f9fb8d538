// Columns with the same name and meaning are one entry that lists all their tables.

#include <regex>

#include "analyzer/cli/tables.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/peaks/peaks.h"
#include "analyzer/render/text_columns.h"
#include "analyzer/table/table_ops.h"

// glossary.S
extern "C" const char dlhook_glossary[], dlhook_glossary_end[];

namespace dlhook::analyzer::inline cli {
namespace {

constexpr char kIndent[] = "    ";

struct Entry {
  Column column;
  std::vector<std::string> tables;
};

void Add(const Column& column, const std::string& table, std::vector<Entry>* entries) {
  const auto known = absl::c_find_if(*entries, [&](const Entry& entry) {
    const Column& other = entry.column;
    return std::tie(other.name, other.unit, other.better, other.explanation) ==
           std::tie(column.name, column.unit, column.better, column.explanation);
  });
  if (known != entries->end()) {
    known->tables.push_back(table);
  } else {
    entries->push_back({column, {table}});
  }
}

// All columns for which `is_wanted` returns true, in the order of the tables.
template <typename IsWanted>
std::vector<Entry> Collect(const std::vector<Table>& tables, IsWanted is_wanted) {
  std::vector<Entry> entries;
  for (const Table& table : tables) {
    for (const Column& column : table.columns) {
      if (is_wanted(table, column)) Add(column, table.name, &entries);
    }
  }
  return entries;
}

// "ns, less is better"
std::string Facts(const Column& column) {
  std::vector<std::string> facts;
  if (!column.unit.empty()) facts.push_back(column.unit);
  if (column.better == Better::kLower) facts.emplace_back("less is better");
  if (column.better == Better::kHigher) facts.emplace_back("more is better");
  return absl::StrJoin(facts, ", ");
}

void AppendIndented(const std::string& sentence, int width, std::string* out) {
  const size_t room = static_cast<size_t>(std::max(width, 20)) - sizeof kIndent;
  for (const std::string& line : Wrapped(sentence, room)) absl::StrAppend(out, kIndent, line, "\n");
}

std::string Text(const std::vector<Entry>& entries, int width, bool color) {
  std::string text;
  for (const Entry& entry : entries) {
    const std::string facts = Facts(entry.column);
    absl::StrAppend(&text, Styled(entry.column.name, Style::kHeader, color), facts.empty() ? "" : " (", facts,
                    facts.empty() ? "\n" : ")\n");
    AppendIndented(entry.column.explanation, width, &text);
    AppendIndented(
        absl::StrCat(entry.tables.size() == 1 ? "In table " : "In tables ", absl::StrJoin(entry.tables, ", ")), width,
        &text);
  }
  return text;
}

// "xN" for "x6", "#N" for "#2", which stand behind names.
std::string GlossaryWord(absl::string_view word) {
  const bool is_number = word.size() > 1 && (word[0] == 'x' || word[0] == '#') &&
                         std::all_of(word.begin() + 1, word.end(), absl::ascii_isdigit);
  return is_number ? absl::StrCat(word.substr(0, 1), "N") : std::string(word);
}

// The glossary's rows "| word, word | meaning |" that have the word.
std::string FromGlossary(absl::string_view name, int width, bool color) {
  const absl::string_view all(dlhook_glossary, static_cast<size_t>(dlhook_glossary_end - dlhook_glossary));
  const std::string wanted = GlossaryWord(name);
  std::string text;
  for (const absl::string_view line : absl::StrSplit(all, '\n')) {
    const std::vector<absl::string_view> cells = absl::StrSplit(line, " | ");
    if (cells.size() != 2 || !absl::StartsWith(line, "| ")) continue;
    const absl::string_view words = cells[0].substr(2);
    for (const absl::string_view word : absl::StrSplit(words, ", ")) {
      if (!absl::EqualsIgnoreCase(word, wanted)) continue;
      absl::StrAppend(&text, Styled(words, Style::kHeader, color), "\n");
      const std::string meaning(cells[1].substr(0, cells[1].rfind(" |")));
      static const std::regex kLink(R"(\[([^\]]*)\]\(([^)#]*)[^)]*\))");
      AppendIndented(std::regex_replace(meaning, kLink, "$1 (docs/$2)"), width, &text);
      break;
    }
  }
  return text;
}

absl::Status Unknown(const std::vector<Table>& tables, const std::string& name) {
  std::set<std::string> known;
  for (const Table& table : tables) {
    known.insert(table.name);
    for (const Column& column : table.columns) known.insert(column.name);
  }
  const std::string column = name.substr(name.find('.') == std::string::npos ? 0 : name.find('.') + 1);
  const std::string nearest = NearestName(column, {known.begin(), known.end()});
  return absl::InvalidArgumentError(
      absl::StrCat("--explain: no table has a column '", name, "', and the glossary no such word",
                   nearest.empty() ? "" : "; did you mean ", nearest, nearest.empty() ? "; " : "? ",
                   "--explain all explains every column, --explain TABLE those of one table"));
}

}  // namespace

absl::StatusOr<std::vector<Table>> EmptyTables() {
  TraceModel model;
  ASSIGN_OR_RETURN(const auto kinds, FindTables({}));
  // So that there are columns about peaks.
  Calibration calibration;
  calibration.processors = 1;
  calibration.measured.push_back({SpreadOf({1}, true), "f32", 1, "GFLOP/s", ""});
  model.processes.emplace_back().processors = 1;
  const Peaks peaks(model, &calibration);
  model.processes.clear();
  ASSIGN_OR_RETURN(std::vector<Table> tables, RunAnalysis(&model, {}, peaks).MakeTables(kinds));
  // Columns that only some runs have.
  model.states.emplace_back();
  ASSIGN_OR_RETURN(const auto others,
                   RunAnalysis(&model, {.gpu_times = GpuTimes::kOfKernels}, peaks).MakeTables(kinds));
  for (size_t i = 0; i < tables.size(); ++i) {
    for (const Column& column : others[i].columns) {
      if (!FindColumn(tables[i], column.name)) tables[i].columns.push_back(column);
    }
  }
  return tables;
}

absl::StatusOr<std::string> Explain(const std::vector<Table>& tables, const std::string& name, int width, bool color) {
  std::vector<Entry> entries = Collect(tables, [&](const Table& table, const Column& column) {
    return name == "all" || column.name == name || absl::StrCat(table.name, ".", column.name) == name;
  });
  for (const Table& table : tables) {
    if (table.name != name) continue;
    for (const Column& column : table.columns) {
      if (column.name != name) Add(column, table.name, &entries);
    }
  }
  const std::string glossary = FromGlossary(name, width, color);
  if (entries.empty() && glossary.empty()) return Unknown(tables, name);
  if (name == "all") {
    absl::c_stable_sort(entries, [](const Entry& a, const Entry& b) { return a.column.name < b.column.name; });
  }
  return absl::StrCat(Text(entries, width, color), glossary);
}

}  // namespace dlhook::analyzer::cli
