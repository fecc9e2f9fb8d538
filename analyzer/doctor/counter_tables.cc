// Tables of what was tried.
#include "analyzer/doctor/counter_tables.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "analyzer/tables/columns.h"
#include "analyzer/time/derived_metrics.h"

namespace dlhook::analyzer::inline doctor {
namespace {

const char* SourceName(CounterSource source) {
  switch (source) {
    case CounterSource::kRusage:
      return "getrusage";
    case CounterSource::kProc:
      return "/proc";
    case CounterSource::kPerfRead:
      return "perf_event";
    case CounterSource::kPerfRdpmc:
      return "rdpmc";
    case CounterSource::kPapi:
      return "PAPI";
    default:
      return "";
  }
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

std::string RdpmcText(const CountingMachine& machine) {
  if (!machine.rdpmc.has_value()) return "no such instruction here, or no counters";
  return *machine.rdpmc == 0 ? "forbidden: a reading is a system call" : "allowed: a reading needs no system call";
}

std::string WatchdogText(const CountingMachine& machine) {
  if (machine.pmus.empty()) return "needs no counter here";
  return machine.watchdog.value_or(0) == 0 ? "off" : "on: it takes one of the processor's counters";
}

std::string PapiText(const PapiTrials& papi) {
  if (papi.library.empty()) return "not installed, or not needed here";
  if (papi.version.empty() || !papi.trouble.empty()) return absl::StrCat(papi.library, ": ", papi.trouble);
  const std::string name = absl::StrCat(papi.library, ", version ", papi.version);
  if (papi.events.empty()) return absl::StrCat(name, ": none of its presets is there (papi_component_avail says why)");
  const auto works =
      std::count_if(papi.events.begin(), papi.events.end(), [](const PapiEvent& event) { return event.works; });
  return absl::StrCat(name, ": ", works, " of the ", papi.events.size(), " events that were tried can be counted");
}

Cell TextOrUnknown(const std::string& text) { return text.empty() ? Cell() : Cell(text); }

std::string NamesOf(const std::vector<CounterTrial>& counters, bool works) {
  std::vector<absl::string_view> names;
  for (const CounterTrial& trial : counters) {
    if (trial.works == works) names.push_back(trial.spec.name);
  }
  return absl::StrJoin(names, ",");
}

// Each reason once, with how many it keeps from working.
std::string Reasons(const std::vector<CounterTrial>& counters, const std::vector<CounterRefusal>& refused) {
  std::vector<std::string> reasons;
  for (const CounterTrial& trial : counters) {
    if (!trial.works && std::find(reasons.begin(), reasons.end(), trial.reason) == reasons.end())
      reasons.push_back(trial.reason);
  }
  for (const CounterRefusal& refusal : refused) reasons.emplace_back(refusal.reason);
  return absl::StrJoin(reasons, "; ");
}

std::string Verdict(const SetTrial& trial) {
  const auto works =
      std::count_if(trial.counters.begin(), trial.counters.end(), [](const CounterTrial& one) { return one.works; });
  if (works == 0) return "no";
  return works == static_cast<ptrdiff_t>(trial.counters.size()) ? "yes" : "in part";
}

std::string ScopeOf(const CounterTrial& trial) {
  if (!trial.works) return "";
  if (trial.spec.exclude_user) return "kernel";
  return trial.user_only || trial.spec.exclude_kernel ? "user" : "user, kernel";
}

Row CounterRow(const CounterTrial& trial, const CountingMachine& machine) {
  KnownCounter known = {};
  const bool is_known = FindKnownCounter(trial.spec.name, &known);
  return {std::string(trial.spec.name),
          std::string(trial.works ? "yes" : "no"),
          TextOrUnknown(SourceName(trial.source)),
          TextOrUnknown(ScopeOf(trial)),
          trial.read_ns > 0 ? Cell(static_cast<int64_t>(std::lround(trial.read_ns))) : Cell(),
          TextOrUnknown(is_known ? known.meaning : ""),
          TextOrUnknown(AdviceFor(machine, trial)),
          TextOrUnknown(trial.reason)};
}

// Each piece of advice once, under the table.
void AddAdvice(size_t column, Table* table) {
  std::set<std::string> told;
  for (const Row& row : table->rows) {
    const std::string* advice = std::get_if<std::string>(&row[column]);
    if (advice != nullptr && told.insert(*advice).second)
      table->notes.push_back(absl::StrCat("To count more: ", *advice));
  }
}

std::string PmuText(const CountingMachine& machine) {
  if (machine.counters_at_once > 0) {
    return absl::StrCat(machine.counters_at_once, " at once; more take turns, and counts are scaled");
  }
  if (!machine.pmus.empty())
    return absl::StrCat("there (", absl::StrJoin(machine.pmus, ", "), "), but can't be opened");
  return machine.is_virtual ? "none: the virtual machine has no PMU"
                            : "none: no PMU is in /sys/bus/event_source/devices";
}

}  // namespace

Table MachineTable(const CountingMachine& machine, const PapiTrials& papi) {
  Table table = NewTable(
      "machine", "What counting depends on",
      {TextColumn("fact", "What it is about."), Detail(TextColumn("advice", "What would allow more; empty: nothing.")),
       TextColumn("value", "What was found.")});
  const auto add = [&](const char* fact, const std::string& value, const std::string& advice = "") {
    table.rows.push_back({std::string(fact), TextOrUnknown(advice), value});
  };
  const bool watchdog_takes = !machine.pmus.empty() && machine.watchdog.value_or(0) != 0;
  const bool forbids_rdpmc = machine.rdpmc.value_or(1) == 0;
  add("processor", ProcessorText(machine.processor));
  add("virtual machine", machine.is_virtual ? "yes" : "no");
  add("processor's counters", PmuText(machine), PmuAdvice(machine));
  add("kernel.perf_event_paranoid", ParanoidText(machine), ParanoidAdvice(machine));
  add("rdpmc", RdpmcText(machine),
      forbids_rdpmc ? absl::StrCat("echo 1 > /sys/bus/event_source/devices/", machine.pmus.front(), "/rdpmc") : "");
  add("kernel.nmi_watchdog", WatchdogText(machine), watchdog_takes ? "sysctl kernel.nmi_watchdog=0" : "");
  add("PAPI", PapiText(papi));
  AddAdvice(1, &table);
  return table;
}

Table SetsTable(const CountingReport& report) {
  Table table = NewTable(
      "sets", "Sets of counters",
      {TextColumn("set", "Its name in DLHOOK_COUNTERS."),
       TextColumn("works", "yes; no; in part: some of its counters."),
       IntegerColumn(
           "groups", "", Better::kLower,
           "Into how many groups the processor has to divide it: more than one take turns, and counts are scaled. "
           "Empty: the processor's counters are not needed, or not there."),
       TextColumn("counters", "Those that work here."), Detail(TextColumn("missing", "Those that don't.")),
       Detail(TextColumn("tells", "What it is for.")), TextColumn("why_not", "What keeps counters from working.")});
  for (const SetTrial& trial : report.sets) {
    table.rows.push_back({std::string(trial.set.name), Verdict(trial),
                          trial.groups == 0 ? Cell() : Cell(static_cast<int64_t>(trial.groups)),
                          TextOrUnknown(NamesOf(trial.counters, true)), TextOrUnknown(NamesOf(trial.counters, false)),
                          std::string(trial.set.meaning), TextOrUnknown(Reasons(trial.counters, trial.refused))});
  }
  return table;
}

Table CountersTable(const CountingReport& report) {
  Table table =
      NewTable("counters", "Counters",
               {TextColumn("counter", "Its name in DLHOOK_COUNTERS."),
                TextColumn("works", "Whether it can be counted here: it was tried."),
                TextColumn("source", "The cheapest place that has it: getrusage, rdpmc, perf_event, PAPI."),
                TextColumn("counts_in", "user, kernel: the modes in which it counts."),
                IntegerColumn("read_ns", "ns", Better::kLower, "One reading of this counter alone."),
                Detail(TextColumn("meaning", "What it counts.")), Detail(TextColumn("advice", "What to do about it.")),
                TextColumn("why_not", "Why it can't be counted.")});
  for (const CounterTrial& trial : report.counters) table.rows.push_back(CounterRow(trial, report.machine));
  for (const CounterRefusal& refusal : report.refused) {
    table.rows.push_back({std::string(refusal.name), std::string("no"), Cell(), Cell(), Cell(), Cell(), Cell(),
                          std::string(refusal.reason)});
  }
  AddAdvice(6, &table);
  return table;
}

Table PapiTable(const PapiTrials& papi) {
  Table table = NewTable("papi", "PAPI's presets that it reports as available here, and the events asked for",
                         {TextColumn("event", "Its name; in DLHOOK_COUNTERS a native one is written papi::NAME."),
                          TextColumn("works", "Whether it could be added to an event set and started."),
                          TextColumn("why_not", "PAPI's reason.")});
  for (const PapiEvent& event : papi.events) {
    table.rows.push_back({event.name, std::string(event.works ? "yes" : "no"), TextOrUnknown(event.reason)});
  }
  return table;
}

Table MetricsTable(const std::vector<CounterTrial>& counters) {
  Table table = NewTable(
      "metrics", "What these counters tell",
      {TextColumn("metric", "Its column in the table `counters` of a report."), TextColumn("unit", "Of its values."),
       Detail(TextColumn("needs", "Its counters; wall-share: wall time.")),
       Detail(TextColumn("source", "Where the formula comes from.")), TextColumn("meaning", "What it is.")});
  std::set<std::string> names;
  for (const CounterTrial& trial : counters) names.insert(std::string(absl::StripSuffix(trial.spec.name, ":u")));
  std::set<absl::string_view> told;
  for (const DerivedMetric& metric : DerivedMetrics()) {
    const auto has = [&](absl::string_view name) -> std::optional<double> {
      if (name == kWallShare || names.contains(std::string(name))) return 1;
      return std::nullopt;
    };
    if (!metric.HasInputs(has) || !told.insert(metric.name).second) continue;
    table.rows.push_back({std::string(metric.name), TextOrUnknown(std::string(metric.unit)),
                          absl::StrJoin(metric.needs, ", "), TextOrUnknown(std::string(metric.source)),
                          std::string(metric.explanation)});
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
          fails.empty() ? "" : "dlhook counters says for each counter why not, and what to do."};
}

}  // namespace dlhook::analyzer::doctor
