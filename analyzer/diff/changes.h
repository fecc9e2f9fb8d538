// How much each row of a table changed from one run to the other, and whether that is more than noise.
#pragma once

#include "analyzer/diff/measured_run.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/table/table.h"
#include "analyzer/work/noise.h"

namespace dlhook::analyzer::inline diff {

// Matches rows of a table of two runs that describe the same thing.

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
std::vector<RowPair> MatchRows(const Table& base, const Table& new_side, const NameMap& names);

// Matches layers of the two runs even if their names differ: a layer inserted into an nn.Sequential shifts the names of
// all later ones.
struct NetworkSide {
  const TraceModel* model = nullptr;
  const Attribution* attribution = nullptr;
};

// Aligns the two networks in the order of their forward passes (Needleman and Wunsch, 1970) by the problems that a
// layer's forward pass computes, its kind of work and its name. A layer of BASE that has no match, but whose name
// belongs to another layer in NEW, gets a name that no row has. Unchanged names are not in the map.
NameMap MatchLayerNames(const NetworkSide& base, const NetworkSide& new_side);

enum class Speed {
  kEqual,  // to the nanosecond
  kNoise,  // not more than the noise bound
  kSlower,
  kFaster,
  kUnknown  // its own variation is not known
};
const char* SpeedName(Speed finding);  // "equal", "noise", "slower", "faster", "unknown"

// A time per step on both sides.
struct TimeChange {
  double base_ns = 0;
  double new_ns = 0;
  Samples base_samples, new_samples;  // empty: not known
  std::optional<double> noise_ns;
  Speed finding = Speed::kEqual;

  double change_ns() const { return new_ns - base_ns; }
  // Not so where noise is not known.
  bool IsBeyondNoise() const { return finding == Speed::kSlower || finding == Speed::kFaster; }
  // Adds a change that belongs to the same thing; the sum must be judged again.
  void Add(const TimeChange& other);
};

// The common factor by which a run differs in all its parts, because the machine is busier, slower or hotter: new
// over base, 1 if there is none. The spread within a run does not show it. It is measured on what both runs did in the
// same way, for each kind of activity (library, framework, Python …) that took at least 3 % of the base's step, if
// there are at least two: the median over the layers' parts, weighted by time; if all activities changed in the same
// direction, the one closest to 1. A change of the program rarely slows most of its math and most of its Python by the
// same factor.
struct Pace {
  double ratio = 1;
};

// Noise bound and finding. The bound is NoiseBound() plus, for a change in the direction of the pace, what the pace
// explains: base * |ratio^k - 1|, with k = 2 for the whole step and 3 for a part of it, because activities are not
// affected equally. The exponents come from 126 pairs of equal runs on a busy machine (tests/analyzer/diff/README.md).
inline constexpr double kPaceOfStep = 2;
inline constexpr double kPaceOfPart = 3;
void Judge(const Pace& pace, double exponent, size_t tests, TimeChange& change);

struct RowChange {
  RowPair rows;
  TimeChange time;
};

struct TableChanges {
  const MeasuredTable* base = nullptr;
  const MeasuredTable* new_side = nullptr;
  std::vector<RowChange> rows;
};

// Not judged yet. Both tables must outlive the result.
TableChanges CompareTables(const MeasuredTable& base, const MeasuredTable& new_side, const NameMap& names);

// `work`: made from the tables `work` (WorkTable).
Pace FindPace(const TableChanges& work);

// Judges each row as one of many. GPUs have their own pace: the host's explains nothing about their times.
void JudgeRows(const Pace& pace, TableChanges& changes);

}  // namespace dlhook::analyzer::diff
