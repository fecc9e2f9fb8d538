// What makes a program slower than it could be, said by a rule that found evidence for it.
#ifndef DLHOOK_ANALYZER_FINDINGS_FINDING_H_
#define DLHOOK_ANALYZER_FINDINGS_FINDING_H_

#include <cstdint>
#include <string>

namespace dlhook::analyzer::inline findings {

// How the gain was found.
enum class GainBasis : uint8_t {
  kMeasured,    // time that was measured and would be gone
  kComputed,    // from measured times by a formula, which the evidence states
  kUpperBound,  // time of which an unknown part would be gone
};

// kHigh: a measured interval; kMedium: a model; kLow: a sign only.
enum class Confidence : uint8_t { kHigh, kMedium, kLow };

struct Finding {
  std::string where;     // layers or a part of the step; empty: the whole program
  std::string line;      // of the program, "train.py:42"; empty where not known
  std::string sentence;  // what is slow, with its numbers
  double gain_ns = 0;    // of a mean step (StepFacts.step_ns); never more than what was measured
  GainBasis basis = GainBasis::kMeasured;
  Confidence confidence = Confidence::kHigh;
  std::string evidence;  // the table that proves it, and what to look at there
  std::string advice;    // what to change: a line of code or a variable
  bool changes_numerics = false;
};

const char* GainBasisName(GainBasis basis);         // "measured", "computed", "at most"
const char* ConfidenceName(Confidence confidence);  // "high", "medium", "low"

}  // namespace dlhook::analyzer::findings

#endif  // DLHOOK_ANALYZER_FINDINGS_FINDING_H_
