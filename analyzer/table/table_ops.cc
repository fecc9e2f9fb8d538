// Sorting, truncating and checking tables.
// Three significant digits and a prefix.
// Lists of columns, and the texts of cells.
#include "analyzer/table/table_ops.h"

#include <mutex>

#include "absl/container/node_hash_set.h"
#include "analyzer/table/typed_columns.h"

namespace dlhook::analyzer::inline table {
namespace {

bool IsUnknown(const Cell& cell) { return std::holds_alternative<std::monostate>(cell); }

bool ComesBefore(const Cell& a, const Cell& b) {
  if (IsUnknown(a) || IsUnknown(b)) return !IsUnknown(a) && IsUnknown(b);
  if (std::holds_alternative<CellString>(a)) return a < b;
  return a > b;
}

// Index of the alternative that a cell of this type holds.
size_t Alternative(ColumnType type) {
  if (type == ColumnType::kText) return Cell(std::string()).index();
  return type == ColumnType::kInteger ? Cell(int64_t{0}).index() : Cell(0.0).index();
}

constexpr double kRoundingPercent = 1e-9;

// Clamps a percentage that rounding pushed above 100.
bool IsPossible(Range range, absl::string_view unit, Cell* cell) {
  if (const auto* integer = std::get_if<int64_t>(cell)) return range == Range::kSigned || *integer >= 0;
  auto* real = std::get_if<double>(cell);
  if (real == nullptr) return true;
  if (!std::isfinite(*real)) return false;
  if (range == Range::kByUnit && unit == "%" && *real > 100 && *real <= 100 + kRoundingPercent) *real = 100;
  return range == Range::kSigned || (*real >= 0 && (range == Range::kNotNegative || unit != "%" || *real <= 100));
}

std::string NumberText(const Cell& cell) {
  const auto* integer = std::get_if<int64_t>(&cell);
  return integer != nullptr ? absl::StrCat(*integer) : absl::StrCat(std::get<double>(cell));
}

// The unit of a cell: its column's, or that of its row (see table.h).
absl::string_view UnitOf(const Table& table, const Row& row, size_t column) {
  const bool is_in_row = table.columns[column].unit.empty() && column + 1 < row.size() &&
                         table.columns[column + 1].name == "unit" &&
                         std::holds_alternative<CellString>(row[column + 1]);
  return is_in_row ? std::get<CellString>(row[column + 1]).str() : table.columns[column].unit;
}

struct Scale {
  double factor;
  absl::string_view unit;
};

// The largest scale that leaves at least 1 before the point.
constexpr Scale kTimes[] = {{1, "ns"}, {1e3, "us"}, {1e6, "ms"}, {1e9, "s"}};
constexpr Scale kBytes[] = {{1, "B"}, {0x1p10, "KiB"}, {0x1p20, "MiB"}, {0x1p30, "GiB"}, {0x1p40, "TiB"}};
constexpr Scale kFlops[] = {{1, "FLOP"},    {1e3, "kFLOP"},  {1e6, "MFLOP"},
                            {1e9, "GFLOP"}, {1e12, "TFLOP"}, {1e15, "PFLOP"}};

std::string ThreeDigits(double value) {
  const double size = std::fabs(value);
  return absl::StrFormat("%.*f", size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2, value);
}

// 999.6 would be rounded to 1000: use 1.00 of the next unit.
template <size_t kCount>
std::string Scaled(double value, const Scale (&scales)[kCount]) {
  size_t i = 0;
  while (i + 1 < kCount && std::fabs(value) >= scales[i + 1].factor * 0.9995) ++i;
  if (i == 0) return absl::StrCat(absl::StrFormat("%.0f", value), " ", scales[0].unit);
  return absl::StrCat(ThreeDigits(value / scales[i].factor), " ", scales[i].unit);
}

std::string HumanNumber(double value, absl::string_view unit, bool is_integer) {
  if (!std::isfinite(value)) return "-";
  if (unit == "ns") return Scaled(value, kTimes);
  if (unit == "bytes") return Scaled(value, kBytes);
  if (unit == "flops") return Scaled(value, kFlops);
  if (unit == "%") return absl::StrFormat("%.1f%%", value);
  return is_integer ? absl::StrFormat("%.0f", value) : ThreeDigits(value);
}

auto Named(std::vector<AnyColumn>& columns, absl::string_view name) {
  return absl::c_find_if(columns, [name](const AnyColumn& column) { return column.column.name == name; });
}

}  // namespace

std::optional<size_t> FindColumn(const Table& table, absl::string_view name) {
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (table.columns[i].name == name) return i;
  }
  return std::nullopt;
}

std::string TextOf(const Table& table, const Row& row, absl::string_view column) {
  const std::optional<size_t> at = FindColumn(table, column);
  const auto* text = at ? std::get_if<CellString>(&row[*at]) : nullptr;
  return text == nullptr ? "" : text->str();
}

double NumberOf(const Table& table, const Row& row, absl::string_view column) {
  const std::optional<size_t> at = FindColumn(table, column);
  return at ? NumberOf(row[*at]) : 0;
}

double NumberOf(const Cell& cell) {
  if (const auto* whole = std::get_if<int64_t>(&cell)) return static_cast<double>(*whole);
  const auto* real = std::get_if<double>(&cell);
  return real == nullptr ? 0 : *real;
}

size_t ColumnOf(const Table& table, Role role) {
  for (size_t column = 0; column < table.columns.size(); ++column) {
    if (table.columns[column].role == role) return column;
  }
  return kNoColumn;
}

void AddRow(std::initializer_list<std::pair<absl::string_view, Cell>> known, Table* table) {
  Row& row = table->rows.emplace_back(table->columns.size());
  for (const auto& [name, cell] : known) {
    if (const auto column = FindColumn(*table, name)) row[*column] = cell;
  }
}

void SortBy(size_t column, Table* table) {
  absl::c_stable_sort(table->rows, [column](const Row& a, const Row& b) { return ComesBefore(a[column], b[column]); });
}

void LimitRows(size_t limit, Table* table) {
  if (table->rows.size() <= limit) return;
  const size_t all = table->rows.size();
  table->rows.resize(limit);
  NoteRowsLeftOut(all, table);
}

void NoteRowsLeftOut(size_t all, Table* table) {
  if (all == table->rows.size()) return;
  table->notes.push_back(absl::StrCat("The first ", table->rows.size(), " of ", all, " rows."));
}

absl::Status CheckTable(const Table& table) {
  std::set<absl::string_view> names;
  for (const Column& column : table.columns) {
    if (!names.insert(column.name).second) {
      return absl::InternalError(absl::StrCat("table ", table.name, ": two columns ", column.name));
    }
  }
  for (const Row& row : table.rows) {
    if (row.size() != table.columns.size()) {
      return absl::InternalError(
          absl::StrCat("table ", table.name, ": a row of ", row.size(), " cells, expected ", table.columns.size()));
    }
    for (size_t i = 0; i < row.size(); ++i) {
      if (!IsUnknown(row[i]) && row[i].index() != Alternative(table.columns[i].type)) {
        return absl::InternalError(
            absl::StrCat("table ", table.name, ": a cell of another type in column ", table.columns[i].name));
      }
    }
  }
  return absl::OkStatus();
}

size_t TakeAwayNonsense(Table* table) {
  size_t mistakes = 0;
  for (size_t i = 0; i < table->columns.size(); ++i) {
    const Column& column = table->columns[i];
    size_t count = 0;
    std::string example;
    for (Row& row : table->rows) {
      const absl::string_view unit = UnitOf(*table, row, i);
      if (IsPossible(column.range, unit, &row[i])) continue;
      if (count++ == 0) example = absl::StrCat(NumberText(row[i]), unit.empty() ? "" : " ", unit);
      row[i] = std::monostate();
    }
    if (count == 0) continue;
    if (column.range != Range::kMeasured) mistakes += count;
    table->notes.push_back(absl::StrCat("Odd: ", column.name, " of ", count, count == 1 ? " row" : " rows",
                                        " can't be (", example,
                                        ") and is left out: the trace is damaged, or a clock or counter went wrong."));
  }
  return mistakes;
}

std::string HumanCell(const Cell& cell, absl::string_view unit) {
  if (const auto* text = std::get_if<CellString>(&cell)) return *text;
  if (const auto* real = std::get_if<double>(&cell)) return HumanNumber(*real, unit, false);
  if (const auto* integer = std::get_if<int64_t>(&cell)) {
    if (unit.empty()) return absl::StrCat(*integer);
    return HumanNumber(static_cast<double>(*integer), unit, true);
  }
  return "-";
}

std::string HumanTime(double ns) { return HumanNumber(ns, "ns", false); }

bool IsUnitInCell(absl::string_view unit) {
  return unit.empty() || unit == "ns" || unit == "bytes" || unit == "flops" || unit == "%";
}

CellString::CellString(absl::string_view text) {
  static auto& mutex = *new std::mutex;
  static auto& texts = *new absl::node_hash_set<std::string>;
  const std::lock_guard lock(mutex);
  text_ = &*texts.emplace(text).first;
}

Cell ToCell(const std::set<std::string>& words) { return absl::StrJoin(words, ", "); }

Column* AnyColumns::Find(absl::string_view name) {
  const auto at = Named(columns_, name);
  return at == columns_.end() ? nullptr : &at->column;
}

void AnyColumns::Add(const AnyColumn& column) { columns_.push_back(column); }

void AnyColumns::Insert(absl::string_view after, const AnyColumns& more) {
  const auto at = Named(columns_, after);
  columns_.insert(at == columns_.end() ? at : at + 1, more.columns_.begin(), more.columns_.end());
}

void AddRow(const AnyColumns& columns, const void* item, Table* table) {
  Row& row = table->rows.emplace_back();
  row.reserve(columns.all().size());
  for (const AnyColumn& column : columns.all()) row.push_back(column.cell(item));
}

Table NewTable(std::string name, std::string title, const AnyColumns& columns, const std::vector<const void*>& items) {
  Table table;
  table.name = std::move(name);
  table.title = std::move(title);
  for (const AnyColumn& column : columns.all()) table.columns.push_back(column.column);
  for (const void* item : items) AddRow(columns, item, &table);
  return table;
}

}  // namespace dlhook::analyzer::table
