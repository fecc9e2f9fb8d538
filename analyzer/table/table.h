// A table: typed columns and rows. Every table can be written in every output format and compared with that of another
// run.
#pragma once

#include "analyzer/model/prelude.h"

namespace dlhook::analyzer::inline table {

enum class ColumnType { kText, kInteger, kReal };
enum class Better { kNeither, kLower, kHigher };

// The role of a column when two runs are compared (analyzer/diff). Tables with a kWeight column can be compared.
enum class Role {
  kNone,
  kKey,     // rows that are equal in all of these describe the same thing
  kName,    // the same for the name of a layer, which may change between runs
  kShape,   // the same for a problem, whose sizes may change
  kChoice,  // how it is done, which may explain a change
  kWeight,  // time, summed over the run, by which rows are compared; at most one per table
  kAmount,  // another sum: calls, bytes
  kPart     // part of the weight, per mean step
};

// The range of a number; always finite.
enum class Range : uint8_t {
  kByUnit,       // 0 or more; for "%" at most 100
  kNotNegative,  // 0 or more, also for "%": a sum over threads that overlap
  kMeasured,  // as kByUnit, but a ratio of values from different clocks or counters: if out of range, those are wrong,
              // not the table
  kSigned
};

// A text column named "unit" to the right of a number column without a unit holds the unit of that number in each row.
struct Column {
  std::string name;  // stable, lower_case, unique in its table
  std::string unit;  // "ns", "bytes", "flops", "GFLOP/s", "%" …, empty for text and plain numbers
  ColumnType type = ColumnType::kText;
  Better better = Better::kNeither;
  std::string explanation;  // one sentence for the user
  bool detail = false;      // less important: text output shows it only if the line has room
  Role role = Role::kNone;
  Range range = Range::kByUnit;
};

// The text of a cell, in the room of a pointer: a run of hundreds of thousands of steps has millions of cells, and few
// different texts. Each text is kept once, to the end of the process.
class CellString {
 public:
  // NOLINTBEGIN(google-explicit-constructor): cells are made of any kind of text
  CellString(absl::string_view text);
  CellString(const std::string& text) : CellString(absl::string_view(text)) {}
  CellString(const char* text) : CellString(absl::string_view(text)) {}
  operator const std::string&() const { return *text_; }
  // NOLINTEND
  const std::string& str() const { return *text_; }
  friend bool operator==(CellString a, CellString b) { return a.text_ == b.text_; }
  friend auto operator<=>(CellString a, CellString b) { return *a.text_ <=> *b.text_; }

 private:
  const std::string* text_;
};

// monostate: not known (text: "-", csv: empty, json: null). Never used for zero.
using Cell = std::variant<std::monostate, CellString, int64_t, double>;
static_assert(sizeof(Cell) == 16);
using Row = std::vector<Cell>;

struct Table {
  std::string name;
  std::string title;  // one line for the user
  std::vector<Column> columns;
  std::vector<Row> rows;           // each as long as columns; a cell holds its column's type or monostate
  std::vector<std::string> notes;  // sentences shown under the table in text, carried in json
  std::string sentences_from;      // in text, this column and those after it are sentences below the row; empty: none

  // A note that consists of these texts and numbers.
  void Note(const auto&... parts) { notes.push_back(absl::StrCat(parts...)); }
};

}  // namespace dlhook::analyzer::table
