#include "analyzer/diff/diff_table.h"

#include "analyzer/tables/columns.h"

namespace dlhook::analyzer::inline diff {
namespace {

constexpr double kPartWorthNaming = 0.2;  // of the row's change

bool IsIdentity(Role role) { return role == Role::kKey || role == Role::kName || role == Role::kShape; }

std::string VerdictName(Speed finding, Match match) {
  if (finding == Speed::kSlower && match == Match::kAdded) return "added";
  if (finding == Speed::kFaster && match == Match::kRemoved) return "removed";
  return SpeedName(finding);
}

// The row in NEW; for a removed row that in BASE.
const Cell& NewestCell(const TableChanges& changes, const RowPair& rows, size_t column) {
  return rows.new_row == kNoRow ? changes.base->table.rows[rows.base][column]
                                : changes.new_side->table.rows[rows.new_row][column];
}

// Per step, whatever the table sums over.
Cell PerStep(const MeasuredTable& table, size_t row, size_t column) {
  if (row == kNoRow) return std::monostate();
  const auto* sum = std::get_if<int64_t>(&table.table.rows[row][column]);
  if (sum == nullptr) return std::monostate();
  return static_cast<double>(*sum) / table.per;
}

// With steps cut into blocks, amounts may differ by a call at the edge.
bool IsOtherAmount(const Cell& a, const Cell& b) { return std::abs(NumberOf(a) - NumberOf(b)) > 0.05; }

std::string AmountText(const Cell& cell) { return absl::StrFormat("%.3g", NumberOf(cell)); }

class Reasons {
 public:
  Reasons(const TableChanges& changes, const RowChange& row) : changes_(changes), row_(row) {}

  std::string Text() {
    if (row_.rows.base == kNoRow || row_.rows.new_row == kNoRow) return "";
    for (size_t column = 0; column < changes_.base->table.columns.size(); ++column) Look(column);
    return absl::StrJoin(words_, "; ");
  }

 private:
  void Look(size_t column) {
    const Column& about = changes_.base->table.columns[column];
    const Cell& before = changes_.base->table.rows[row_.rows.base][column];
    const Cell& after = changes_.new_side->table.rows[row_.rows.new_row][column];
    const std::string from = CellText(before), to = CellText(after);
    if (about.role == Role::kName && from != to) words_.push_back(absl::StrCat("was ", from));
    if (about.role == Role::kShape && from != to)
      words_.push_back(absl::StrCat(about.name, ": ", SizesChanged(from, to)));
    if (about.role == Role::kChoice && from != to) {
      words_.push_back(absl::StrCat(about.name, ": ", OrNone(from), " -> ", OrNone(to)));
    }
    if (about.role == Role::kAmount) LookAtAmount(about, column);
    if (about.role == Role::kPart) LookAtPart(about, NumberOf(after) - NumberOf(before));
  }

  static std::string OrNone(const std::string& text) { return text.empty() ? "none" : text; }

  void LookAtAmount(const Column& about, size_t column) {
    const Cell before = PerStep(*changes_.base, row_.rows.base, column);
    const Cell after = PerStep(*changes_.new_side, row_.rows.new_row, column);
    if (!IsOtherAmount(before, after)) return;
    words_.push_back(absl::StrCat(about.name, ": ", AmountText(before), " -> ", AmountText(after)));
  }

  void LookAtPart(const Column& about, double change_ns) {
    const bool is_worth = std::abs(change_ns) >= kPartWorthNaming * std::abs(row_.time.change_ns());
    if (is_worth && change_ns != 0) words_.push_back(absl::StrCat(about.name, " ", SignedTime(change_ns)));
  }

  const TableChanges& changes_;
  const RowChange& row_;
  std::vector<std::string> words_;
};

TypedColumns<RowChange> Columns(const TableChanges& changes) {
  TypedColumns<RowChange> columns;
  const Table& table = changes.new_side->table;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (!IsIdentity(table.columns[i].role)) continue;
    columns.Add({Column(table.columns[i]),
                 [&changes, i](const RowChange& change) { return NewestCell(changes, change.rows, i); }});
  }
  columns.Add(ChangeColumns().Of<RowChange>([](const RowChange& change) {
    return MatchedTime{change.time, change.rows.match};
  }));
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const Column& amount = table.columns[i];
    if (amount.role != Role::kAmount) continue;
    const auto of_side = [&](const char* side) {
      return Detail(Within(amount.range, RealColumn(absl::StrCat(amount.name, "_", side), amount.unit, amount.better,
                                                    absl::StrCat(amount.explanation, " Per step, on this side."))));
    };
    columns.Add({of_side("base"),
                 [&changes, i](const RowChange& change) { return PerStep(*changes.base, change.rows.base, i); }});
    columns.Add({of_side("new"), [&changes, i](const RowChange& change) {
                   return PerStep(*changes.new_side, change.rows.new_row, i);
                 }});
  }
  columns.Add({TextColumn("why"), "What else differs: implementation, size, name, parts and calls per step.",
               [&changes](const RowChange& change) { return KnownText(RowReason(changes, change)); }});
  return columns;
}

}  // namespace

Shape ShapeOf(const std::string& text) {
  Shape shape;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    while (at < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[at]))) ++at;
    shape.form.push_back(at == begin ? text[at++] : kSize);
    if (shape.form.back() == kSize) shape.sizes.push_back(text.substr(begin, at - begin));
  }
  return shape;
}

std::vector<SizeChange> ChangedSizes(const std::string& base, const std::string& new_side) {
  const Shape before = ShapeOf(base), after = ShapeOf(new_side);
  std::vector<SizeChange> sizes;
  if (before.form != after.form) return sizes;
  const std::vector<std::string> letters = absl::StrSplit(before.form, kSize);
  for (size_t i = 0; i < before.sizes.size(); ++i) {
    if (before.sizes[i] == after.sizes[i]) continue;
    sizes.push_back({letters[i].substr(letters[i].find_last_of("_ x") + 1), before.sizes[i], after.sizes[i]});
  }
  return sizes;
}

namespace {

// Also where noise is not known.
bool MayHaveChanged(const RowChange& change) {
  return change.time.finding != Speed::kNoise && change.time.finding != Speed::kEqual;
}

bool IsEqual(const TableChanges& changes, const RowChange& change) {
  const bool on_both = change.rows.base != kNoRow && change.rows.new_row != kNoRow;
  return on_both && change.time.finding == Speed::kEqual && RowReason(changes, change).empty();
}

}  // namespace

TypedColumns<MatchedTime> ChangeColumns() {
  const auto time = [](std::string name, std::string explanation) {
    return IntegerColumn(std::move(name), "ns", Better::kLower, std::move(explanation));
  };
  return {
      {Within(Range::kSigned, time("change", "New minus base, per step; of the whole run where steps are not known.")),
       [](const MatchedTime& matched) { return Rounded(matched.time.change_ns()); }},
      {Within(Range::kSigned, RealColumn("percent", "%", Better::kLower)), "Change as a part of the base's time.",
       [](const MatchedTime& matched) {
         return Percent(Rounded(matched.time.change_ns()), Rounded(matched.time.base_ns));
       }},
      {Detail(time("base", "Time per step in the base run: wall share; of GPUs durations.")),
       [](const MatchedTime& matched) { return Rounded(matched.time.base_ns); }},
      {Detail(time("new", "The same in the new run.")),
       [](const MatchedTime& matched) { return Rounded(matched.time.new_ns); }},
      {Detail(time(
           "noise",
           "Largest change that chance explains: from the spread over steps, and from what the whole step shares.")),
       [](const MatchedTime& matched) {
         return matched.time.noise_ns ? Cell(Rounded(*matched.time.noise_ns)) : Cell();
       }},
      {TextColumn("verdict"),
       "slower, faster, added or removed: beyond noise; noise: within it; unknown: no spread is known.",
       [](const MatchedTime& matched) { return VerdictName(matched.time.finding, matched.match); }},
  };
}

std::string SignedTime(double ns) { return absl::StrCat(ns < 0 ? "-" : "+", HumanTime(std::abs(ns))); }

std::string SizesChanged(const std::string& base, const std::string& new_side) {
  std::vector<std::string> words;
  for (const SizeChange& size : ChangedSizes(base, new_side)) {
    words.push_back(absl::StrCat(size.label, size.label.empty() ? "" : " ", size.from, " -> ", size.to));
  }
  return words.empty() ? absl::StrCat(base, " -> ", new_side) : absl::StrJoin(words, ", ");
}

bool SizesScale(const std::string& base, const std::string& new_side, int64_t before, int64_t after) {
  const std::vector<SizeChange> sizes = ChangedSizes(base, new_side);
  return !sizes.empty() && absl::c_all_of(sizes, [&](const SizeChange& size) {
    int64_t from = 0, to = 0;
    return absl::SimpleAtoi(size.from, &from) && absl::SimpleAtoi(size.to, &to) &&
           static_cast<__int128>(from) * after == static_cast<__int128>(to) * before;
  });
}

std::string RowReason(const TableChanges& changes, const RowChange& row) { return Reasons(changes, row).Text(); }

Table DiffTable(const TableChanges& changes) {
  std::vector<const RowChange*> order;
  for (const RowChange& row : changes.rows) {
    if (!IsEqual(changes, row)) order.push_back(&row);
  }
  absl::c_stable_sort(order, [](const RowChange* a, const RowChange* b) {
    if (MayHaveChanged(*a) != MayHaveChanged(*b)) return MayHaveChanged(*a);
    return std::abs(a->time.change_ns()) > std::abs(b->time.change_ns());
  });
  const Table& about = changes.new_side->table;
  return NewTable(about.name, about.title, Columns(changes), order);
}

}  // namespace dlhook::analyzer::diff
