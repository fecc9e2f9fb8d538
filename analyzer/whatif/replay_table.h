// What was run again, and what came of it: the tables of `dlhook replay`.
#ifndef DLHOOK_ANALYZER_WHATIF_REPLAY_TABLE_H_
#define DLHOOK_ANALYZER_WHATIF_REPLAY_TABLE_H_

#include <string>
#include <vector>

#include "analyzer/table/table.h"
#include "analyzer/whatif/contest.h"
#include "analyzer/whatif/replay_problems.h"

namespace dlhook::analyzer::inline whatif {

// Of a problem as the run computed it, or of a variant.
struct ReplayTimes {
  std::vector<double> ns;          // of the framework's op, a measurement each
  std::vector<double> library_ns;  // of oneDNN's primitive in it, by its log; empty: there is none
  double cold_ns = 0;              // of the framework's op after other memory went through the caches; 0: not measured
  double cpu_ns = 0;               // processor time of all threads, the least
  double faults = 0;               // page faults of a call, the fewest
  std::string implementation;      // by the log
  std::string failure;
};

struct ReplayTried : ReplayVariant, ReplayTimes {
  Outcome outcome = Outcome::kNotDecided;
  Speed speed;
};

struct Replayed {
  ReplayProblem problem;
  ReplayTimes base;
  std::vector<ReplayTried> tried;
};

struct ReplayedRun {
  std::string unit;  // "training step", "run"
  double step_ns = 0;
  std::vector<Replayed> problems;
};

// The answer's table, then all variants, then what was not replayed and why.
std::vector<Table> ReplayTables(const ReplayedRun& run);

}  // namespace dlhook::analyzer::whatif

#endif  // DLHOOK_ANALYZER_WHATIF_REPLAY_TABLE_H_
