// Why a step takes another time: its change divided into causes, which add up to it.
//
// Every row of the tables `work` (layer, direction, op, problem) is matched with the other side's, and its change c =
// n1 t1 - n0 t0 (n calls of t each) goes to causes:
//
//     only on one side, its layer too          -> layers, or a direction that only one side computes
//     only on one side, another in its place   -> data types, implementation or operations
//     converts memory formats                  -> layout
//     XLA compiles                             -> compilation
//     waits, loads data, is between calls      -> waiting, input, Python
//     another number of calls                  -> (n1 - n0) t0: calls;   n1 (t1 - t0): what follows
//     another size                             -> work per call: n1 t0 (f1 / f0 - 1) by operations f where they are known, else all
//     done in another way                      -> data types, layout or implementation
//     all the same                             -> rate
//
// Of what the rate changed, as much as the first thread waited longer for a processor than its processor time explains
// is its own program's threads' (MachineLoad::OwnPart) and the busy machine's; then as much as all parts share (Pace in
// changes.h) a slower machine's; then, if the number of threads differs, that number's: before all of these where the
// program needs more processor time and its threads want more processors than there are.
#pragma once

#include "analyzer/diff/changes.h"
#include "analyzer/diff/difference.h"
#include "analyzer/diff/measured_run.h"
#include "analyzer/table/table.h"
#include "analyzer/work/noise.h"

namespace dlhook::analyzer::inline diff {

// Whether a run is slower or faster than another: the one decision behind the sentence, the verdict, the notes and the
// exit code.

enum class Per : uint8_t { kRun, kStep, kSample };  // kSample: if batch sizes differ, and what is computed with them

// Why a change of the mean beyond its noise bound may still not be real.
enum class Doubt : uint8_t {
  kNone,
  kOnlySomeSteps,  // the fastest quarter of the steps, which other programs disturb least, does not show it
  kWaiting  // it disappears without the time the step waited for other programs, or may do: not known on a busy machine
};

enum class Gate : uint8_t { kPasses, kFails, kCannotTell };

struct Decision {
  Per per = Per::kStep;
  TimeChange time;  // mean per step, sample or run (`per`); its finding is the decision
  // Requests of NEW that do as much as one of BASE's, which is compared by so many parts; below 1: the reverse.
  double parts = 1;
  TimeChange low;          // the same for the fastest quarter of the steps
  TimeChange cpu;          // CPU time of all threads; 0 if not known
  bool is_by_cpu = false;  // `cpu` decides: other programs disturb the times
  // Mean step, much longer ones included; its finding: where these tell the sides apart for a reason, else equal.
  TimeChange with_longer;
  bool are_longer_most = false;  // much longer steps hold most of a side's time
  TimeChange whole;              // mean per step or run, whatever the batch size; the sum of the contributions
  bool is_same_work = false;
  Pace pace;  // 1 if the work differs: then different work explains different times
  Doubt doubt = Doubt::kNone;

  // Slower by more than `percent`, beyond the noise bound: without a change, at most kFalseAlarms of all comparisons
  // fail. kCannotTell: slower by more than that, but no noise bound is known.
  Gate SlowerThan(double percent) const;
};
inline constexpr double kFalseAlarms = kAlpha / 2;  // slower is one of two ways to differ

// `pace`: as measured on the work that both runs did. `flops`: of a step's library calls on both sides; {0, 0}: not known.
Decision Decide(const MeasuredRun& base, const MeasuredRun& new_side, const Pace& pace, bool is_same_work,
                std::pair<double, double> flops = {});

enum class CauseKind : uint8_t {
  kCompilation,
  kLayers,
  kPasses,  // directions of a layer that one side computes
  kCalls,
  kWork,
  kTypes,
  kImplementation,
  kOperations,
  kLayout,
  kInput,
  kWaiting,
  kCommunication,
  kPython,
  kBusyMachine,
  kSlowerMachine,
  kThreads,
  kRate,
  kUnknownSizes,  // of framework's ops, whose sizes are not recorded, while the programs differ
  kOther
};
const char* CauseName(CauseKind kind);  // "layers", "work per call" …

struct Cause {
  CauseKind kind = CauseKind::kOther;
  double change_ns = 0;  // per step
  std::string what;      // what differs, of that which changed most: "convolution oc 32 -> 96"
  std::string where;     // "body bwd-weights, tail forward and 3 more"; empty: everywhere, or said by `what`
  std::string line;      // with 30 % of the change or more: "train.py:12 to 14"; empty: none is known

  std::string Clause() const;  // "more work per call: convolution oc 32 -> 96 in body bwd-weights"
};

struct CauseInput {
  const TableChanges* work = nullptr;  // of the tables `work` (WorkTable)
  const NameMap* names = nullptr;
  const MeasuredRun* base = nullptr;
  const MeasuredRun* new_side = nullptr;
  const Decision* decision = nullptr;
  const std::vector<Difference>* differences = nullptr;
};

// The largest first; they add up to decision.whole's change.
std::vector<Cause> FindCauses(const CauseInput& input);

Table CausesTable(const std::vector<Cause>& causes, const Decision& decision);

// The change of a step divided: every row's into parts of one cause each.
using WorkPlace = std::pair<std::string, std::string>;  // layer, direction

struct ChangePart {
  CauseKind kind = CauseKind::kOther;
  double ns = 0;
  std::string what;  // as in Cause
  WorkPlace place;   // empty: everywhere
};

// They add up to decision.whole's change.
std::vector<ChangePart> DivideChange(const CauseInput& input);

}  // namespace dlhook::analyzer::diff
