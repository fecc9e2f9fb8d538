// Matches rows of a table of two runs that describe the same thing.
#pragma once

#include <functional>

#include "analyzer/layers/attribution.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/table/table.h"
#include "analyzer/work/sides.h"

namespace dlhook::analyzer::inline diff {

// The identity of a table row as a string: rows of two runs with equal keys describe the same thing.

// Selects columns by role (table.h).
enum class KeyParts {
  kAll,             // what it is and how it is done
  kWithoutChoices,  // what it is, however it is done
  kWithoutShape,    // … and whatever its sizes
  kShape            // only its sizes
};

// Layer names in BASE -> names in NEW.
using NameMap = std::map<std::string, std::string, std::less<>>;

// `names` translates columns of Role::kName; null: unchanged.
std::string RowKey(const Table& table, size_t row, KeyParts parts, const NameMap* names = nullptr);

std::string CellText(const Cell& cell);  // "" if unknown

inline constexpr size_t kNoRow = static_cast<size_t>(-1);

enum class Match {
  kSame,     // same problem, done in the same way
  kChanged,  // same problem, done differently (Role::kChoice)
  kResized,  // a problem of the same form with different sizes
  kAdded,    // only in NEW
  kRemoved   // only in BASE
};

struct RowPair {
  size_t base = kNoRow;
  size_t new_row = kNoRow;
  Match match = Match::kSame;
};

// Every row of both tables is in exactly one pair. Matched in this order: equal in what the row is and how it is done;
// equal in what it is (several: in the order of the rows); of the same form, most similar sizes first (at least half of
// them equal, unless both rows belong to the same layer). `names`: see RowKey.
std::vector<RowPair> MatchRows(BaseSide<const Table*> base, NewSide<const Table*> new_side, const NameMap& names);

// Matches layers of the two runs even if their names differ: a layer inserted into an nn.Sequential shifts the names of
// all later ones.
struct NetworkSide {
  const TraceModel* model = nullptr;
  const Attribution* attribution = nullptr;
};

// Aligns the two networks in the order of their forward passes (Needleman and Wunsch, 1970) by the problems that a
// layer's forward pass computes, its kind of work and its name. A layer of BASE that has no match, but whose name
// belongs to another layer in NEW, gets a name that no row has. Unchanged names are not in the map.
NameMap MatchLayerNames(BaseSide<NetworkSide> base, NewSide<NetworkSide> new_side);

}  // namespace dlhook::analyzer::diff
