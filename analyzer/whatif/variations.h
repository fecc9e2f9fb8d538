// What may make a program faster without a change of its source: variations of its environment and its words.
#pragma once

#include "analyzer/findings/findings_table.h"
#include "analyzer/work/step_facts.h"

namespace dlhook::analyzer::inline whatif {

struct Variation {
  std::string name;  // "OMP_NUM_THREADS=1", "taskset -c 0-3"
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> words;  // of the program; empty: unchanged
  std::vector<int> processors;     // on which it may run; empty: unchanged
  bool changes_numerics = false;
  bool changes_batch = false;  // perhaps: then a sample's time is compared
  absl::string_view rules;     // findings that suggest it
  std::string promise;         // of the finding that suggests it: "too-many-threads: at most 23 %"; empty: none does
};

// A shell's line that runs `words` so.
std::string CommandLine(const Variation& variation, const std::vector<std::string>& words);

using Variable = std::function<std::string(const std::string&)>;  // its value; empty: not set

// What decides which variations make sense.
struct Ground {
  size_t processors = 1;  // that the program may use
  // Of the run: "onednn", "openblas", "torch", "tensorflow", "xla", "gpu"; of the processor: "avx512f" …
  std::vector<std::string> has;
  std::vector<std::pair<std::string, std::string>> allocators;  // name, path
  std::map<std::string, std::vector<int>> pinnings;             // by their list
  Variable variable;                                            // of the program's environment
};
Ground GroundOf(const StepFacts& facts);
// Paths of the run's mapped files that contain `part`.
std::vector<std::string> MappedFiles(const TraceModel& model, absl::string_view part);

// Of the list, those that make sense here; first those that findings suggest, the largest gain first.
std::vector<Variation> ListedVariations(const Ground& ground, const std::vector<RuleFinding>& found, double step_ns);

// --env NAME=a,b,c and --arg --name=a,b. `words`: of the program.
absl::StatusOr<std::vector<Variation>> VariationsOfVariable(absl::string_view text);
absl::StatusOr<std::vector<Variation>> VariationsOfWord(absl::string_view text, const std::vector<std::string>& words);

}  // namespace dlhook::analyzer::whatif
