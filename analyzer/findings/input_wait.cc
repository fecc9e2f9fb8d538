// Rule input-wait: the step waits for its next batch.
//
// If the program loads data itself, all of the loading time counts; with worker processes, the time the program waits
// for them. Who was late is known from looks at those who prepare batches, while the program waits: they compute, have no
// processor, wait for files or the like, or wait for work themselves.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/findings/gpu_rules.h"
#include "analyzer/findings/rules.h"
#include "analyzer/work/preparing.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kInputWaitPercent = 5;  // "moderate" in XProf's input pipeline analysis
constexpr int64_t kMostWorkers = 16;     // each is a process of its own
constexpr char kLessWork[] = "cheaper transforms, or data decoded in advance.";

// How many workers would prepare batches as fast as the step can use them, and how long it would take then: not less than
// its own part, nor than the processors need for what the run computes meanwhile, which workers do not change.
struct Workers {
  double step_ns = 0;
  int count = 0;
  bool use_all_processors = false;
};

// `now`: workers there are, each of which needs all the time for its batch; 0: the program prepares them.
Workers WorkersFor(const StepFacts& facts, double waited_ns, int64_t now) {
  const double batch_ns = now > 0 ? static_cast<double>(now) * facts.step_ns() : waited_ns;
  const auto most = static_cast<double>(std::max(kMostWorkers, 2 * now));
  const double used = facts.processors() > 0 ? std::min(facts.RunningThreads() / facts.processors(), 1.0) : 0;
  const double own_ns = std::max({facts.step_ns() - waited_ns, batch_ns / most, 1.0});
  const double step_ns = std::max(own_ns, used * facts.step_ns());
  return {step_ns, static_cast<int>(std::ceil(batch_ns / step_ns)), step_ns > own_ns};
}

std::string HowTheyHelp(const StepFacts& facts, const Preparing& preparing, const Workers& workers) {
  if (workers.use_all_processors) return absl::StrFormat("; then all processors (%d) compute", facts.processors());
  const bool mostly_waits = preparing.IsKnown() && preparing.Mostly(preparing.looks.blocked_ns);
  return mostly_waits ? ", also without free processors: what prepares them mostly waits for something else"
                      : ", if processors are free";
}

std::string MoreOf(Preparer preparer, int count) {
  if (preparer == Preparer::kPipeline)
    return absl::StrFormat("Dataset.map(..., num_parallel_calls=%d) and .prefetch(tf.data.AUTOTUNE) prepare", count);
  return absl::StrFormat("DataLoader(..., num_workers=%d, persistent_workers=True) prepares", count);
}

// For those who prepare batches and had no work, no processor, or each other's lock; empty: none of these was mostly so.
std::string WhyNotMore(const Preparing& preparing) {
  if (!preparing.IsKnown()) return "";
  if (preparing.preparer == Preparer::kWorkers && preparing.Mostly(preparing.WithoutWork())) {
    return "The workers wait for work: more batches ahead (prefetch_factor), fewer or smaller copies of a batch on "
           "its way (collate_fn, pin_memory).";
  }
  if (preparing.Mostly(preparing.looks.queued_ns)) {
    return absl::StrCat(
        "The workers wait for a processor: more of them do not help. Fewer other threads (OMP_NUM_THREADS), ",
        kLessWork);
  }
  if (preparing.IsPython() && !preparing.Mostly(preparing.looks.blocked_ns - preparing.WithoutWork())) {
    return "The pipeline runs Python (tf.numpy_function, tf.py_function), of which mostly one at a time computes "
           "(Python's lock): TensorFlow's own operations, or data that was prepared before (Dataset.cache, a file).";
  }
  return "";
}

// What helps depends on who was late. `now`: workers or threads there are.
void Advise(const StepFacts& facts, double ns, const Preparing& preparing, int64_t now, Finding& finding) {
  finding.advice = WhyNotMore(preparing);
  if (!finding.advice.empty()) return;
  const Workers workers = WorkersFor(facts, ns, now);
  const double gain_ns = facts.step_ns() - workers.step_ns;
  if (workers.count <= now || !facts.IsAtLeast(gain_ns, kInputWaitPercent)) {
    finding.advice = absl::StrFormat("More %s do not help, as all processors (%d) compute: %s",
                                     preparing.preparer == Preparer::kPipeline ? "calls at the same time" : "workers",
                                     facts.processors(), kLessWork);
    return;
  }
  finding.gain_ns = std::min(gain_ns, ns);
  finding.advice = absl::StrCat(MoreOf(preparing.preparer, workers.count), " batches during the step",
                                HowTheyHelp(facts, preparing, workers), ".");
}

std::string WhoIsLate(Preparer preparer) {
  if (preparer == Preparer::kWorkers) return "The program waits for its loader's workers: ";
  return preparer == Preparer::kPipeline ? "The program waits for its pipeline of tf.data: "
                                         : "The program prepares each batch itself before it computes: ";
}

}  // namespace

void AdviseOnInput(const StepFacts& facts, double ns, Finding& finding) {
  const Preparer preparer = facts.counted().preparer();
  const Preparing preparing = WhoPrepares(facts.model(), *facts.options().analysis, facts.steps(), preparer);
  const bool is_seen = preparer == Preparer::kProgram || preparing.threads > 0;
  if (const std::string did = preparing.Text(); !did.empty()) {
    absl::StrAppend(&finding.sentence, " Meanwhile ", did, ".");
  } else if (!is_seen && !facts.model().states.empty()) {
    absl::StrAppend(&finding.sentence, " What the ", preparer == Preparer::kWorkers ? "workers" : "pipeline",
                    " did meanwhile was not observed.");
  }
  if (is_seen) {
    Advise(facts, ns, preparing, preparer == Preparer::kProgram ? 0 : preparing.threads, finding);
  } else if (preparer == Preparer::kWorkers) {
    finding.advice = absl::StrCat("More workers (num_workers) where processors are free, else ", kLessWork);
  } else {
    finding.advice = absl::StrCat(
        "Dataset.map(..., num_parallel_calls=tf.data.AUTOTUNE) and .prefetch(tf.data.AUTOTUNE) where processors are "
        "free, else ",
        kLessWork);
  }
}

std::vector<Finding> FindInputWait(const StepFacts& facts) {
  if (!facts.HasSteps() || facts.HasGpuTimes()) return {};  // with a GPU only its idle time counts: gpu-idle
  const double waited_ns =
      facts.Sum([](const WorkItem& item) { return item.doing.activity == ActivityKind::kDataLoading; });
  const double ns = std::max(facts.PhaseNs(PhaseKind::kInput), waited_ns);
  if (!facts.IsAtLeast(ns, kInputWaitPercent)) return {};
  const Preparer preparer = facts.counted().preparer();
  Finding finding;
  finding.gain_ns = ns;
  finding.sentence = absl::StrCat(WhoIsLate(preparer), facts.PartOfStep(ns), ".");
  if (preparer != Preparer::kWorkers) {
    finding.basis = GainBasis::kUpperBound;
    finding.confidence = Confidence::kMedium;
  }
  AdviseOnInput(facts, ns, finding);
  finding.where = "input";
  finding.evidence = "table phases: input";
  return {finding};
}

}  // namespace dlhook::analyzer::findings
