// What `dlhook replay` runs again and in which ways, what came of it, and its tables.
#pragma once

#include "analyzer/table/table.h"
#include "analyzer/tables/calls/replayed.h"
#include "analyzer/whatif/contest.h"
#include "analyzer/whatif/variations.h"
#include "analyzer/work/step_facts.h"
#include "nlohmann/json.hpp"

namespace dlhook::analyzer::inline whatif {

// An op of a library, with all calls of equal arguments that were computed in the same way.
struct ReplayProblem {
  std::string layers;  // "layer1.0.conv1, layer1.0.conv2 and 3 more"
  std::string kind, direction, problem, types, formats;
  std::string implementation;  // empty: the library does not tell
  std::string through;  // what computes it: "torch", "numpy", "tensorflow", "jax"; "onednn": the system's library
  bool is_onednn = false, on_gpu = false;
  std::set<OpIndex> ops;
  double calls = 0;     // in a mean step
  double step_ns = 0;   // of these, their wall share; what a GPU did for them
  double call_ns = 0;   // lower quartile of their durations; mean over the run of what a GPU did
  nlohmann::json spec;  // for replay.py
  std::string reason;   // why it can't be replayed; empty: it can
};

// The heaviest first; then those of them that oneDNN computed once more, through the system's library. `named`: only those whose
// problem or layers contain it; empty: all.
std::vector<ReplayProblem> ReplayProblems(const StepFacts& facts, size_t most, const std::string& named);

// The variable that sets the number of threads when such a process starts.
const char* ThreadsVariable(absl::string_view through);

// "AMD EPYC …, 64 processors; here Intel …, 2", as many as may be used. Empty: nothing tells the machines apart.
std::string OtherMachine(const StepFacts& facts, const ProcessorInfo& here, size_t processors);

// A way to compute a problem, and its measurements.
struct ReplayVariant {
  std::string name;  // "channels_last", "1 thread", "ONEDNN_MAX_CPU_ISA=AVX2"; empty: as the run did
  nlohmann::json request = nlohmann::json::object();  // for replay.py
  std::vector<std::pair<std::string, std::string>> environment = {};
  bool changes_numerics = false;

  std::vector<double> ns = {};          // of the framework's op
  std::vector<double> library_ns = {};  // of oneDNN's primitive in it, by its log; empty: there is none
  double cold_ns = 0;                   // of the op after other memory went through the caches; 0: not measured
  std::string implementation = {};      // by the log, or by the library itself
  std::string formats = {};             // of oneDNN's own library: "recorded" or "own"
  std::string failure = {};
  size_t rounds = 0;  // in which both this and the way of the run count
  Outcome outcome = Outcome::kNotDecided;
  Speed speed = {};
};

// Those that are known before it is asked. `threads`: of the run. `listed`: what dlhook try would set (ListedVariations).
std::vector<ReplayVariant> VariantsOf(const ReplayProblem& problem, const Ground& ground, size_t threads,
                                      const std::vector<Variation>& listed);

struct Replayed {
  ReplayProblem problem;
  ReplayVariant base = {};
  std::vector<ReplayVariant> variants = {};
};

struct ReplayedRun {
  std::string unit;     // "training step", "run"
  std::string library;  // "oneDNN 2.6.3", the system's; empty: none was used
  std::string apart;  // "machine: A, 64 processors; here B, 2": why times of the run are not compared; empty: they are
  double step_ns = 0;
  std::vector<Replayed> problems = {};
};

// The answer's table, then all variants, then what was not replayed and why.
std::vector<Table> ReplayTables(const ReplayedRun& run);

// For the run's own tables. `how`: "by torch 2.13.0, threads: 2".
absl::Status KeepReplay(const ReplayFile& file, const ReplayedRun& run, const std::string& how);

}  // namespace dlhook::analyzer::whatif
