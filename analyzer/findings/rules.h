// The rules. Each is a pure function of a run's facts. It finds nothing where evidence is missing or the loss is small:
// nothing is advised unless the loss was measured.
//
// To add a rule:
//   1. write analyzer/findings/NAME.cc with `std::vector<Finding> FindName(const StepFacts&)`;
//   2. declare it below and add its line to Rules() in analyzer/findings/registry.cc;
//   3. add a victim and a near miss in tests/frameworks/test_findings.py (GPU rules: on the fakes).
#pragma once

#include "analyzer/analysis/memory_use.h"
#include "analyzer/findings/finding.h"
#include "analyzer/model/gemm_shape.h"
#include "analyzer/table/table_ops.h"
#include "analyzer/work/gap_lines.h"
#include "analyzer/work/noise.h"
#include "analyzer/work/step_facts.h"

namespace dlhook::analyzer::inline findings {

using FindFunction = std::vector<Finding>(const StepFacts& facts);
// Why a rule cannot judge this run, as a clause; empty: it can, or the run has nothing of what it judges.
using MissingFunction = std::string(const StepFacts& facts);

struct Rule {
  absl::string_view id;       // stable
  absl::string_view summary;  // what it looks for
  FindFunction* find;
  MissingFunction* missing = nullptr;  // null: it can judge every run
};

// Each part of the time has one cause: if two rules could claim it, the first in this order does.
const std::vector<Rule>& Rules();

// A loss below this part of a step is not reported.
inline constexpr double kLeastPercent = 1;

// Begins the range of an operation of TensorFlow that Python calls by itself.
inline constexpr absl::string_view kEagerOp = "EagerLocalExecute: ";

// Operations that Python calls in a mean step, and whether the step of a Keras model calls some of them itself.
struct EagerOps {
  double count = 0;
  bool of_keras = false;
};
EagerOps EagerOpsOf(const StepFacts& facts);

FindFunction FindInputWait, FindGpuIdle, FindProcessorQuota, FindBusyMachine, FindSpinningThreads, FindTooManyThreads,
    FindPythonLock, FindOneThread, FindPageFaults, FindLateRank, FindUnevenThreads, FindSlowerAlgorithm, FindPreparing,
    FindMadeAnew, FindRecompilations, FindGraphBreaks, FindRecompileLimit, FindLongWarmUp, FindLongerSteps,
    FindLayoutConversions, FindInputGradient, FindBatchNormInInference, FindFloat64, FindNarrowVectors,
    FindReferenceImplementations, FindOwnLoops, FindLowerPrecision, FindSlowProducts, FindDenormals, FindDebugSwitch,
    FindOpByOp, FindTypeConversions, FindHeavyOperations, FindRepeatedWork, FindNeedlessBackward, FindSlowLines,
    FindFasterForms, FindGrowingSteps, FindUnfusedOps, FindSmallOptimizerOps, FindGrowingMemory, FindKeptActivations,
    FindFragmentedMemory, FindPythonBound, FindCopiedAgain, FindPageableCopies, FindSmallCopies, FindGpuAllocations;
MissingFunction OwnLoopsMissing, PageFaultsMissing, RecompilationsMissing, SpinningMissing;
// Parts of other rules: of recompilations, warm-up, input-wait, made-anew, op-by-op, faster-form.
FindFunction FindXlaRecompilations, FindLongXlaCompilation, FindPoolWait, FindIteratorsMadeAnew, LoopsInTorch,
    FormsOfCollectives, EqualModules, FormsOfTensors;

double InputNs(const StepFacts& facts);           // waiting for the next batch, in a step
bool MakesPipelinesAnew(const StepFacts& facts);  // the input belongs to that rule
bool SeesXlaCompilations(const StepFacts& facts);
// Most of the convolutions' time: a single input may be in that format by chance (one channel, one pixel).
bool UsesChannelsLast(const StepFacts& facts);
// A product that runs at less than a tenth of the rate of a like one: slow-products tells it.
bool IsSlowForItsKind(const StepFacts& facts, const WorkItem& item);

// Operations between ranks by a library that has no calls (Gloo): the thread mostly waits for other ranks.
inline bool IsCommunication(const WorkItem& item) {
  if (item.scope != nullptr && item.scope->is_communication) return true;
  return item.doing.activity == ActivityKind::kNotSeen && item.group != nullptr &&
         item.group->label == kCommunicationLabel;
}

// Whether the program does this through one of PyTorch's wrappers of networks, whose passes are ranges with its name.
bool Wraps(const TraceModel& model, absl::string_view wrapper);

// Of the steps' time or processor time, if that grows steadily.
std::optional<Trend> GrowthOfSteps(const StepFacts& facts);

// Of the processes with steps, in a mean one: threads besides the first that make no calls.
struct ThreadTime {
  uint32_t tid = 0;
  ThreadIndex thread = kNone;  // kNone: not recorded
  double running_ns = 0;
  double wanted_ns = 0;  // running, or waiting for a processor
};
std::vector<ThreadTime> ThreadsWithoutCalls(const StepFacts& facts);  // longest wanted_ns first

// " More than half of it passes in save (serialization.py).", or follows a call there; empty: in no package.
std::string PackageFunctionText(const GapLines& lines);
// What these lines, and the program's functions that they call, do slowly, as far as their text tells; empty: nothing.
struct SlowText {
  std::string text, advice;
};
SlowText SlowTextOf(const StepFacts& facts, const std::string& line, bool in_loop, bool in_function = false);
// What samples met in code that is known to be slow, again and again.
std::vector<Finding> KnownInSamples(const StepFacts& facts);
// Per mean step: time between two lines that is long by itself, which slow-lines judges.
double StretchesNs(const StepFacts& facts);
// How often one row is multiplied with the same matrix in a step, at most, where most products of the forward pass are of
// one row; but for recurrent layers.
double CallsOfOneRow(const StepFacts& facts);

// GPUs.

// The GPU work that threads ask for, by the time at which they do.
class AskedTimes {
 public:
  explicit AskedTimes(const TraceModel& model);
  // How long the GPU works for what the thread asks for in this time; -1: it asks for nothing.
  int64_t GpuNs(ThreadIndex thread, int64_t start_ns, int64_t end_ns) const;

 private:
  // When, ascending, and how long with all before.
  std::map<ThreadIndex, std::vector<std::pair<int64_t, int64_t>>> times_;
};

// `ns` of a step wait for input: adds to the sentence what those who prepare batches did meanwhile, and what helps.
void AdviseOnInput(const StepFacts& facts, double ns, Finding& finding);

// Advice on the only step of a run.
inline constexpr char kFirstUse[] = "CUDA and its libraries load and allocate at first use: measure after a warm-up.";

// The time that recording itself takes, subtracted from gains that contain it.

// Per mean step: of those of PyTorch's scopes, with their Python stacks, for which `counts` holds. It is spent
// outside of a scope, before its start and after its end.
double CostOfScopes(const StepFacts& facts, const std::function<bool(ScopeIndex)>& counts);

// Per mean step: of all calls of GPU libraries, CUPTI's work included.
double CostOfGpuCalls(const StepFacts& facts);

// Takes this part of a step off the finding's gain, and says so. If it is more than a twentieth of the gain, the
// finding becomes less certain.
void SubtractOwnCost(double own_ns, Finding& finding);

// Time of the framework's operations of certain names.

struct NamedOperations {
  double ns = 0;                        // in a mean step, with what runs inside of them
  std::map<std::string, double> by_op;  // without "aten::"
  std::map<StackIndex, double> by_stack;
  std::map<LayerIndex, double> by_layer;

  std::string Line(
      const StepFacts& facts) const;  // the program's or a layer's, with most of the time; empty: not known
};

// By `kind` of the operation's name without "aten::" (0: not wanted), or what `refine` makes of it, given the operation and
// the outermost one around it. What is inside of a wanted one belongs to that. Without threads that do little beside others.
std::map<int, NamedOperations> SumNamedOperations(const StepFacts& facts,
                                                  const std::function<int(const std::string&)>& kind,
                                                  const std::function<int(int, ScopeIndex, ScopeIndex)>& refine);

// A product has the rows as its first or, column-major, second side.
inline int64_t RowsOf(const MatmulShape& shape) { return shape.order == "col" ? shape.n : shape.m; }

// A library's matrix product on the CPU, the last one in it, by the framework's outermost operation.
std::map<ScopeIndex, const Op*> ProductsOfOperations(const StepFacts& facts);

// Whether a node of the backward pass runs this outermost operation.
bool IsInBackward(const TraceModel& model, ScopeIndex outermost);
// Whether a loader in the program runs it.
bool IsInInput(const TraceModel& model, ScopeIndex scope);

// What the outermost operations of the steps made, as PyTorch's allocator tells: sizes of tensors, whose operators report none.

// What allocators held; none: memory was not recorded.
const std::vector<DeviceMemory>& MemoryOfDevices(const StepFacts& facts);

struct MadeTensor {
  ScopeIndex scope = kNone;     // the operation
  size_t step = 0;              // its number in the process
  int64_t bytes = 0;            // the largest block that lives on behind it
  int64_t converted_bytes = 0;  // the largest block that a conversion (aten::_to_copy) inside of it took
  int64_t largest_before = 0;   // of the blocks that were alive when the operation began
};

// On the host, by thread and time; nothing where memory was not recorded in steady steps.
const std::vector<MadeTensor>& TensorsMade(const StepFacts& facts);

// What operations take in a mean step.
struct MadeTime {
  double ns = 0;
  std::string where;  // layers; empty: none
};
// Of these tensors: all operations of their layers, forward and backward, if so with the libraries' calls; of those without a layer
// the operation itself.
MadeTime TimeOfMade(const StepFacts& facts, const std::vector<MadeTensor>& made, const std::set<size_t>& tensors,
                    bool with_calls = false);

// Forms of the rule faster-form that have files of their own.

inline constexpr double kFormPercent = 10;  // of a step

// The sentence goes on with ": 3 ms of a 20 ms training step (15 %)."; `scope`, where it is known, has line and layer.
Finding OfForm(const StepFacts& facts, double ns, ScopeIndex scope, std::string sentence, const char* advice);

}  // namespace dlhook::analyzer::findings
