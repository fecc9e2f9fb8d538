// One difference between two sides, found without times.
#pragma once

#include <cstdint>
#include <string>

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

// "8 -> 16"; empty is "none".
std::string Arrow(const std::string& base, const std::string& new_side);
// The same of the first word that differs.
std::string FirstChanged(const std::string& before, const std::string& after);

}  // namespace dlhook::analyzer::diff
