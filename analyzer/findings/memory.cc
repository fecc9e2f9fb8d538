// Rules about memory: no time is lost by it, so they are for information, with the bytes that they are about.
//
// growing-memory: at the end of nearly every step more is held than three steps before. What grows is found by comparing
// what is held after the first and after the last of these steps.
// kept-activations: where memory is scarce, half of the peak is kept for the backward pass by one layer.
// fragmented-memory: when most is held, the allocator has reserved much more.
//
// Rule page-faults: each step asks the kernel for memory and gives it back.
//
// glibc maps blocks above a threshold (at most 32 MiB, M_MMAP_THRESHOLD) one by one and unmaps them when they are
// freed: each step touches new pages, which the kernel clears. Counted are the faults of the thread that runs the
// steps; what a page costs, the launcher measured. Faults for memory that the process keeps are no loss.

#include "analyzer/findings/rules.h"
#include "analyzer/steps/measured_steps.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr size_t kSettlingSteps = 2;  // optimizers make their state, allocators fill
constexpr size_t kLeastGrowingSteps = 6;
constexpr size_t kGrowthSteps = 3;  // apart: a temporary may or may not be there where a step ends
constexpr double kOfTheSteps = 0.8;
constexpr int64_t kLeastGrowth = 1 << 20;
constexpr double kLeastGrowthPart = 0.02;  // of the peak
constexpr int64_t kLargePeak = 1 << 30;
constexpr double kScarce = 0.8;       // of the device's memory
constexpr double kMostOfPeak = 0.5;   // by one layer
constexpr double kUnusedPart = 0.25;  // of what is reserved
constexpr double kNewPagesPercent = 3;
constexpr double kPageBytes = 4096;

std::string Bytes(int64_t bytes) { return HumanCell(bytes, "bytes"); }

Finding MemoryFinding(int64_t bytes, std::string where, std::string line, std::string sentence, const char* evidence,
                      const char* advice) {
  return {.where = std::move(where),
          .line = std::move(line),
          .sentence = std::move(sentence),
          .basis = GainBasis::kMeasured,
          .confidence = Confidence::kHigh,
          .evidence = evidence,
          .advice = advice,
          .is_information = true,
          .bytes = bytes};
}

int64_t LastEventNs(const TraceModel& model, ProcessIndex process) {
  int64_t last_ns = INT64_MIN;
  for (const MemoryEvent& event : model.memory) {
    if (model.threads[event.thread].process == process) last_ns = std::max(last_ns, event.time_ns);
  }
  return last_ns;
}

// What is held at the end of each of these steps.
std::vector<int64_t> HeldAfter(const TraceModel& model, const DeviceMemory& device, absl::Span<const Step> steps) {
  const auto first_end_from = [&](size_t event) {
    return std::partition_point(steps.begin(), steps.end(),
                                [&](const Step& step) { return step.end_ns < model.memory[event].time_ns; }) -
           steps.begin();
  };
  std::vector<int64_t> held(steps.size() + 1);
  for (const MemoryBlock& block : device.blocks) {
    const int64_t bytes = model.memory[block.born].bytes;
    held[static_cast<size_t>(first_end_from(block.born))] += bytes;
    if (block.died != SIZE_MAX) held[static_cast<size_t>(first_end_from(block.died))] -= bytes;
  }
  held.pop_back();
  for (size_t i = 1; i < held.size(); ++i) held[i] += held[i - 1];
  return held;
}

// What of the blocks from between these times stays, by layer and operator: the most.
const MemoryBlock* LargestLeft(const TraceModel& model, const DeviceMemory& device, int64_t from_ns, int64_t to_ns) {
  std::map<std::pair<LayerIndex, NameIndex>, std::pair<int64_t, const MemoryBlock*>> left;
  for (const MemoryBlock& block : device.blocks) {
    const MemoryEvent& born = model.memory[block.born];
    if (born.time_ns < from_ns || born.time_ns > to_ns) continue;
    if (block.died != SIZE_MAX && model.memory[block.died].time_ns <= to_ns) continue;
    auto& [bytes, one] = left[{block.layer, block.op}];
    bytes += born.bytes;
    one = &block;
  }
  const auto most = MostOf(left, [](const auto& of) { return of.first; });
  return most == left.end() ? nullptr : most->second.second;
}

// "aten::linear of fc1"; empty: not known.
std::string AllocatorOf(const StepFacts& facts, const MemoryBlock& block) {
  const std::string op = block.op == kNone ? "" : std::string(WithoutEngine(facts.model().names[block.op]));
  const std::string layer = block.layer == kNone ? "" : facts.attribution().NameOf(block.layer);
  return absl::StrCat(op, op.empty() || layer.empty() ? "" : " of ", layer);
}

// Whether PyTorch records a graph for gradients that nothing computes. Where gradients are enabled, operators have the number
// of the next node: it grows only where nodes are made.
bool RecordsUnusedGraph(const StepFacts& facts) {
  if (facts.steps().kind != StepKind::kInference) return false;
  const ScopeColumns& scopes = facts.model().scopes;
  int64_t first = INT64_MAX, last = -1;
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    if (!facts.IsOp(scope) || scopes.link[scope] < 0 || facts.StepOfScope(scope) == kNone) continue;
    first = std::min(first, scopes.link[scope]);
    last = std::max(last, scopes.link[scope]);
  }
  return first < last;
}

// Of pages that the process keeps; those that it gives back are page-faults'.
double CostOfNewPagesNs(const StepFacts& facts) {
  const PageFaults& faults = facts.load().faults;
  if (!facts.load().is_known) return 0;
  const double pages = std::min(faults.count, std::max(faults.resident_bytes, 0.0) / kPageBytes);
  return std::min(pages * faults.cost_ns, faults.system_ns);
}

}  // namespace

std::vector<Finding> FindGrowingMemory(const StepFacts& facts) {
  std::vector<Finding> findings;
  for (const DeviceMemory& device : MemoryOfDevices(facts)) {
    const auto& tracks = facts.options().analysis->steps();
    const auto track = absl::c_find_if(tracks, [&](const StepTrack& other) { return other.process == device.process; });
    if (track == tracks.end() || track->steps.size() < kSettlingSteps) continue;
    absl::Span<const Step> steps = absl::MakeConstSpan(track->steps).subspan(kSettlingSteps);
    if (IsMemoryOfBeginning(facts.model())) {
      const int64_t last_ns = LastEventNs(facts.model(), device.process);  // the beginning is known
      const auto is_known = [&](const Step& step) { return step.end_ns <= last_ns; };
      steps =
          steps.first(static_cast<size_t>(std::partition_point(steps.begin(), steps.end(), is_known) - steps.begin()));
    }
    if (steps.size() < kLeastGrowingSteps) continue;
    const std::vector<int64_t> held = HeldAfter(facts.model(), device, steps);
    std::vector<int64_t> growths;
    for (size_t step = kGrowthSteps; step < held.size(); ++step)
      growths.push_back(held[step] - held[step - kGrowthSteps]);
    const auto grown = absl::c_count_if(growths, [](int64_t bytes) { return bytes > 0; });
    const int64_t growth = held.back() - held.front();
    // Not a few large blocks that came late, beside a few bytes in each step.
    if (2 * QuartilesOf(growths).median * std::ssize(growths) < growth * int64_t{kGrowthSteps}) continue;
    const auto least =
        std::max(static_cast<double>(kLeastGrowth), kLeastGrowthPart * static_cast<double>(device.peak_bytes));
    if (static_cast<double>(growth) < least) continue;
    if (static_cast<double>(grown) < kOfTheSteps * static_cast<double>(growths.size())) continue;
    const MemoryBlock* const left = LargestLeft(facts.model(), device, steps.front().end_ns, steps.back().end_ns);
    const std::string where = left == nullptr ? "" : AllocatorOf(facts, *left);
    Finding finding = MemoryFinding(
        growth, where, left == nullptr ? "" : facts.LineOfStack(left->stack),
        absl::StrFormat("Memory on %s grows by %s a %s, from %s to %s over %d of them%s.",
                        MemoryDeviceName(device.device), Bytes(growth / static_cast<int64_t>(held.size() - 1)),
                        facts.StepNoun(), Bytes(held.front()), Bytes(held.back()), held.size(),
                        where.empty() ? "" : absl::StrCat("; most of what stays was allocated by ", where)),
        "table memory: rows that outlive their step",
        RecordsUnusedGraph(facts)
            ? "A result that is kept keeps the graph that PyTorch records for its gradient, and nothing computes "
              "gradients here: put torch.inference_mode() or torch.no_grad() around the requests."
            : "Look for a list, a dictionary or an attribute that keeps tensors of each step. A loss that is kept "
              "keeps its whole graph: keep loss.item() or loss.detach().");
    const double pages_ns = device.device == 0 ? CostOfNewPagesNs(facts) : 0;
    if (facts.IsAtLeast(pages_ns, kNewPagesPercent)) {
      finding.is_information = false;
      finding.bytes = 0;
      finding.gain_ns = pages_ns;
      finding.basis = GainBasis::kComputed;
      finding.confidence = Confidence::kMedium;
      absl::StrAppend(&finding.sentence, " The kernel's new pages for it take ", facts.PartOfStep(pages_ns), ".");
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

std::vector<Finding> FindKeptActivations(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  std::vector<Finding> findings;
  for (const DeviceMemory& device : MemoryOfDevices(facts)) {
    const auto gpu = absl::c_find_if(model.gpu_devices, [&](const GpuDevice& other) {
      return other.process == device.process && other.ordinal + 1 == device.device;
    });
    const double memory = gpu == model.gpu_devices.end() ? 0 : static_cast<double>(gpu->memory_bytes);
    const auto peak = static_cast<double>(device.peak_bytes);
    if (device.peak_bytes < kLargePeak && (memory == 0 || peak < kScarce * memory)) continue;
    for (const auto& [layer, sum] : KeptByLayer(model, device)) {
      const int64_t bytes = sum.at_peak_bytes;
      if (static_cast<double>(bytes) < kMostOfPeak * peak) continue;
      const std::string name = facts.attribution().NameOf(layer);
      findings.push_back(MemoryFinding(
          bytes, name, facts.attribution().layers[layer].line,
          absl::StrCat(name, " keeps ", Bytes(bytes), " for the backward pass, of a peak of ", Bytes(device.peak_bytes),
                       " on ", MemoryDeviceName(device.device), "."),
          "table memory: its rows kept for backward",
          "Checkpoint it (torch.utils.checkpoint): its forward pass runs twice, its activations need not be kept."));
    }
  }
  return findings;
}

std::vector<Finding> FindFragmentedMemory(const StepFacts& facts) {
  std::vector<Finding> findings;
  for (const DeviceMemory& device : MemoryOfDevices(facts)) {
    const int64_t unused = device.peak_reserved_bytes - device.peak_bytes;
    if (unused < kLargePeak ||
        static_cast<double>(unused) < kUnusedPart * static_cast<double>(device.peak_reserved_bytes))
      continue;
    findings.push_back(MemoryFinding(
        unused, "", "",
        absl::StrCat("When most memory is held on ", MemoryDeviceName(device.device), ", ", Bytes(device.peak_bytes),
                     ", PyTorch has reserved ", Bytes(device.peak_reserved_bytes),
                     ": the rest is kept for later, or in pieces that do not fit."),
        "table memory: reserved, not used",
        "If memory runs out: PYTORCH_ALLOC_CONF=expandable_segments:True; or one step at the largest size before the "
        "others."));
  }
  return findings;
}

namespace {

constexpr double kPageFaultsPercent = 3;
constexpr int64_t kLeastMapped = 128 << 10;  // glibc's threshold, at first
constexpr double kLargePart = 0.5;           // of the pages that are given back
// A setting with this in its value says how memory is kept.
struct Setting {
  const char* name;
  const char* value;
};
constexpr std::array<Setting, 7> kOfAllocators = {{{"MALLOC_MMAP_MAX_", ""},
                                                   {"MALLOC_MMAP_THRESHOLD_", ""},
                                                   {"MALLOC_TRIM_THRESHOLD_", ""},
                                                   {"MALLOC_TOP_PAD_", ""},
                                                   {"MALLOC_CONF", ""},  // jemalloc's
                                                   {"GLIBC_TUNABLES", "glibc.malloc."},
                                                   {"LD_PRELOAD", "malloc"}}};

bool AllocatorIsSet(const StepFacts& facts) {
  for (const ProcessInfo& process : facts.model().processes) {
    for (const auto& [name, value] : process.settings) {
      for (const Setting& known : kOfAllocators) {
        if (name == known.name && absl::StrContains(value, known.value)) return true;
      }
    }
  }
  return false;
}

// Samples are of the first thread. Steps found by a framework's scopes may have parts in several threads (kNone).
bool FirstThreadsRunTheSteps(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  return absl::c_all_of(facts.steps().tracks, [&](const StepTrack& track) {
    return track.thread == kNone || model.threads[track.thread].tid == model.processes[track.process].pid;
  });
}

double PagesGivenBack(const PageFaults& faults) {
  return std::max(faults.count - std::max(faults.resident_bytes, 0.0) / kPageBytes, 0.0);
}

double CostNs(const PageFaults& faults) { return std::min(PagesGivenBack(faults) * faults.cost_ns, faults.system_ns); }

// What is allocated in blocks that malloc may give back, by layer: the most.
struct LargeBlocks {
  double bytes = 0;  // in a step
  double all_bytes = 0;
  const MemoryBlock* first = nullptr;
};

LargeBlocks MostOfLargeBlocks(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  std::map<LayerIndex, LargeBlocks> by_layer;
  for (const DeviceMemory& device : MemoryOfDevices(facts)) {
    for (const MemoryBlock& block : device.blocks) {
      const MemoryEvent& born = model.memory[block.born];
      if (device.device != 0 || born.bytes < kLeastMapped) continue;
      if (facts.StepAt(device.process, born.time_ns) == kNone) continue;
      LargeBlocks& sum = by_layer[block.layer];
      sum.bytes += static_cast<double>(born.bytes) / facts.count();
      if (sum.first == nullptr) sum.first = &block;
    }
  }
  if (by_layer.empty()) return {};
  LargeBlocks most = MostOf(by_layer, &LargeBlocks::bytes)->second;
  for (const auto& [layer, sum] : by_layer) most.all_bytes += sum.bytes;
  return most;
}

}  // namespace

std::string PageFaultsMissing(const StepFacts& facts) {
  const PageFaults& faults = facts.load().faults;
  if (facts.HasGpuTimes()) return "";  // then only what a GPU waits for counts: gpu-idle
  if (!facts.HasSteps()) return "no repeating step was found";
  if (!facts.load().is_known || faults.cost_ns == 0) return "page faults were not sampled";
  if (!facts.IsAtLeast(CostNs(faults), kPageFaultsPercent)) return "";
  if (!FirstThreadsRunTheSteps(facts)) return "page faults were sampled in a thread that does not run the steps";
  return facts.counted().preparer() == Preparer::kWorkers
             ? "the batches of loader workers lie in shared memory, whose pages are counted, too"
             : "";
}

std::vector<Finding> FindPageFaults(const StepFacts& facts) {
  const PageFaults& faults = facts.load().faults;
  const double ns = CostNs(faults);
  if (facts.HasGpuTimes() || !PageFaultsMissing(facts).empty()) return {};
  if (!facts.IsAtLeast(ns, kPageFaultsPercent) || AllocatorIsSet(facts)) return {};
  const LargeBlocks most = MostOfLargeBlocks(facts);
  const double least_bytes = kLargePart * std::max(PagesGivenBack(faults) * kPageBytes, most.all_bytes);
  Finding finding = {
      .sentence = absl::StrFormat(
          "Memory is requested from the kernel and returned in each step: %.0f page faults (%s) take %s.",
          PagesGivenBack(faults), HumanCell(static_cast<int64_t>(PagesGivenBack(faults) * kPageBytes), "bytes"),
          facts.PartOfStep(ns)),
      .gain_ns = ns,
      .basis = GainBasis::kComputed,
      .evidence = absl::StrFormat(
          "faults of the main thread x %s, measured for a page on this machine; its time in the kernel is %s",
          HumanTime(faults.cost_ns), HumanTime(faults.system_ns)),
      .advice =
          "Let malloc keep it: MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=17179869184 (glibc), or LD_PRELOAD of "
          "jemalloc or tcmalloc; or reuse large temporaries (out=, in-place operations)."};
  if (most.first != nullptr && most.first->layer != kNone && most.bytes >= least_bytes) {
    finding.where = facts.attribution().NameOf(most.first->layer);
    finding.line = facts.LineOfStack(most.first->stack);
    absl::StrAppend(&finding.sentence, " ", finding.where, " allocates ",
                    HumanCell(static_cast<int64_t>(most.bytes), "bytes"), " a step in blocks of 128 KiB and more.");
  }
  return {finding};
}

}  // namespace dlhook::analyzer::findings
