// All rules, in the order in which they claim time: input, waiting, the machine, then the work itself.

#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {

const char* GainBasisName(GainBasis basis) {
  return basis == GainBasis::kMeasured ? "measured" : basis == GainBasis::kComputed ? "computed" : "at most";
}

const char* ConfidenceName(Confidence confidence) {
  return confidence == Confidence::kHigh ? "high" : confidence == Confidence::kMedium ? "medium" : "low";
}

namespace {

std::string Steps(const StepFacts& facts) { return facts.HasSteps() ? "" : "no repeating step was found"; }

std::string GpuTimes(const StepFacts& facts) {
  if (!facts.model().UsesGpu()) return "";
  if (GpuTimesOf(facts.model()) != GpuTimes::kOfKernels) return "the times of the GPU's kernels are not known";
  return Steps(facts);
}

std::string Load(const StepFacts& facts) {
  return facts.load().is_known ? "" : "their wait for processors was not sampled";
}

std::string LoadInSteps(const StepFacts& facts) { return facts.HasSteps() ? Load(facts) : Steps(facts); }

std::string Scopes(const StepFacts& facts) {
  if (!facts.UsesTorch()) return "";
  if (facts.model().scopes.size() == 0) return "PyTorch's operations were not recorded";
  return Steps(facts);
}

std::string InstructionSets(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  const bool computes = absl::c_any_of(model.ops, [](const Op& op) { return !op.on_gpu && op.flops.value_or(0) > 0; });
  const bool knows = !model.processes.empty() && !model.processes.front().processor.vendor.empty();
  return computes && !knows ? "the trace does not tell its processor" : "";
}

// oneDNN reports what it creates at a higher level only; cuDNN's searches are calls.
std::string Creations(const StepFacts& facts) {
  if (!facts.HasSteps()) return Steps(facts);
  const auto& ops = facts.model().ops;
  const bool uses = absl::c_any_of(ops, [](const Op& op) { return op.onednn() != nullptr; });
  const bool sees = absl::c_any_of(ops, [](const Op& op) { return op.is_creation; });
  return uses && !sees ? "oneDNN reports the creation of primitives only with DLHOOK_ONEDNN_LEVEL=2" : "";
}

}  // namespace

const std::vector<Rule>& Rules() {
  static const auto& kRules = *new std::vector<Rule>{
      {"made-anew", "a pipeline of tf.data, or a network, is made again in each step", FindMadeAnew},
      {"input-wait", "the step waits for its next batch", FindInputWait, Steps},
      {"copied-again", "the same contents are copied to the GPU in each step", FindCopiedAgain, GpuTimes},
      {"pageable-copies", "copies to or from the GPU wait because their memory is not pinned", FindPageableCopies,
       GpuTimes},
      {"small-copies", "many small copies to the GPU", FindSmallCopies, GpuTimes},
      {"gpu-allocations", "GPU memory is allocated and freed in steady steps", FindGpuAllocations, GpuTimes},
      {"gpu-idle", "the GPU waits for launches, input, synchronization, copies or other ranks", FindGpuIdle, GpuTimes},
      {"late-rank", "ranks wait for one that comes last to their collective operations", FindLateRank},
      {"uneven-threads", "threads share a step's work unevenly, and the step waits for the last", FindUnevenThreads,
       Steps},
      {"processor-quota", "the quota of a container is used up, and stops the program", FindProcessorQuota, Load},
      {"machine-busy", "threads wait for a processor that other programs use", FindBusyMachine, Load},
      {"python-lock", "the main thread waits for Python's lock, which another thread has", FindPythonLock, LoadInSteps},
      {"spinning-threads", "threads without work keep processors that others want", FindSpinningThreads,
       SpinningMissing},
      {"too-many-threads", "the program's own threads wait for each other's processors", FindTooManyThreads, Load},
      {"one-thread", "one thread computes while processors are free", FindOneThread, LoadInSteps},
      {"debug-switch", "a switch for finding errors is on", FindDebugSwitch},
      {"op-by-op", "operations run one by one that the framework would compile together", FindOpByOp},
      {"page-faults", "memory is taken from the kernel and given back in each step", FindPageFaults, PageFaultsMissing},
      {"slower-algorithm", "an algorithm runs that is slower than another that was measured", FindSlowerAlgorithm},
      {"preparing-in-steps", "algorithms are searched and primitives prepared in steady steps", FindPreparing,
       Creations},
      {"recompilations", "torch.compile, tf.function or JAX compiles again in steady steps", FindRecompilations,
       RecompilationsMissing},
      {"recompile-limit", "torch.compile stopped compiling a function again", FindRecompileLimit, Steps},
      {"graph-breaks", "torch.compile could not compile a function as one graph", FindGraphBreaks, Steps},
      {"warm-up", "a short run is mostly warm-up", FindLongWarmUp},
      {"longer-steps", "some steps take much longer than the others", FindLongerSteps, Steps},
      {"layout-conversions", "tensors are converted between memory formats in each step", FindLayoutConversions},
      {"input-gradient", "the gradient of the network's input is computed", FindInputGradient, Scopes},
      {"batch-norm-in-inference", "batch normalization runs where its factors are constants", FindBatchNormInInference,
       Scopes},
      {"float64", "libraries, or PyTorch's own operations, compute in double precision", FindFloat64},
      {"instruction-set", "a library computes with narrower vectors than the processor has", FindNarrowVectors,
       InstructionSets},
      {"reference-implementation", "a library computes with a reference implementation", FindReferenceImplementations},
      {"own-loops", "PyTorch computes products or convolutions without a library", FindOwnLoops, OwnLoopsMissing},
      {"slow-products", "products are far slower than the machine allows", FindSlowProducts},
      {"denormals", "an operation gets slower during the run, with equal shapes, and others do not", FindDenormals,
       Steps},
      {"type-conversions", "tensors are converted to another type in each step", FindTypeConversions, Scopes},
      {"heavy-operations", "operations with a cheaper form take much of the step", FindHeavyOperations, Scopes},
      {"repeated-work", "a step computes again what has not changed", FindRepeatedWork, Scopes},
      {"needless-backward", "backward passes compute what nothing reads, or once is enough for", FindNeedlessBackward,
       Scopes},
      {"faster-form", "PyTorch has a faster form of what is computed", FindFasterForms, Scopes},
      {"growing-steps", "each step takes longer than the one before", FindGrowingSteps, Steps},
      {"unfused-ops", "elementwise operations behind a product each pass over its whole result", FindUnfusedOps,
       Scopes},
      {"lower-precision", "float32 is computed where the hardware has a faster type", FindLowerPrecision},
      {"optimizer-per-tensor", "the optimizer runs many small operations", FindSmallOptimizerOps, Scopes},
      {"slow-lines", "long stretches between two lines that no operation accounts for", FindSlowLines, Scopes},
      {"python-bound", "what lies between operations takes longer than they do", FindPythonBound, Scopes},
      {"growing-memory", "each step holds more memory than the one before", FindGrowingMemory},
      {"kept-activations", "one layer keeps most of the memory for the backward pass", FindKeptActivations},
      {"fragmented-memory", "the allocator has reserved much more memory than is held", FindFragmentedMemory},
  };
  return kRules;
}

}  // namespace dlhook::analyzer::findings
