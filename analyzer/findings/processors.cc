// Rules about processors: processor-quota, machine-busy, spinning-threads, too-many-threads, one-thread.
//
// The kernel counts how long the program's first thread was runnable without running, and its processor time
// (schedstat); the launcher samples the number of runnable threads on the machine.
//
// spinning-threads: OpenMP's threads wait for their next work actively for some milliseconds (libgomp) or 200
// (libiomp5). Work that they could have a part in runs while an operation or call is recorded. What they used beyond,
// they spun, or other threads of the program computed what dlhook does not see.

#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kWaitPercent = 3;
constexpr double kLongCallNs = 500'000;  // shorter calls may well be computed by one thread
constexpr double kLongCallsPercent = 30;
constexpr double kOneThread = 1.15;  // running threads on average
constexpr double kPoolPercent = 20;  // of what the sampled threads of pools compute
constexpr double kSpunPercent = 20;  // of the program's processor time

bool OthersAreBusy(const StepFacts& facts) { return facts.load().OthersPart() > 0; }

// The run-queue wait includes the time in which a quota stops the thread. How much of that was this thread's is not
// known where several ran: at most all of it.
double StoppedNs(const StepFacts& facts) { return std::min(facts.load().throttled_ns, facts.load().waiting_ns); }
double WaitNs(const StepFacts& facts) { return facts.load().waiting_ns - StoppedNs(facts); }

// Of it for its own program's threads, and for others'.
double OwnWaitNs(const StepFacts& facts) { return WaitNs(facts) * facts.load().OwnPart(); }
double OthersWaitNs(const StepFacts& facts) { return WaitNs(facts) * facts.load().OthersPart(); }

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
  return static_cast<double>(NthOf(sums, sums.size() / (facts.IsAtLeast(WaitNs(facts), kWaitPercent) ? 20 : 2)));
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
  spun_ns -= std::min((load.threads - 1.0) * work_ns,
                      facts.load().allowed * work_ns - std::min(load.first_thread_cpu_ns, work_ns));
  return spun_ns < least_ns ? 0 : spun_ns;
}

double ProcessesWithSteps(const StepFacts& facts) {
  std::set<ProcessIndex> processes;
  for (const StepTrack& track : facts.steps().tracks) processes.insert(track.process);
  return static_cast<double>(std::max<size_t>(processes.size(), 1));
}

std::string Wanted(const StepFacts& facts) {
  const MachineLoad& load = facts.load();
  if (load.own.wanted) {
    return absl::StrFormat("%.1f threads of this program and %.1f of others competed for %d processors",
                           *load.own.wanted, load.own.others, load.allowed);
  }
  return absl::StrFormat(
      "%.1f threads competed for %d processors, and this program got %.1f of them; how many of its threads waited is "
      "not known, because thread states were not sampled",
      load.runnable, load.processors, load.own.running);
}

// "12 threads of 4 processes want 10.4 processors, and there are 2".
std::string OwnWanted(const StepFacts& facts) {
  const MachineLoad& load = facts.load();
  if (!load.own.wanted) return Wanted(facts);
  return absl::StrFormat("%d threads of %d %s want %.1f processors, and there are %d", load.own.threads,
                         load.own.processes, load.own.processes == 1 ? "process" : "processes", *load.own.wanted,
                         load.allowed);
}

// Whose code the other threads than the first run, most first, by samples; empty: no samples, or none has a fifth.
std::vector<std::string> OwnersOfPools(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  if (model.samples.empty()) return {};
  const auto& places = facts.Derived<SamplePlaces>();
  std::map<std::string, double> ns_of;
  double all_ns = 0;
  for (size_t sample = 0; sample < model.samples.size(); ++sample) {
    const ThreadData& thread = model.threads[model.samples.thread[sample]];
    const bool is_known = model.samples.frame[sample] != kNone && model.samples.state[sample] != SampleState::kLate;
    if (thread.tid == model.processes[thread.process].pid || !is_known) continue;
    const auto ns = static_cast<double>(model.samples.cpu_ns[sample]);
    ns_of[places.name(places.OwnerOf(sample))] += ns;
    all_ns += ns;
  }
  std::vector<std::pair<double, std::string>> order;
  for (const auto& [owner, ns] : ns_of) {
    if (ns >= kPoolPercent / 100 * all_ns) order.emplace_back(-ns, owner);
  }
  absl::c_sort(order);
  std::vector<std::string> owners;
  for (auto& [ns, owner] : order) owners.push_back(std::move(owner));
  return owners;
}

bool HasOwner(const std::vector<std::string>& owners, absl::string_view word) {
  return absl::c_any_of(owners, [&](const std::string& owner) { return absl::StrContains(owner, word); });
}

// What makes them fewer. Without samples it is not known whose they are.
std::string FewerThreads(const StepFacts& facts, const std::vector<std::string>& owners) {
  const uint32_t processes = std::max(facts.load().own.processes, 1U);
  const uint32_t each = std::max(facts.load().allowed / processes, 1U);
  // XLA's and TensorFlow's pools are not OpenMP's. Of several variables the first that is set counts.
  const bool is_torch = facts.UsesTorch(), is_xla = !is_torch && facts.Uses("JAX");
  const bool is_tensorflow = !is_torch && !is_xla && facts.Uses("TensorFlow");
  std::vector<const char*> variables = {"OMP_NUM_THREADS"};
  const char* rest = " (torch.set_num_threads)";
  if (is_xla) {
    variables = {"PJRT_NPROC", "NPROC"};
    rest = " (the size of XLA's pools)";
  } else if (is_tensorflow) {
    variables = {"TF_NUM_INTRAOP_THREADS"};
    rest = " and TF_NUM_INTEROP_THREADS=1";
  }
  const std::string fewer = absl::StrCat(processes > 1 ? "in each process " : "", variables.front(), "=", each, rest,
                                         " or less", processes > 1 ? ", or fewer processes" : ", fewer loader workers");
  const std::string onnxruntime =
      "onnxruntime's sessions each have a pool of threads that spin while they wait for work: "
      "session.intra_op.allow_spinning=0 (SessionOptions.add_session_config_entry), or a smaller intra_op_num_threads";
  if (HasOwner(owners, "onnxruntime")) return absl::StrCat("More threads than processors: ", onnxruntime, ".");
  for (const char* variable : variables) {
    uint32_t set = 0;
    if (!absl::SimpleAtoi(facts.Setting(variable), &set)) continue;
    if (set == 0 || set > each) break;
    const bool has_another = is_tensorflow && facts.Setting("TF_NUM_INTEROP_THREADS").empty();
    return absl::StrCat(
        variable, " is that small already: ", has_another ? "TF_NUM_INTEROP_THREADS=1, " : "",
        processes > 1 ? "fewer processes, or fewer threads that they start (loader workers, communication, pools of "
                        "other libraries)."
                      : "fewer threads that the program starts itself (loader workers, pools of other libraries).");
  }
  const bool is_known = !owners.empty() || is_torch || is_xla || is_tensorflow;
  return absl::StrCat("More threads than processors: ", fewer, is_known ? "" : "; ", is_known ? "" : onnxruntime, ".");
}

Finding Waiting(const StepFacts& facts, double ns) {
  return {.gain_ns = std::min(ns, facts.step_ns()),
          .basis = GainBasis::kMeasured,
          .confidence = facts.load().own.wanted ? Confidence::kHigh : Confidence::kMedium,
          .evidence =
              "the kernel's run-queue wait of the thread (schedstat), divided by how many threads wanted a processor "
              "(table threads)"};
}

}  // namespace

std::vector<Finding> FindProcessorQuota(const StepFacts& facts) {
  if (!facts.load().is_known || !facts.IsAtLeast(StoppedNs(facts), kWaitPercent)) return {};
  const double gain_ns = std::min(StoppedNs(facts), facts.step_ns());
  return {{.sentence = absl::StrFormat("The CPU quota of the program's control group (container) is used up, and its "
                                       "threads are throttled: up to %s; they ran on %.1f processors.",
                                       facts.PartOfStep(gain_ns), facts.RunningThreads()),
           .gain_ns = gain_ns,
           .evidence = "throttled time of the control group (cpu.stat), at most the thread's run-queue wait",
           .advice = "Raise the quota (docker --cpus, Kubernetes limits.cpu, cpu.max), or start no more threads than "
                     "the quota allows (OMP_NUM_THREADS, loader workers)."}};
}

std::vector<Finding> FindBusyMachine(const StepFacts& facts) {
  if (!facts.load().is_known || !facts.IsAtLeast(OthersWaitNs(facts), kWaitPercent)) return {};
  Finding finding = Waiting(facts, OthersWaitNs(facts));
  finding.sentence =
      absl::StrCat("The main thread waits for a processor that other programs use: ", facts.PartOfStep(finding.gain_ns),
                   "; ", Wanted(facts), ".");
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
  if (facts.load().runnable <= facts.load().allowed) return {};
  const double spun_ns = SpunNs(facts), wait_ns = std::min(OwnWaitNs(facts), spun_ns);
  if (spun_ns == 0 || !FindPythonLock(facts).empty()) return {};
  const bool is_loss = facts.IsAtLeast(wait_ns, kWaitPercent);
  return {
      {.sentence = absl::StrCat(
           "Of ", HumanTime(facts.load().cpu_ns), " of CPU time per ", facts.StepNoun(),
           ", threads other than the first use ", HumanTime(spun_ns),
           " more than operations can account for: OpenMP's, which spin while waiting for work, or code that dlhook "
           "does not observe.",
           is_loss ? absl::StrCat(" The main thread waits for a processor: ", facts.PartOfStep(OwnWaitNs(facts)), ".")
                   : ""),
       .gain_ns = is_loss ? std::min(wait_ns, facts.step_ns()) : spun_ns,
       .confidence = is_loss ? Confidence::kMedium : Confidence::kLow,
       .evidence =
           "processor time of all threads but the first (schedstat), less what they can have used while operations ran",
       .advice = "Where processors are shared (several ranks, loader workers, other programs): OMP_WAIT_POLICY=passive "
                 "(libgomp), KMP_BLOCKTIME=0 (libiomp5), or fewer threads (torch.set_num_threads). On an otherwise "
                 "idle machine it costs nothing.",
       .is_information = !is_loss,
       .whole_ns = is_loss ? 0 : facts.load().cpu_ns,
       .whole = "the processor time"}};
}

// Of steps that other threads than the first run (a pool's): what these wait for their own program, by looks.
double OwnWaitOfPoolNs(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  if (model.states.empty() || !facts.HasSteps()) return 0;
  const std::vector<ThreadStates> threads = ReadThreadStates(model);
  double ns = 0;
  for (const StepTrack& track : facts.steps().tracks) {
    const ThreadStates* const states = StatesOf(model, threads, track);
    if (states == nullptr || states->tid == model.processes[track.process].pid) continue;
    for (const Step& step : track.steps)
      ns += static_cast<double>(states->In({step.start_ns, step.end_ns}).queued_ns) / facts.count();
  }
  return ns * facts.load().OwnPart();
}

std::vector<Finding> FindTooManyThreads(const StepFacts& facts) {
  const MachineLoad& load = facts.load();
  if (!load.is_known) return {};
  const double own_ns = OwnWaitNs(facts), pool_ns = OwnWaitOfPoolNs(facts);
  const double ns = std::max(own_ns, pool_ns) - SpunNs(facts);
  if (!facts.IsAtLeast(ns, kWaitPercent)) return {};
  Finding finding = Waiting(facts, ns);
  const std::vector<std::string> owners = OwnersOfPools(facts);
  finding.sentence = absl::StrCat(
      pool_ns > own_ns ? absl::StrCat("The threads that run the ", facts.StepNoun(), "s wait")
                       : "The main thread waits",
      " for a processor that threads of this program use: ", facts.PartOfStep(finding.gain_ns), "; ", OwnWanted(facts),
      owners.empty() ? "" : absl::StrCat("; they run code of ", absl::StrJoin(owners, ", ")), ".");
  finding.advice = FewerThreads(facts, owners);
  // While one of these waits, another computes: nothing is lost of what they do together.
  if (load.own.processes > 1 && load.own.threads <= load.own.processes &&
      facts.steps().tracks.size() >= load.own.processes) {
    finding.is_information = true;
    finding.advice = absl::StrFormat(
        "Each process computes in one thread: fewer of them make a %s shorter, more of them gain nothing.",
        facts.StepNoun());
  }
  return {finding};
}

// Of a process whose first thread makes the calls, other threads hardly run, or run only in what is not a product, as
// OpenBLAS was told to use one (because the program's own threads compute, for example). What other processes of the run
// use (ranks, loader workers) is not free, nor what those threads must have used beside the products; processes with steps
// share the rest.
std::vector<Finding> FindOneThread(const StepFacts& facts) {
  const uint32_t processors = facts.processors();
  const MachineLoad& load = facts.load();
  if (!load.is_known || !facts.HasSteps() || OthersAreBusy(facts) || load.OwnPart() > 0) return {};
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
  return {
      {.where = facts.LayersOf(is_long),
       .sentence = absl::StrFormat(
           "One thread computes although %d processors are available%s: %s in calls of 0.5 ms and more.", processors,
           own > kOneThread ? absl::StrFormat(", of which the program uses %.1f", own) : "", facts.PartOfStep(ns)),
       .gain_ns = ns * (1 - 1.0 / threads),
       .evidence = absl::StrFormat("%.2f threads ran on average; time / %d processors", own, threads),
       .advice = absl::StrCat(cause, cause.empty() ? "Let" : ": let", " the library use more threads: OMP_NUM_THREADS=",
                              threads, " (torch.set_num_threads).")}};
}

}  // namespace dlhook::analyzer::findings
