// Which lines of the program lie around and in the time that no call or op tells of.
#pragma once

#include "analyzer/analysis/sample_places.h"
#include "analyzer/time/time_division.h"
#include "analyzer/work/step_facts.h"

namespace dlhook::analyzer::inline work {

// Where samples met one function of the program, as the innermost one on the stack.
struct SampledLine {
  ActivityKind kind = ActivityKind::kNotSeen;
  SamplePlaceIndex owner = 0;  // of SamplePlaces: whose code computed
  std::string line;            // "train.py:37": the one of its lines that most of the samples met
  std::string function;        // "Batches.__getitem__"; empty: the main code
  int64_t samples = 0;
  int64_t cpu_ns = 0;
};

// Time between two lines of the program, of a mean steady step: from an op, a call or a range to the next one.
struct GapLines {
  std::string text;      // "train.py:42 to 45"; "train.py:42": within this line
  std::string function;  // that it is in or, if it begins or ends in one called there, that one; empty: the main code
  std::string module;    // with most of it; empty: none
  std::string package;   // "keras": its functions run in more than half of it; empty: the program's, or none does
  bool is_called_back = false;  // by that package: `function` is a callback, a hook
  // "save (serialization.py)": a package's, in which more than half of it passes, or that made the call before it, if the
  // next one is of the same line.
  std::string package_function, called_from;
  std::string
      callback;  // "ModelCheckpoint._save_model (model_checkpoint.py)": a package's own, in which more than half passes
  double ns = 0;         // wall share
  double count = 0;      // of gaps
  double update_ns = 0;  // of it in an optimizer's step
  double short_ns = 0;   // of it in gaps so short that other programs hardly interrupted them
  // Of it between two operations that 0.1 ms or more pass between, by median; and of these two what is the same in more than
  // half of that time: "aten::cat", "sgemm_", a range's name; empty: they differ.
  double stretch_ns = 0, stretch_count = 0;
  std::string before, after;
  // Of long gaps: the part in which tensors are released, and how many are; 0: none, or not known.
  double released_part = 0, released = 0;
  std::optional<double> blocked_ns;    // by looks from outside; empty: too few
  std::optional<SampledLine> sampled;  // the function with most samples in it
  int64_t samples = 0;                 // of all functions
};

// Most time first. Without what Python's stacks do not tell.
const std::vector<GapLines>& GapLinesOf(const StepFacts& facts);
// The same of the much longer steps that are left out of the mean one (ComparedSteps.interrupted), per such step.
const std::vector<GapLines>& GapLinesOfLonger(const StepFacts& facts);
// The same of worker processes, for each of the program's steady steps.
const std::vector<GapLines>& WorkerLinesOf(const StepFacts& facts);
// The same of time waiting for input, in the process itself: the lines of what is called there.
const std::vector<GapLines>& InputLinesOf(const StepFacts& facts);
// In time that is not seen, without one, and waiting for input; most samples first.
const std::vector<SampledLine>& SampledLinesOf(const StepFacts& facts);
// The same of worker processes.
const std::vector<SampledLine>& WorkerSampledLinesOf(const StepFacts& facts);

}  // namespace dlhook::analyzer::work
