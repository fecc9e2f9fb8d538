// Table `capabilities`: which libraries were seen and how, what could not be seen, and what to do about it. A row
// applies to `processes` of the run's processes.
// One line per capability and reason of loss; those of taps are in preload/format/taps.h.

#include "absl/strings/escaping.h"
#include "analyzer/io/byte_source.h"
#include "analyzer/model/release.h"
#include "analyzer/model/scope_looks.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/tables.h"
#include "preload/format/hook_table.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline tables {
namespace {

struct Fact {
  std::string kind;
  std::string object;
  std::string name;
  std::string state;
  std::string note = {}, path = {}, build_id = {};
  auto operator<=>(const Fact&) const = default;
};

struct KnownFact : Fact {
  explicit KnownFact(Fact fact) : Fact(std::move(fact)) {}
  int64_t processes = 0;
  int64_t records = 0;
  bool is_known = true;
};

TypedColumns<KnownFact> CapabilitiesColumns() {
  return {
      {TextColumn("kind"),
       "library: its functions were called through dlhook; caller: it called them; tap: it reports its own work; "
       "counter; loss.",
       &KnownFact::kind},
      {TextColumn("object"), "The file that holds the code; empty: of the process as a whole.",
       Known(&KnownFact::object)},
      {TextColumn("name"), "Of a library its kind, of a tap or loss its name.", Known(&KnownFact::name)},
      {TextColumn("state"), "hooked, on, off (the user's choice), refused (dlhook's), lost (was on), absent, lost.",
       &KnownFact::state},
      {Detail(NumberColumn("records")),
       "Calls, scopes or GPU work that it recorded; those lost. Empty where several objects of a process share them.",
       [](const KnownFact& row) { return row.is_known ? Cell(row.records) : Cell(); }},
      {Detail(NumberColumn("processes")), "Processes of the run in which this is the case.", &KnownFact::processes},
      {TextColumn("note"), "Why, and what to do.", Known(&KnownFact::note)},
      {Detail(TextColumn("path")), "Of the object.", Known(&KnownFact::path)},
      {Detail(TextColumn("build_id")), "Of the object, in hexadecimal digits; empty: it has none.",
       Known(&KnownFact::build_id)},
  };
}

std::string FamilyOfHook(const std::string& function) {
  const int hook = FindHook(function.c_str());
  return hook < 0 ? "" : kFamilyNames[kHookNames[hook].family];
}

std::string SourceOfOp(const Op& op) {
  const Tap* tap = TapOfSource(op.time_source);
  return tap != nullptr ? tap->capability : absl::StrCat("hook:", op.family);
}

// Number of records of each process by source: "hook:blas", "onednn-tap" … Aggregated by op and kind first: there are
// far fewer of these than calls.
std::vector<std::map<std::string, int64_t>> CountReported(const TraceModel& model) {
  std::vector<std::vector<int64_t>> calls(model.processes.size(), std::vector<int64_t>(model.ops.size()));
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    ++calls[model.threads[model.calls.thread[call]].process][model.calls.op[call]];
  }
  for (const AggregateRow& row : model.aggregates) calls[model.threads[row.thread].process][row.op] += row.count;
  std::vector<std::array<int64_t, std::size(kScopeKinds)>> scopes(model.processes.size());
  for (ThreadIndex thread = 0; thread < model.threads.size(); ++thread) {
    const std::vector<int64_t> counts = CountLooks(model.scopes, thread);
    for (uint32_t look = 0; look < counts.size(); ++look) {
      const ScopeKindFacts& facts = FactsOf(model.scopes.look.values()[look].kind);
      scopes[model.threads[thread].process][&facts - kScopeKinds] += counts[look];
    }
  }
  std::vector<std::map<std::string, int64_t>> reported(model.processes.size());
  for (ProcessIndex process = 0; process < model.processes.size(); ++process) {
    for (OpIndex op = 0; op < model.ops.size(); ++op) {
      if (calls[process][op] > 0) reported[process][SourceOfOp(model.ops[op])] += calls[process][op];
    }
    for (size_t kind = 0; kind < std::size(kScopeKinds); ++kind) {
      const int64_t count = scopes[process][kind];
      if (count > 0) reported[process][kScopeKinds[kind].tap->capability] += count;
    }
  }
  for (const GpuDeviceIndex device : model.gpu.device) ++reported[model.gpu_devices[device].process]["gpu-time"];
  return reported;
}

class Facts {
 public:
  explicit Facts(const TraceModel& model) : reported_(CountReported(model)) {
    for (ProcessIndex i = 0; i < model.processes.size(); ++i) AddProcess(i, model.processes[i]);
  }

  const std::map<Fact, KnownFact>& all() const { return facts_; }

 private:
  void Add(const Fact& fact, int64_t records, bool is_known) {
    KnownFact& sum = facts_.try_emplace(fact, fact).first->second;
    ++sum.processes;
    sum.records += records;
    sum.is_known = sum.is_known && is_known;
  }

  void AddProcess(ProcessIndex index, const ProcessInfo& process) {
    std::map<std::string, int> sharers;  // how many objects produce the same kind of records
    for (const Mapping& mapping : process.mappings) {
      if (mapping.role == MappingRole::kLibrary) ++sharers[absl::StrCat("hook:", FamilyOfHook(mapping.detail))];
    }
    for (const Capability& capability : process.capabilities) {
      if (capability.state == CapabilityState::kOn) ++sharers[capability.name];
    }
    for (const Mapping& mapping : process.mappings) AddMapping(index, mapping, sharers);
    for (const Capability& capability : process.capabilities)
      AddCapability(index, capability, sharers, SeesLibraries(process));
    for (const Loss& loss : process.losses) AddLoss(loss);
  }

  int64_t ToldBy(ProcessIndex process, const std::string& source) const {
    const auto found = reported_[process].find(source);
    return found == reported_[process].end() ? 0 : found->second;
  }

  void AddMapping(ProcessIndex process, const Mapping& mapping, std::map<std::string, int>& sharers) {
    const bool is_library = mapping.role == MappingRole::kLibrary;
    if (!is_library && mapping.role != MappingRole::kCaller) return;
    const std::string family = FamilyOfHook(mapping.detail);
    const std::string source = absl::StrCat("hook:", family);
    Fact fact = {.kind = is_library ? "library" : "caller",
                 .object = BaseName(mapping.path),
                 .name = family,
                 .state = "hooked",
                 .path = mapping.path,
                 .build_id = absl::BytesToHexString(mapping.build_id)};
    if (is_library) fact.note = absl::StrCat("first called: ", mapping.detail);
    Add(fact, is_library ? ToldBy(process, source) : 0, is_library && !family.empty() && sharers[source] == 1);
  }

  void AddCapability(ProcessIndex process, const Capability& capability, std::map<std::string, int>& sharers,
                     bool is_own) {
    std::vector<std::string> words;
    if (!capability.reason.empty()) words.push_back(capability.reason);
    if (const std::string advice = AdviceFor(capability); is_own && !advice.empty()) words.push_back(advice);
    const bool is_counter = IsOfCounters(capability);
    const Fact fact = {.kind = is_counter ? "counter" : "tap",
                       .object = BaseName(capability.object),
                       .name = capability.name,
                       .state = EnumName(capability.state),
                       .note = absl::StrJoin(words, ". ")};
    const int sharing = sharers[capability.name];
    const bool tells = capability.name != "python-frames" && capability.name != "module-names" && !is_counter;
    const bool is_on = capability.state == CapabilityState::kOn;
    Add(fact, is_on ? ToldBy(process, capability.name) : 0, tells && is_on && sharing == 1);
  }

  void AddLoss(const Loss& loss) {
    std::vector<std::string> words;
    if (!CountsCalls(loss.reason)) words.emplace_back(LossNoun(loss.reason, false));
    if (!loss.detail.empty()) words.push_back(loss.detail);
    if (const std::string advice = AdviceFor(loss); !advice.empty()) words.push_back(advice);
    const Fact fact = {.kind = "loss",
                       .object = "",
                       .name = EnumName(loss.reason),
                       .state = "lost",
                       .note = absl::StrJoin(words, ". ")};
    Add(fact, static_cast<int64_t>(loss.calls), true);
  }

  const std::vector<std::map<std::string, int64_t>> reported_;  // by process
  std::map<Fact, KnownFact> facts_;
};

// Of capabilities that are no tap's.
constexpr std::pair<absl::string_view, TapAdvice> kAdvice[] = {
    {"python-frames",
     {"Lines of the program and names of modules are missing; CPython 3.9 to 3.15 is known.",
      "Leave DLHOOK_PYTHON as it is by default."}},
    {"module-names", {"Layers are then named by class and line.", ""}},
    {"native-stacks",
     {"Call sites are then known only by Python lines and framework ops.",
      "Record with DLHOOK_STACKS=all, or native."}},
    {"compiled-code", {"Compiled code then lacks names, modules or reasons, at least in part.", ""}},
    {"samples", {"Code without hooks then appears only as sampled time, or in part.", ""}},
    {"gpu-time",
     {"Calls then have host times only; dlhook doctor says what this machine supports.",
      "Leave DLHOOK_GPU as it is by default."}},
};

constexpr std::pair<LossReason, absl::string_view> kAgainstLoss[] = {
    {LossReason::kRingFull,
     "Make the rings larger (DLHOOK_RING_KIB, DLHOOK_GROWTH_KIB) or record less (DLHOOK_CAPTURE)."},
    {LossReason::kNoRing, "Make the rings larger (DLHOOK_RING_KIB); at most 232 threads are recorded at once."},
    {LossReason::kOutputFull,
     "Free space where the run is, choose another place (-o, DLHOOK_OUT), or limit it (DLHOOK_MAX_BYTES)."},
    {LossReason::kOutputGone, "Do not change the run's folder while the program runs."},
    {LossReason::kDlsymPlainPointer,
     "Only 2048 functions looked up by dlsym can be distinguished; CUDA driver functions with arguments newer than "
     "this dlhook are passed through."},
    {LossReason::kCollectorGone, "Keep dlhook run alive while its program runs."},
    {LossReason::kReadingsDropped,
     "Read counters less often (DLHOOK_COUNTERS_AT=time, DLHOOK_COUNTERS_MS), or make the rings larger "
     "(DLHOOK_RING_KIB)."},
    {LossReason::kSamplesDropped, "Take fewer samples (--sample=HZ), or make the rings larger (DLHOOK_RING_KIB)."},
    {LossReason::kGpuBuffersFull, "Make CUPTI's buffers larger (DLHOOK_GPU_BUFFERS_MIB)."},
    {LossReason::kGpuRecordsDropped, "Make the rings larger (DLHOOK_RING_KIB)."},
    {LossReason::kTraceLimit, "Raise DLHOOK_MAX_BYTES."},
    {LossReason::kShapesDropped, "Raise DLHOOK_MAX_BYTES."},
    {LossReason::kProfilesDropped, "Raise DLHOOK_MAX_BYTES."},
    {LossReason::kBadRecord, "dlhook's memory was overwritten: please report it."},
};

TapAdvice AdviceOn(absl::string_view capability) {
  const auto* const tap = absl::c_find_if(kTaps, [&](const Tap* one) { return one->capability == capability; });
  if (tap != std::end(kTaps)) return (*tap)->advice;
  const auto* const other = absl::c_find_if(kAdvice, [&](const auto& one) { return one.first == capability; });
  return other == std::end(kAdvice) ? TapAdvice{"", ""} : other->second;
}

}  // namespace

absl::StatusOr<Table> CapabilitiesTable(const TraceModel& model, const TableOptions&) {
  const Facts facts(model);
  std::vector<const KnownFact*> order;
  for (const char* kind : {"library", "tap", "counter", "loss", "caller"}) {
    for (const auto& [key, fact] : facts.all()) {
      if (fact.kind == kind) order.push_back(&fact);
    }
  }
  Table table = NewTable("capabilities", "What was observed, how, and what could not be", CapabilitiesColumns(), order);
  if (table.rows.empty()) return table;
  table.Note(
      "Libraries that this run did not use are not listed: dlhook doctor -- PROGRAM inspects every loaded library.");
  return table;
}

bool IsOfCounters(const Capability& capability) {
  return capability.name == "counters" || absl::StartsWith(capability.name, kCounterPrefix);
}

std::string AdviceFor(const Capability& capability) {
  if (IsOfCounters(capability)) return IsMissing(capability) ? "See dlhook counters." : "";
  const TapAdvice advice = AdviceOn(capability.name);
  const bool is_hopeless =
      advice.hopeless_object != nullptr && absl::StartsWith(capability.object, advice.hopeless_object);
  switch (capability.state) {
    case CapabilityState::kOff:
      return advice.off;
    case CapabilityState::kRefused:
      if (is_hopeless) return advice.hopeless;
      if (advice.refused != nullptr) return advice.refused;
      [[fallthrough]];
    case CapabilityState::kLost:
    case CapabilityState::kAbsent:
      return advice.missing;
    default:
      return "";
  }
}

std::string AdviceFor(const Loss& loss) {
  const auto found = absl::c_find_if(kAgainstLoss, [&](const auto& known) { return known.first == loss.reason; });
  return found == std::end(kAgainstLoss) ? "" : std::string(found->second);
}

bool IsMissing(const Capability& capability) {
  return capability.state == CapabilityState::kRefused || capability.state == CapabilityState::kLost;
}

}  // namespace dlhook::analyzer::tables
