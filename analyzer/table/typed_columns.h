// Columns with the functions that fill their cells: a table is a list of columns and the items of its rows.
//
//     TypedColumns<Product> columns = {{TextColumn("kind"), "What it is.", &Product::kind},
//                                      {NumberColumn("m"), "Rows.", [](const Product& p) { return p.shape.m; }}};
//     Table table = NewTable("gemm", "Matrix products", columns, products);
#pragma once

#include <concepts>
#include <type_traits>

#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline table {

inline Cell ToCell(Cell cell) { return cell; }
Cell ToCell(const std::set<std::string>& words);  // joined with ", "
template <typename T>
Cell ToCell(const std::optional<T>& value) {
  return value ? Cell(*value) : Cell();
}
Cell ToCell(std::integral auto value) { return static_cast<int64_t>(value); }

// Item type erased, so that operations on lists of columns are compiled only once.
struct AnyColumn {
  Column column;
  std::function<Cell(const void*)> cell;
};

template <typename Item>
struct TypedColumn : AnyColumn {
  // `get`: a function of an item, or a member; its result goes through ToCell.
  template <typename Get>
  TypedColumn(Column&& of, Get get)
      : AnyColumn{std::move(of),
                  [get](const void* item) { return ToCell(std::invoke(get, *static_cast<const Item*>(item))); }} {}

  template <typename Get>
  TypedColumn(Column&& of, const char* explanation, Get get) : TypedColumn(std::move(of), std::move(get)) {
    column.explanation = explanation;
  }

  // From a column of a base class of Item.
  template <typename Base>
  requires std::is_base_of_v<Base, Item> TypedColumn(TypedColumn<Base> of)  // NOLINT(google-explicit-constructor)
      : AnyColumn{std::move(of.column), [get = std::move(of.cell)](const void* item) {
                    return get(static_cast<const Base*>(static_cast<const Item*>(item)));
                  }} {}
};

class AnyColumns {
 public:
  const std::vector<AnyColumn>& all() const { return columns_; }
  std::vector<AnyColumn>& all() { return columns_; }
  Column* Find(absl::string_view name);  // nullptr: none

 protected:
  void Add(const AnyColumn& column);
  void Insert(absl::string_view after, const AnyColumns& more);
  std::vector<AnyColumn> columns_;
};

template <typename Item>
class TypedColumns : public AnyColumns {
 public:
  TypedColumns() = default;
  TypedColumns(std::initializer_list<TypedColumn<Item>> columns) {
    for (const TypedColumn<Item>& column : columns) AnyColumns::Add(column);
  }
  void Add(const TypedColumn<Item>& column) { AnyColumns::Add(column); }
  void Add(const TypedColumns& more) { columns_.insert(columns_.end(), more.columns_.begin(), more.columns_.end()); }
  // To the right of the column `name`; at the end if there is none.
  void InsertAfter(absl::string_view name, const TypedColumns& more) { Insert(name, more); }

  // The same columns for items that contain these: `part` is a member or a function.
  template <typename Whole>
  TypedColumns<Whole> Of(Item Whole::*part) const {
    return Of<Whole, Item Whole::*>(part);
  }
  template <typename Whole, typename Part>
  TypedColumns<Whole> Of(Part part) const {
    TypedColumns<Whole> columns;
    for (const AnyColumn& column : columns_) {
      columns.Add({Column(column.column), [part, get = column.cell](const Whole& whole) {
                     const Item& item = std::invoke(part, whole);
                     return get(&item);
                   }});
    }
    return columns;
  }
};

void AddRow(const AnyColumns& columns, const void* item, Table* table);
Table NewTable(std::string name, std::string title, const AnyColumns& columns, const std::vector<const void*>& items);

template <typename Item>
void AddRow(const TypedColumns<Item>& columns, const Item& item, Table* table) {
  AddRow(static_cast<const AnyColumns&>(columns), static_cast<const void*>(&item), table);
}

// `items`: any range of items or of pointers to them.
template <typename Item, typename Items = std::vector<Item>>
Table NewTable(std::string name, std::string title, const TypedColumns<Item>& columns, const Items& items = {}) {
  std::vector<const void*> rows;
  for (const auto& item : items) {
    const Item* row;
    if constexpr (std::is_convertible_v<decltype(item), const Item*>) {
      row = item;
    } else {
      row = &item;
    }
    rows.push_back(row);
  }
  return NewTable(std::move(name), std::move(title), static_cast<const AnyColumns&>(columns), rows);
}

// The group of a key, which is a base of the group.
template <typename Key, typename Group>
requires std::is_base_of_v<Key, Group> Group& GroupOf(const Key& key, std::map<Key, Group>& groups) {
  const auto [at, is_new] = groups.try_emplace(key);
  if (is_new) static_cast<Key&>(at->second) = key;
  return at->second;
}

// The values of a map, those with most weight first; `weight` is a member or a function.
template <typename Map, typename Weight>
auto ByWeight(const Map& groups, Weight weight) {
  std::vector<const typename Map::mapped_type*> order;
  for (const auto& [key, group] : groups) order.push_back(&group);
  absl::c_stable_sort(order,
                      [&](const auto* a, const auto* b) { return std::invoke(weight, *a) > std::invoke(weight, *b); });
  return order;
}

// Sums by key, the largest first; equal ones by key.
template <typename Key, typename Sum>
std::vector<std::pair<Key, Sum>> LargestFirst(const std::map<Key, Sum>& sums) {
  std::vector<std::pair<Key, Sum>> order(sums.begin(), sums.end());
  absl::c_stable_sort(order, [](const auto& a, const auto& b) { return a.second > b.second; });
  return order;
}

}  // namespace dlhook::analyzer::table
