// One difference between two sides, found without times.
#pragma once

#include "analyzer/diff/changes.h"
#include "analyzer/diff/measured_run.h"
#include "analyzer/table/table.h"
#include "analyzer/work/done_work.h"
#include "analyzer/work/machine_load.h"
#include "analyzer/work/noise.h"

namespace dlhook::analyzer::inline diff {

// In the order of reporting: the environment, the users' decisions, then their consequences.
enum class DifferenceKind : uint8_t {
  kReleases,
  kMachine,
  kThreads,
  kSettings,
  kBuilds,
  kProgram,
  kProcesses,
  kCompiled,      // by torch.compile on one side only
  kCompilations,  // a function that one side compiles again and again
  kSteps,         // of another kind than those compared
  kBatch,
  kOptimizer,
  kLoading,
  kLayers,
  kTypes,
  kSizes,
  kCalls,
  kOps,
  kFormats,
  kImplementations
};

struct Difference {
  DifferenceKind kind = DifferenceKind::kProgram;
  std::string what, base, new_side;  // as in the table; empty: none
  std::string words;                 // "batch 8 -> 16"; for one of several of a kind, what distinguishes it

  bool IsOfEnvironment() const { return kind < DifferenceKind::kProgram; }
};

// Values of both sides by their keys.
template <typename Key, typename Value>
std::map<Key, std::pair<Value, Value>> Both(const std::map<Key, Value>& base, const std::map<Key, Value>& new_side) {
  std::map<Key, std::pair<Value, Value>> both;
  for (const auto& [key, value] : base) both[key].first = value;
  for (const auto& [key, value] : new_side) both[key].second = value;
  return both;
}

// "8 -> 16"; empty is "none".
std::string Arrow(const std::string& base, const std::string& new_side);
// The same of the first word that differs.
std::string FirstChanged(const std::string& before, const std::string& after);

// The environment of runs, as far as traces contain it: releases and builds of libraries, processors, GPUs, threads,
// settings. If it differs between two sides, their times may differ for that reason alone.

// Values of several processes or runs are listed together.
struct Environment {
  std::map<std::pair<DifferenceKind, std::string>, std::set<std::string>> facts;

  void Add(DifferenceKind kind, const std::string& what, const std::string& value);  // empty: not known
  void Add(const Environment& other);
};

Environment EnvironmentOf(const TraceModel& model, const MachineLoad& load);

// Unset settings count as "none"; anything else is compared only if both sides know it.
std::vector<Difference> EnvironmentDifferences(const Environment& base, const Environment& new_side);

// "PyTorch 2.13.0 -> 2.14.0, another build of libtorch_cpu.so; OMP_NUM_THREADS none -> 1"; empty: none of `differences`
// is in the environment.
std::string EnvironmentText(const std::vector<Difference>& differences);

// Differences between the programs of two runs, and between their environments. Without times, so without noise.

struct DifferenceInput {
  std::set<std::string> programs;
  Environment environment;
  const MeasuredRun* run = nullptr;
  DoneWork work;
  std::map<std::string, double> compilations;  // CountCompilations
  bool uses_torch_compile = false;
  bool sees_libraries = true;
};

// Its script, or the program itself.
std::string ProgramOf(const TraceModel& model);

// `work`: made from the tables `work` (WorkTable).
std::vector<Difference> FindDifferences(const DifferenceInput& base, const DifferenceInput& new_side,
                                        const TableChanges& work, const NameMap& names);

// The most important ones of the programs: "batch 8 -> 16; calls a step: reorder 15 -> 7"; empty: none.
std::string DifferencesText(const std::vector<Difference>& differences);

Table DifferencesTable(const std::vector<Difference>& differences);

}  // namespace dlhook::analyzer::diff
