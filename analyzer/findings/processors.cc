// Rules about processors: processor-quota, machine-busy, spinning-threads, too-many-threads, one-thread.
//
// The kernel counts how long the program's first thread was runnable without running, and its processor time
// (schedstat); the launcher samples the number of runnable threads on the machine.
//
// spinning-threads: OpenMP's threads wait for their next work actively for some milliseconds (libgomp) or 200
// (libiomp5). Work that they could have a part in runs while an operation or call is recorded. What they used beyond,
// they spun, or other threads of the program computed what dlhook does not see.
#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/findings/rules.h"
#include "analyzer/table/human.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kWaitPercent = 3;
constexpr double kOthersThreads = 0.5;   // mean number of running threads of other programs
constexpr double kAllOfThem = 0.85;      // of the processors; above this the program has the machine to itself
constexpr double kLongCallNs = 500'000;  // shorter calls may well be computed by one thread
constexpr double kLongCallsPercent = 30;
constexpr double kOneThread = 1.15;  // running threads on average
constexpr double kSpunPercent = 20;  // of the program's processor time

uint32_t Allowed(const StepFacts& facts) {
  return facts.processors() > 0 ? facts.processors() : facts.load().processors;
}

// If there are more threads than processors, some wait, and no counter says whose. Then only processors count: those on
// which the program's threads do not run are used by others.
bool OthersAreBusy(const StepFacts& facts) {
  const double own = facts.RunningThreads();
  if (own >= kAllOfThem * Allowed(facts)) return false;
  return std::min<double>(facts.load().runnable, facts.load().processors) - own >= kOthersThreads;
}

// The run-queue wait includes the time in which a quota stops the thread. How much of that was this thread's is not
// known where several ran: at most all of it.
double StoppedNs(const StepFacts& facts) { return std::min(facts.load().throttled_ns, facts.load().waiting_ns); }
double WaitNs(const StepFacts& facts) { return facts.load().waiting_ns - StoppedNs(facts); }

bool WaitsForProcessors(const StepFacts& facts) {
  return facts.load().is_known && facts.IsAtLeast(WaitNs(facts), kWaitPercent);
}

// Time of operations and calls in a step: the median, or, if the first thread waits for a processor, that of the steps
// that were disturbed least.
double UndisturbedWorkNs(const StepFacts& facts) {
  std::map<std::pair<ProcessIndex, size_t>, int64_t> by_step;
  facts.ForEachOperation([&](ThreadIndex thread, int64_t start_ns, int64_t duration_ns) {
    const ProcessIndex process = facts.model().threads[thread].process;
    const size_t step = facts.StepAt(process, start_ns);
    if (step != kNone) by_step[{process, step}] += duration_ns;
  });
  std::vector<int64_t> sums;
  for (const auto& [step, ns] : by_step) sums.push_back(ns);
  if (sums.empty()) return 0;
  const size_t index = sums.size() / (facts.IsAtLeast(WaitNs(facts), kWaitPercent) ? 20 : 2);
  std::nth_element(sums.begin(), sums.begin() + static_cast<ptrdiff_t>(index), sums.end());
  return static_cast<double>(sums[index]);
}

// Processor time of other threads than the first, per step, less what they may have had of the work: each as long as it
// took undisturbed, all together what the processors have beside the first thread. 0: they don't spin, or it is not known.
double SpunNs(const StepFacts& facts) {
  const MachineLoad& load = facts.load();
  if (!facts.UsesTorch() || facts.HasGpuTimes() || !SpinningMissing(facts).empty()) return 0;
  if (absl::EqualsIgnoreCase(facts.Setting("OMP_WAIT_POLICY"), "passive") || facts.Setting("KMP_BLOCKTIME") == "0")
    return 0;
  const double least_ns = kSpunPercent / 100 * load.cpu_ns;
  double spun_ns = load.cpu_ns - load.first_thread_cpu_ns;
  if (spun_ns < least_ns) return 0;
  const double work_ns = UndisturbedWorkNs(facts);
  spun_ns -=
      std::min((load.threads - 1.0) * work_ns, Allowed(facts) * work_ns - std::min(load.first_thread_cpu_ns, work_ns));
  return spun_ns < least_ns ? 0 : spun_ns;
}

double ProcessesWithSteps(const StepFacts& facts) {
  std::set<ProcessIndex> processes;
  for (const StepTrack& track : facts.steps().tracks) processes.insert(track.process);
  return static_cast<double>(std::max<size_t>(processes.size(), 1));
}

std::string Wanted(const StepFacts& facts) {
  return absl::StrFormat("%.1f threads wanted %d processors, and this program's ran on %.1f of them",
                         facts.load().runnable, facts.load().processors, facts.RunningThreads());
}

Finding Waiting(const StepFacts& facts) {
  Finding finding;
  finding.gain_ns = std::min(WaitNs(facts), facts.step_ns());
  finding.sentence = absl::StrCat("The main thread waits for a processor: ", facts.PartOfStep(finding.gain_ns), "; ",
                                  Wanted(facts), ".");
  finding.evidence = "the kernel's run-queue wait of the thread (schedstat)";
  return finding;
}

}  // namespace

std::vector<Finding> FindProcessorQuota(const StepFacts& facts) {
  if (!facts.load().is_known || !facts.IsAtLeast(StoppedNs(facts), kWaitPercent)) return {};
  Finding finding;
  finding.gain_ns = std::min(StoppedNs(facts), facts.step_ns());
  finding.basis = GainBasis::kUpperBound;
  finding.confidence = Confidence::kMedium;
  finding.sentence = absl::StrFormat(
      "The CPU quota of the program's control group (container) is used up, and its threads are throttled: "
      "up to %s; they ran on %.1f processors.",
      facts.PartOfStep(finding.gain_ns), facts.RunningThreads());
  finding.evidence = "throttled time of the control group (cpu.stat), at most the thread's run-queue wait";
  finding.advice =
      "Raise the quota (docker --cpus, Kubernetes limits.cpu, cpu.max), or start no more threads than the quota allows "
      "(OMP_NUM_THREADS, loader workers).";
  return {finding};
}

std::vector<Finding> FindBusyMachine(const StepFacts& facts) {
  if (!WaitsForProcessors(facts) || !OthersAreBusy(facts)) return {};
  Finding finding = Waiting(facts);
  finding.advice =
      "Other programs use the processors: stop them, or measure and train on processors of your own (taskset, "
      "cpusets). Times of this run are longer than the program's own.";
  return {finding};
}

std::string SpinningMissing(const StepFacts& facts) {
  if (!facts.UsesTorch() || facts.HasGpuTimes()) return "";
  if (!facts.HasSteps()) return "no repeating step was found";
  if (facts.model().scopes.size() == 0) return "PyTorch's operations were not recorded";
  if (!facts.load().is_known || facts.load().first_thread_cpu_ns == 0) return "processor time was not sampled";
  return facts.FirstThreadsWorkAlone() ? "" : "other threads than the first call operations";
}

std::vector<Finding> FindSpinningThreads(const StepFacts& facts) {
  // On a machine of its own a program loses nothing by it.
  if (facts.load().runnable <= Allowed(facts)) return {};
  const double spun_ns = SpunNs(facts), wait_ns = std::min(WaitNs(facts), spun_ns);
  if (spun_ns == 0) return {};
  const bool is_loss = !OthersAreBusy(facts) && facts.IsAtLeast(wait_ns, kWaitPercent);
  Finding finding;
  finding.sentence = absl::StrFormat(
      "Of %s of CPU time per %s, threads other than the first use %s more than operations can account for: OpenMP's, "
      "which spin while waiting for work, or code that dlhook does not observe.",
      HumanTime(facts.load().cpu_ns), facts.StepNoun(), HumanTime(spun_ns));
  if (is_loss) {
    absl::StrAppend(&finding.sentence, " The main thread waits for a processor: ", facts.PartOfStep(WaitNs(facts)),
                    ".");
  }
  finding.gain_ns = is_loss ? std::min(wait_ns, facts.step_ns()) : spun_ns;
  finding.whole_ns = is_loss ? 0 : facts.load().cpu_ns;
  finding.basis = GainBasis::kUpperBound;
  finding.confidence = is_loss ? Confidence::kMedium : Confidence::kLow;
  finding.is_information = !is_loss;
  finding.evidence =
      "processor time of all threads but the first (schedstat), less what they can have used while operations ran";
  finding.advice =
      "Where processors are shared (several ranks, loader workers, other programs): OMP_WAIT_POLICY=passive (libgomp), "
      "KMP_BLOCKTIME=0 (libiomp5), or fewer threads (torch.set_num_threads). On an otherwise idle machine it costs "
      "nothing.";
  return {finding};
}

std::vector<Finding> FindTooManyThreads(const StepFacts& facts) {
  if (!WaitsForProcessors(facts) || OthersAreBusy(facts)) return {};
  if (facts.RunningThreads() < kAllOfThem * Allowed(facts) || facts.load().runnable <= Allowed(facts)) return {};
  const double rest_ns = WaitNs(facts) - SpunNs(facts);
  if (!facts.IsAtLeast(rest_ns, kWaitPercent)) return {};
  Finding finding = Waiting(facts);
  finding.gain_ns = std::min(rest_ns, finding.gain_ns);
  finding.advice = absl::StrFormat(
      "More threads than processors: OMP_NUM_THREADS=%d (torch.set_num_threads) or less, fewer loader workers.",
      std::max<uint32_t>(Allowed(facts), 1));
  return {finding};
}

// Of a process whose first thread makes the calls, other threads hardly run, or run only in what is not a product, as
// OpenBLAS was told to use one (because the program's own threads compute, for example). What other processes of the run
// use (ranks, loader workers) is not free, nor what those threads must have used beside the products; processes with steps
// share the rest.
std::vector<Finding> FindOneThread(const StepFacts& facts) {
  const uint32_t processors = facts.processors();
  const MachineLoad& load = facts.load();
  if (!load.is_known || !facts.HasSteps() || OthersAreBusy(facts)) return {};
  const double own = facts.RunningThreads();
  const bool is_alone = facts.model().processes.size() == 1 && own <= kOneThread;
  const bool is_first_alone = load.first_thread_cpu_ns > 0 && facts.FirstThreadsWorkAlone() &&
                              load.cpu_ns - load.first_thread_cpu_ns <= (kOneThread - 1) * facts.step_ns();
  const bool is_told =
      !is_alone && !is_first_alone && facts.Setting("OPENBLAS_NUM_THREADS") == "1" && facts.FirstThreadsWorkAlone();
  if (!is_alone && !is_first_alone && !is_told) return {};
  const auto is_long = [&](const WorkItem& item) {
    if (is_told && !(item.op != nullptr && absl::StartsWith(item.op->function, "scipy_")))
      return false;  // wheels' OpenBLAS
    return item.IsHostCompute() && item.calls > 0 && item.ns / item.calls >= kLongCallNs;
  };
  const double ns = facts.Sum(is_long);
  if (!facts.IsAtLeast(ns, kLongCallsPercent)) return {};
  const double others = is_told ? (load.cpu_ns - load.first_thread_cpu_ns) / facts.step_ns() : 0;
  const double beside = is_told ? facts.ThreadsBeside(ns) : 0;
  const double free = std::max(processors - own + others - beside + (kOneThread - 1), 0.0);
  const auto threads = static_cast<uint32_t>(1 + free / ProcessesWithSteps(facts));
  if (threads < 2) return {};
  std::string cause;
  for (const auto& [name, value] : facts.model().processes.front().settings) {
    if (value == "1" && name.find("NUM_THREADS") != std::string::npos) cause = absl::StrCat(name, "=1 is set");
  }
  Finding finding;
  finding.where = facts.LayersOf(is_long);
  finding.sentence = absl::StrFormat(
      "One thread computes although %d processors are available%s: %s in calls of 0.5 ms and more.", processors,
      own > kOneThread ? absl::StrFormat(", of which the program uses %.1f", own) : "", facts.PartOfStep(ns));
  finding.gain_ns = ns * (1 - 1.0 / threads);
  finding.basis = GainBasis::kUpperBound;
  finding.confidence = Confidence::kMedium;
  finding.evidence = absl::StrFormat("%.2f threads ran on average; time / %d processors", own, threads);
  finding.advice =
      absl::StrCat(cause, cause.empty() ? "Let" : ": let", " the library use more threads: OMP_NUM_THREADS=", threads,
                   " (torch.set_num_threads).");
  return {finding};
}

}  // namespace dlhook::analyzer::findings
