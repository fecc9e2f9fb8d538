// Where a mean step's time goes, in a few named parts that add up to the step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

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

}  // namespace dlhook::analyzer::answer
