// What a report says: typed columns and rows. Because results are data, every table has every output format and can be
// compared with another run's.
#ifndef DLHOOK_ANALYZER_TABLE_TABLE_H_
#define DLHOOK_ANALYZER_TABLE_TABLE_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace dlhook::analyzer::inline table {

enum class ColumnType { kText, kInteger, kReal };
enum class Better { kNeither, kLower, kHigher };

// What a column is for those who compare the tables of two runs (analyzer/diff). Tables with a kWeight column can be compared.
enum class Role {
  kNone,
  kKey,     // rows that are alike in all of these are about the same thing
  kName,    // the same, of a layer, which the program may have renamed
  kShape,   // the same, of a problem, which may change its sizes
  kChoice,  // how it is done: what may explain a change
  kWeight,  // time, summed over the run: what rows are compared by. One a table
  kAmount,  // another such sum: calls, bytes
  kPart     // a part of the weight, in a mean step
};

// What a number may be; always finite.
enum class Range : uint8_t {
  kByUnit,       // 0 or more, and of "%" 100 at most
  kNotNegative,  // 0 or more, also of "%": a sum over threads that overlap
  kMeasured,  // as kByUnit, but a ratio of what different clocks or counters measured: beyond it these are wrong, not the table
  kSigned
};

// A text column named "unit" right of a number column without a unit holds that number's unit, row by row.
struct Column {
  std::string name;  // stable, lower_case, unique in its table
  std::string unit;  // "ns", "bytes", "flops", "GFLOP/s", "%" …, empty for text and plain numbers
  ColumnType type = ColumnType::kText;
  Better better = Better::kNeither;
  std::string explanation;  // one sentence for people
  bool detail = false;      // of second rank: text shows it only where the line has room
  Role role = Role::kNone;
  Range range = Range::kByUnit;
};

// monostate: not known (text: "-", csv: empty, json: null). Never used for zero.
using Cell = std::variant<std::monostate, std::string, int64_t, double>;
using Row = std::vector<Cell>;

struct Table {
  std::string name;
  std::string title;  // one line for people
  std::vector<Column> columns;
  std::vector<Row> rows;           // each as long as columns; a cell holds its column's type or monostate
  std::vector<std::string> notes;  // sentences shown under the table in text, carried in json
};

}  // namespace dlhook::analyzer::table

#endif  // DLHOOK_ANALYZER_TABLE_TABLE_H_
