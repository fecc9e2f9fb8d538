// How much each row of a table changed from one run to the other, and whether that is more than noise.
#pragma once

#include "analyzer/diff/match_rows.h"
#include "analyzer/diff/measured_run.h"
#include "analyzer/work/noise.h"
#include "analyzer/work/sides.h"

namespace dlhook::analyzer::inline diff {

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
TableChanges CompareTables(BaseSide<const MeasuredTable*> base, NewSide<const MeasuredTable*> new_side,
                           const NameMap& names);

// `work`: made from the tables `work` (WorkTable).
Pace FindPace(const TableChanges& work);

// Judges each row as one of many. GPUs have their own pace: the host's explains nothing about their times.
void JudgeRows(const Pace& pace, TableChanges& changes);

}  // namespace dlhook::analyzer::diff
