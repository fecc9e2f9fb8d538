// A finding: something that makes a program slower than it could be, with the evidence for it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dlhook::analyzer::inline findings {

// How the gain was determined.
enum class GainBasis : uint8_t {
  kMeasured,    // measured time that would no longer be spent
  kComputed,    // calculated from measured times; the evidence states the formula
  kUpperBound,  // only part of this time can be gained; how much is not known
};

// kHigh: a measured interval; kMedium: a model; kLow: an indication only.
enum class Confidence : uint8_t { kHigh, kMedium, kLow };

struct Finding {
  std::string where;                // layers or a part of the step; empty: the whole program
  std::string line;                 // line of the program, "train.py:42"; empty if not known
  bool is_in_loop = false;          // what it is about may be in other lines of the loop around `line`
  std::vector<std::string> source;  // these lines' text ("42: x = f(y)"); empty: see source_lines.h
  std::string sentence;             // what is slow, with its numbers
  double gain_ns = 0;               // per mean step (StepFacts.step_ns); never more than was measured
  GainBasis basis = GainBasis::kUpperBound;
  Confidence confidence = Confidence::kMedium;
  std::string evidence;  // the table that shows it, and what to look for there
  std::string advice;    // what to change: a line of code or an environment variable
  bool changes_numerics = false;
  bool is_information = false;      // a choice, not a loss: comes after all losses
  int64_t bytes = 0;                // of memory, if that is what it is about: then gain_ns is 0
  double whole_ns = 0;              // of which the gain is a part; 0: a mean step
  const char* whole = "all steps";  // what that is, per step
  double GainPercent(double step_ns) const { return 100 * gain_ns / (whole_ns > 0 ? whole_ns : step_ns); }
};

// Puts them behind the others.
inline void Append(std::vector<Finding> more, std::vector<Finding>& findings) {
  for (Finding& finding : more) findings.push_back(std::move(finding));
}

const char* GainBasisName(GainBasis basis);         // "measured", "computed", "at most"
const char* ConfidenceName(Confidence confidence);  // "high", "medium", "low"

}  // namespace dlhook::analyzer::findings
