// All rules, in the order in which they claim time: input, waiting, the machine, then the work itself.
#include "analyzer/findings/gpu_rules.h"
#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {

const char* GainBasisName(GainBasis basis) {
  switch (basis) {
    case GainBasis::kMeasured:
      return "measured";
    case GainBasis::kComputed:
      return "computed";
    case GainBasis::kUpperBound:
      return "at most";
  }
  return "";
}

const char* ConfidenceName(Confidence confidence) {
  switch (confidence) {
    case Confidence::kHigh:
      return "high";
    case Confidence::kMedium:
      return "medium";
    case Confidence::kLow:
      return "low";
  }
  return "";
}

const std::vector<Rule>& Rules() {
  static const auto& kRules = *new std::vector<Rule>{
      {"input-wait", "the step waits for its next batch", FindInputWait},
      {"pageable-copies", "copies to or from the GPU wait, for their memory is not pinned", FindPageableCopies},
      {"small-copies", "many small copies to the GPU", FindSmallCopies},
      {"gpu-allocations", "GPU memory is allocated and freed in steady steps", FindGpuAllocations},
      {"gpu-idle", "the GPU waits for launches, input, synchronization, copies or other ranks", FindGpuIdle},
      {"machine-busy", "threads wait for a processor that other programs use", FindBusyMachine},
      {"too-many-threads", "the program's own threads wait for each other's processors", FindTooManyThreads},
      {"one-thread", "one thread computes while processors are free", FindOneThread},
      {"preparing-in-steps", "algorithms are searched and primitives prepared in steady steps", FindPreparing},
      {"layout-conversions", "tensors are converted between memory formats in each step", FindLayoutConversions},
      {"input-gradient", "the gradient of the network's input is computed", FindInputGradient},
      {"float64", "the libraries compute in double precision", FindFloat64},
      {"slow-products", "products of few rows are computed one by one", FindSlowProducts},
      {"optimizer-per-tensor", "the optimizer runs many small operations", FindSmallOptimizerOps},
      {"python-bound", "Python takes longer than what it asks for", FindPythonBound},
  };
  return kRules;
}

}  // namespace dlhook::analyzer::findings
