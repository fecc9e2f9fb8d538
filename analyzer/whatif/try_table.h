// What was tried, and what came of it: the tables of `dlhook try`.
#pragma once

#include "analyzer/table/table.h"
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

inline constexpr char kOutcomes[] = "faster, slower, no gain (below 3 %), not decided, failed.";  // a column's

struct Bounds {
  double mean = 0;
  std::optional<double> low, high;
};
// Of the mean over runs, with Student's t.
Bounds BoundsOf(const std::vector<double>& times_ns);

Cell Nanoseconds(std::optional<double> ns);    // unknown: none, or 0
std::string IntervalText(const Speed& speed);  // " [1.21..1.30]"; empty: not known

// The answer's table, then sentences on each variation that is not without effect.
std::vector<Table> TryTables(const TriedProgram& program);

}  // namespace dlhook::analyzer::whatif
