// The changes of a table, as a table that every format can write.
#pragma once

#include "analyzer/diff/changes.h"
#include "analyzer/table/table_ops.h"
#include "analyzer/table/typed_columns.h"

namespace dlhook::analyzer::inline diff {

// One row per pair that differs: changes beyond noise first, then by size of the change.
Table DiffTable(const TableChanges& changes);

// A time per step, and whether both sides have it.
struct MatchedTime {
  const TimeChange& time;
  Match match;
};

// `change`, `base`, `new`, `percent`, `noise`, `verdict`.
TypedColumns<MatchedTime> ChangeColumns();

inline int64_t Rounded(double ns) { return static_cast<int64_t>(std::llround(ns)); }

// "+480 us", "-1.20 ms".
std::string SignedTime(double ns);

// Of "mb60_ic1" the sizes 60 and 1, and the rest as the form.
struct Shape {
  std::string form;  // with kSize in place of each number
  std::vector<std::string> sizes;
};
inline constexpr char kSize = '\1';
Shape ShapeOf(const std::string& text);

struct SizeChange {
  std::string label, from, to;
};
// The numbers that differ, with the letters before them; none if anything else differs.
std::vector<SizeChange> ChangedSizes(const std::string& base, const std::string& new_side);

// "oc 6 -> 12, ih 32 -> 28": sizes that differ, with the letters before them.
std::string SizesChanged(const std::string& base, const std::string& new_side);

// Whether the texts differ only in sizes that changed from a multiple of `before` to the same multiple of `after`.
bool SizesScale(const std::string& base, const std::string& new_side, int64_t before, int64_t after);

// What differs in how the row is done, its size, its name and its amounts; "" if nothing does.
std::string RowReason(const TableChanges& changes, const RowChange& row);

}  // namespace dlhook::analyzer::diff
