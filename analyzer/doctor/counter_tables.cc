// Tables of the trials.
#include "analyzer/doctor/counter_trials.h"
#include "analyzer/tables/columns.h"
#include "analyzer/time/derived_metrics.h"

namespace dlhook::analyzer::inline doctor {
namespace {

const char* SourceName(CounterSource source) {
  if (source == CounterSource::kRusage) return "getrusage";
  if (source == CounterSource::kPerfRead) return "perf_event";
  return source == CounterSource::kPapi ? "PAPI" : "";
}

std::string ProcessorText(const Processor& processor) {
  if (processor.vendor[0] == '\0') return "not an x86 processor";
  return absl::StrFormat("%s family %u model %u: %s%s", processor.vendor, processor.family, processor.model,
                         processor.core_name, processor.has_smt ? ", two threads a core" : "");
}

std::string ParanoidText(const CountingMachine& machine) {
  if (!machine.paranoid.has_value()) return "the kernel has no perf_event";
  const int level = *machine.paranoid;
  const char* meaning = level <= 0   ? "users may count everything"
                        : level == 1 ? "users may count their own threads"
                        : level == 2 ? "users may count their own threads in user mode"
                                     : "users may count nothing";
  return absl::StrCat(level, ": ", meaning, machine.may_count_all ? "; this user may count everything" : "");
}

std::string ParanoidAdvice(const CountingMachine& machine) {
  const bool is_strict = machine.paranoid.has_value() && *machine.paranoid >= 2 && !machine.may_count_all;
  if (!is_strict) return "";
  return absl::StrCat("sysctl kernel.perf_event_paranoid=", *machine.paranoid > 2
                                                                ? "2, or 1 for what happens in the kernel, too"
                                                                : "1 for what happens in the kernel, too");
}

std::string PapiText(const PapiTrials& papi) {
  if (papi.library.empty()) return "not installed, or not needed here";
  if (papi.version.empty() || !papi.trouble.empty()) return absl::StrCat(papi.library, ": ", papi.trouble);
  return absl::StrCat(papi.library, ", version ", papi.version, " (papi_avail lists its presets)");
}

std::string NamesOf(const std::vector<CounterTrial>& counters, bool works) {
  std::vector<absl::string_view> names;
  for (const CounterTrial& trial : counters) {
    if (trial.works() == works) names.push_back(trial.spec.name);
  }
  return absl::StrJoin(names, ",");
}

// Each reason once, with the number of counters concerned.
std::string Reasons(const std::vector<CounterTrial>& counters, const std::vector<CounterRefusal>& refused) {
  std::vector<std::string> reasons;
  for (const CounterTrial& trial : counters) {
    if (!trial.works() && !absl::c_linear_search(reasons, trial.reason)) reasons.push_back(trial.reason);
  }
  for (const CounterRefusal& refusal : refused) reasons.emplace_back(refusal.reason);
  return absl::StrJoin(reasons, "; ");
}

std::string Verdict(const SetTrial& trial) {
  const auto works = absl::c_count_if(trial.counters, [](const CounterTrial& one) { return one.works(); });
  if (works == 0) return "no";
  return works == static_cast<ptrdiff_t>(trial.counters.size()) ? "yes" : "in part";
}

std::string ScopeOf(const CounterTrial& trial) {
  if (!trial.works()) return "";
  if (trial.spec.exclude_user) return "kernel";
  return trial.user_only || trial.spec.exclude_kernel ? "user" : "user, kernel";
}

// Each piece of advice once, below the table.
template <typename Item>
void AddAdvice(const std::vector<Item>& items, std::string Item::*advice, Table* table) {
  std::set<std::string> told;
  for (const Item& item : items) {
    if (!(item.*advice).empty() && told.insert(item.*advice).second) {
      table->notes.push_back(absl::StrCat("To count more: ", item.*advice));
    }
  }
}

// A row of the table `machine`.
struct MachineFact {
  std::string fact, value, advice;
};

std::string PmuText(const CountingMachine& machine) {
  if (!machine.pmus.empty()) return absl::StrCat("there: ", absl::StrJoin(machine.pmus, ", "));
  return machine.is_virtual ? "none: the virtual machine has no PMU"
                            : "none: no PMU is in /sys/bus/event_source/devices";
}

}  // namespace

Table MachineTable(const CountingMachine& machine, const PapiTrials& papi) {
  std::vector<MachineFact> facts;
  const auto add = [&](const char* fact, const std::string& value, const std::string& advice = "") {
    facts.push_back({fact, value, advice});
  };
  add("processor", ProcessorText(machine.processor));
  add("virtual machine", machine.is_virtual ? "yes" : "no");
  add("processor's counters", PmuText(machine), PmuAdvice(machine));
  add("kernel.perf_event_paranoid", ParanoidText(machine), ParanoidAdvice(machine));
  add("PAPI", PapiText(papi));
  const TypedColumns<MachineFact> columns = {
      {TextColumn("fact"), "What it is about.", &MachineFact::fact},
      {Detail(TextColumn("advice")), "What would make more counters available; empty: nothing.",
       Known(&MachineFact::advice)},
      {TextColumn("value"), "What was found.", &MachineFact::value}};
  Table table = NewTable("machine", "What counting depends on", columns, facts);
  AddAdvice(facts, &MachineFact::advice, &table);
  return table;
}

Table SetsTable(const CountingReport& report) {
  const TypedColumns<SetTrial> columns = {
      {TextColumn("set"), "Its name in DLHOOK_COUNTERS.",
       [](const SetTrial& trial) { return std::string(trial.set.name); }},
      {TextColumn("works"), "yes; no; in part: some of its counters.", &Verdict},
      {IntegerColumn("groups", "", Better::kLower),
       "Into how many groups the processor has to divide it: more than one take turns, and counts are scaled. Empty: "
       "the processor's counters are not needed, or not there.",
       [](const SetTrial& trial) { return trial.groups == 0 ? Cell() : Cell(static_cast<int64_t>(trial.groups)); }},
      {TextColumn("counters"), "Those that work here.",
       [](const SetTrial& trial) { return KnownText(NamesOf(trial.counters, true)); }},
      {Detail(TextColumn("missing")), "Those that don't.",
       [](const SetTrial& trial) { return KnownText(NamesOf(trial.counters, false)); }},
      {Detail(TextColumn("tells")), "What it is for.",
       [](const SetTrial& trial) { return std::string(trial.set.meaning); }},
      {TextColumn("why_not"), "Why counters of the set are not available.",
       [](const SetTrial& trial) { return KnownText(Reasons(trial.counters, trial.refused)); }},
  };
  return NewTable("sets", "Sets of counters", columns, report.sets);
}

Table CountersTable(const CountingReport& report) {
  std::vector<CounterTrial> rows = report.counters;
  for (const CounterRefusal& refusal : report.refused) {
    CounterTrial& row = rows.emplace_back();
    absl::SNPrintF(row.spec.name, sizeof row.spec.name, "%s", refusal.name);
    row.reason = refusal.reason;
  }
  const TypedColumns<CounterTrial> columns = {
      {TextColumn("counter"), "Its name in DLHOOK_COUNTERS.",
       [](const CounterTrial& trial) { return std::string(trial.spec.name); }},
      {TextColumn("works"), "Whether it is available (tested by opening it).",
       [](const CounterTrial& trial) { return trial.works() ? "yes" : "no"; }},
      {TextColumn("source"), "The cheapest source: getrusage, perf_event (where the kernel allows it by rdpmc), PAPI.",
       [](const CounterTrial& trial) { return KnownText(trial.works() ? SourceName(trial.source) : ""); }},
      {TextColumn("counts_in"), "user, kernel: the modes in which it counts.",
       [](const CounterTrial& trial) { return KnownText(ScopeOf(trial)); }},
      {Detail(TextColumn("meaning")), "What it counts.",
       [](const CounterTrial& trial) {
         const CounterLine* const known = FindCounterLine(trial.spec.name);
         return KnownText(known != nullptr ? known->meaning : "");
       }},
      {Detail(TextColumn("advice")), "What to do about it.", Known(&CounterTrial::advice)},
      {TextColumn("why_not"), "Why it is not available.", Known(&CounterTrial::reason)},
  };
  Table table = NewTable("counters", "Counters", columns, rows);
  AddAdvice(rows, &CounterTrial::advice, &table);
  return table;
}

Table MetricsTable(const std::vector<CounterTrial>& counters) {
  const TypedColumns<DerivedMetric> columns = {
      {TextColumn("metric"), "Its column in the table `counters` of a report.",
       [](const DerivedMetric& metric) { return std::string(metric.name); }},
      {TextColumn("unit"), "Of its values.",
       [](const DerivedMetric& metric) { return KnownText(std::string(metric.unit)); }},
      {Detail(TextColumn("needs")), "Its counters; wall-share: wall time.",
       [](const DerivedMetric& metric) { return absl::StrJoin(metric.needs, ", "); }},
      {Detail(TextColumn("source")), "Where the formula comes from.",
       [](const DerivedMetric& metric) { return KnownText(std::string(metric.source)); }},
      {TextColumn("meaning"), "What it is.",
       [](const DerivedMetric& metric) { return std::string(metric.explanation); }},
  };
  Table table = NewTable("metrics", "Metrics derived from these counters", columns);
  std::set<std::string> names;
  for (const CounterTrial& trial : counters) names.insert(std::string(absl::StripSuffix(trial.spec.name, ":u")));
  std::set<absl::string_view> told;
  for (const DerivedMetric& metric : DerivedMetrics()) {
    const auto has = [&](absl::string_view name) -> std::optional<double> {
      if (name == kWallShare || names.contains(std::string(name))) return 1;
      return std::nullopt;
    };
    if (!metric.HasInputs(has) || !told.insert(metric.name).second) continue;
    AddRow(columns, metric, &table);
  }
  return table;
}

Finding CountingFinding(const CountingMachine& machine, const std::vector<SetTrial>& sets) {
  std::vector<std::string> works, fails;
  std::string reason;
  for (const SetTrial& trial : sets) {
    const std::string verdict = Verdict(trial);
    (verdict == "no" ? fails : works)
        .push_back(verdict == "in part" ? absl::StrCat(trial.set.name, " (in part)") : trial.set.name);
    if (verdict == "no" && reason.empty()) reason = Reasons(trial.counters, trial.refused);
  }
  if (machine.pmus.empty())
    reason = machine.is_virtual ? "the virtual machine shows no PMU" : "the machine shows no PMU";
  std::string text = works.empty() ? "none of the sets of counters works"
                                   : absl::StrCat("sets that work: ", absl::StrJoin(works, ", "));
  if (!fails.empty()) absl::StrAppend(&text, "; that don't: ", absl::StrJoin(fails, ", "), " (", reason, ")");
  return {"counters", fails.empty() ? Level::kOk : Level::kNote, "", absl::StrCat(text, "."),
          fails.empty() ? "" : "dlhook counters gives the reason for each counter, and what to do."};
}

}  // namespace dlhook::analyzer::doctor
