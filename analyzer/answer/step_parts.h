// Where a mean step's time goes, in a few named parts that add up to the step.
#pragma once

#include "analyzer/table/table.h"
#include "analyzer/work/step_facts.h"

namespace dlhook::analyzer::inline answer {

enum class PartKind : uint8_t {
  kLibrary,       // recorded calls
  kFramework,     // its ops, outside of such calls
  kPython,        // samples found Python code computing
  kNative,        // samples found other code computing
  kBetweenCalls,  // without samples: Python or native code
  kInput,
  kGpuWait,
  kBlocked,
  kRunnable,  // no processor was free
  kNotComputing,
  kNotSeen,
  kRest  // several small parts
};
const char* PartKindName(PartKind kind);  // "library", "framework", … "between_calls" …

// Lines of the program that hold a good part of a part.
struct PartLine {
  std::string text;  // "train.py:42 to 45 in encode"
  double ns = 0;
};

struct StepPart {
  std::string name;
  PartKind kind = PartKind::kRest;
  double ns = 0;
  int percent = 0;  // whole numbers that add up to 100 (largest remainders)
  std::vector<PartLine> lines;
};

// The `most` largest parts, the rest combined; largest first, unknown time last. Those that the program's own code causes
// (Python or native code, blocked, input) have its lines, where they are known.
std::vector<StepPart> PartsOfStep(const StepFacts& facts, size_t most);

// The heaviest layers, with repeated blocks in one row: "encoder.layer.*.intermediate.dense x12".

// Times per mean step in ns: GPU time if the run has it, else wall share.
struct LayerRow {
  std::string
      name;  // "*" replaces the numbers in which the layers differ; includes the type if the name alone is ambiguous
  size_t layers = 1;  // in this row
  double forward_ns = 0;
  double backward_ns = 0;
  double update_ns = 0;
  double total_ns = 0;               // with recompute and work without direction
  double least_ns = 0, most_ns = 0;  // of a single layer
};

// From the table `layers`, heaviest first, without rows that are no layer ("[Python]"). At least three layers of one
// type whose names differ only in numbers form one row.
std::vector<LayerRow> LayerRows(const Table& layers);
// Of the steps that the answer is about.
absl::StatusOr<std::vector<LayerRow>> LayerRowsOf(const StepFacts& facts);

}  // namespace dlhook::analyzer::answer
