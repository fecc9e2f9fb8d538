// What was tried, and what came of it: the tables of `dlhook try`.
#pragma once

#include "analyzer/tables/columns.h"
#include "analyzer/whatif/contest.h"
#include "analyzer/whatif/variations.h"

namespace dlhook::analyzer::inline whatif {

// The loss as a program prints it, to see what a variation changes in what is computed.

// The first number behind the word "loss" of each line that has both, whatever its case: "step 3: train_loss=0.693".
std::vector<double> LossesIn(absl::string_view output);

struct LossChange {
  size_t lines = 0;            // that both printed
  double most = 0;             // difference, relative to the larger
  size_t first = 0;            // the first line that differs, from 1; 0: none does
  double base = 0, other = 0;  // there
};
LossChange CompareLosses(const std::vector<double>& base, const std::vector<double>& other);

// `own`: of two runs of the program as it is. Empty: nothing can be said.
std::string LossSentence(const LossChange& change, const LossChange& own);

struct Tried {
  Variation variation;
  Outcome outcome = Outcome::kNotDecided;
  Speed speed;
  std::vector<double> times_ns;  // of a step (sample, run) in each of its runs
  int64_t peak_bytes = 0;        // 0: not known
  std::string command;
  std::string moved;   // the first sentence of dlhook diff
  std::string losses;  // LossSentence
  std::string failure;
};

struct TriedProgram {
  std::string unit;  // "training step", "sample", "run"
  Tried base;        // without variation
  std::vector<Tried> variations;
};

struct Bounds {
  double mean = 0;
  std::optional<double> low, high;
};
// Of the mean over runs, with Student's t.
Bounds BoundsOf(const std::vector<double>& times_ns);

Cell Nanoseconds(std::optional<double> ns);    // unknown: none, or 0
std::string IntervalText(const Speed& speed);  // " [1.21..1.30]"; empty: not known

// Columns that this shares with the tables of replay.h and contend_table.h: a mean over runs, and a ratio by paired rounds, each with
// its bounds. `get`: of a row the samples, or the Speed if it is known.
template <typename Item, typename Get>
TypedColumns<Item> MeanColumns(const char* name, const std::string& what, Get get) {
  const auto column = [&](const char* end, const std::string& words, auto value) {
    return TypedColumn<Item>(TimeColumn(absl::StrCat(name, end), words), [get, value](const Item& item) {
      return Nanoseconds(value(BoundsOf(std::invoke(get, item))));
    });
  };
  return {column("", what, [](const Bounds& bounds) { return std::optional(bounds.mean); }),
          Detail(column("_low", "Lower bound (95 %, over runs).", std::mem_fn(&Bounds::low))),
          Detail(column("_high", "Upper bound.", std::mem_fn(&Bounds::high)))};
}
template <typename Item, typename Get>
TypedColumns<Item> SpeedColumns(const char* name, const std::string& of_bounds, Better better, const char* what,
                                Get get) {
  const auto column = [&](const std::string& of, const char* words, auto value) {
    return TypedColumn<Item>(RealColumn(of, "", better, words), [get, value](const Item& item) {
      const std::optional<Speed> speed = std::invoke(get, item);
      return speed ? ToCell(value(*speed)) : Cell();
    });
  };
  return {column(name, what, [](const Speed& speed) { return Cell(speed.value); }),
          Detail(column(of_bounds + "low", "Lower bound, of all rows and rounds together.", std::mem_fn(&Speed::low))),
          Detail(column(of_bounds + "high", "Upper bound.", std::mem_fn(&Speed::high)))};
}

// The answer's table, then sentences on each variation that is not without effect.
std::vector<Table> TryTables(const TriedProgram& program);

}  // namespace dlhook::analyzer::whatif
