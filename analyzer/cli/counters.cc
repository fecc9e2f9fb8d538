// `dlhook counters`: what this machine can count, by trying; and whether given words for DLHOOK_COUNTERS would work.

#include "analyzer/cli/tables.h"
#include "analyzer/doctor/counter_trials.h"

namespace dlhook::analyzer::inline cli {
namespace {

// All counters that the processor may have.
std::string AllWords(const Processor& processor) {
  std::vector<std::string> words;
  for (const CounterLine& known : CounterLines()) {
    if (IsOn(known, processor)) words.emplace_back(known.name);
  }
  return absl::StrJoin(words, ",");
}

CountingReport TryAll(const std::vector<std::string>& sets, const CounterList& asked, bool wants_papi) {
  CountingReport report;
  report.machine = LookAtCounting();
  if (wants_papi) report.papi = TryPapi(asked);
  for (const CounterSet& set : kCounterSets) {
    const bool is_wanted = absl::c_linear_search(sets, set.name);
    if (is_wanted) report.sets.push_back(TrySet(report.machine, set));
  }
  report.counters = TryCounters(report.machine, asked, report.papi);
  report.refused = RefusedOf(asked);
  return report;
}

std::vector<Table> TablesOf(const CountingReport& report, const std::vector<std::string>& wanted, bool is_asked) {
  std::vector<Table> tables;
  const auto wants = [&](absl::string_view name, bool by_default) {
    return wanted.empty() ? by_default : absl::c_linear_search(wanted, name);
  };
  if (wants("machine", !is_asked)) tables.push_back(MachineTable(report.machine, report.papi));
  if (wants("sets", true) && !report.sets.empty()) tables.push_back(SetsTable(report));
  if (wants("counters", true)) tables.push_back(CountersTable(report));
  if (wants("metrics", is_asked)) tables.push_back(MetricsTable(report.counters));
  return tables;
}

absl::Status CheckNames(const std::vector<std::string>& names, absl::string_view what,
                        const std::vector<std::string>& known) {
  for (const std::string& name : names) {
    if (!absl::c_linear_search(known, name)) return UnknownName(what, name, known);
  }
  return absl::OkStatus();
}

absl::StatusOr<int> RunCounters(const Args& args) {
  const std::vector<std::string> sets = ListOf(args, "set");
  const std::vector<std::string> tables = ListOf(args, "table");
  RETURN_IF_ERROR(CheckNames(sets, "set", NamesOf(kCounterSets)));
  RETURN_IF_ERROR(CheckNames(tables, "table", {"machine", "sets", "counters", "metrics"}));
  ASSIGN_OR_RETURN(const OutputFlags output, ReadOutputFlags(args));

  std::vector<std::string> words = args.operands();
  words.insert(words.end(), sets.begin(), sets.end());
  const bool is_asked = !words.empty();
  const Processor processor = ThisProcessor();
  const std::string asked_words = is_asked ? absl::StrJoin(words, ",") : AllWords(processor);
  if (const std::string complaint = CounterComplaint(asked_words); !complaint.empty())
    return absl::InvalidArgumentError(complaint);
  const CounterList asked = ParseWords(asked_words, processor);
  const bool wants_papi = !is_asked || std::any_of(asked.counters, asked.counters + asked.count, IsOfPapi);
  const CountingReport report = TryAll(is_asked ? sets : NamesOf(kCounterSets), asked, wants_papi);
  const int exit_code = PrintTables(output, TablesOf(report, tables, is_asked));
  const bool has_missing = !report.refused.empty() ||
                           absl::c_any_of(report.counters, [](const CounterTrial& trial) { return !trial.works(); });
  return std::max(exit_code, is_asked && has_missing ? kExitThreshold : kExitOk);
}

}  // namespace

Command CountersCommand() {
  return {.name = "counters",
          .summary = "show which processor and kernel counters are available",
          .operands = "[WORD]...",
          .flags = {{"set", "NAMES", "only these sets: their counters, and what they measure"},
                    {"table", "NAMES", "only these tables"},
                    {"format", "FORMAT", "text, csv or json (default: text)"},
                    ColorFlag()},
          .examples = {{"dlhook counters", "what can be counted here, which sets work, why not the rest"},
                       {"dlhook counters --set topdown", "Top-Down: its events on this processor and the formulas"},
                       {"dlhook counters instructions PAPI_FP_OPS", "whether these would work; exit code 1 if not"}},
          .operand_count = {0, SIZE_MAX},
          .details =
              "WORD is what DLHOOK_COUNTERS takes: a set, a counter (cycles, cycles:u, page-faults),\n"
              "a raw event (r01c2), an event of a PMU in /sys/bus/event_source/devices\n"
              "(cpu/event=0x3c,umask=0/), PAPI's presets (PAPI_FP_OPS) and others (papi::NAME).\n"
              "Each is opened in this process; PAPI is tried in a child.\n\n"
              "Exit codes: 0: every requested counter is available; 1: at least one is not;\n"
              "2: unknown word, or bad usage.\n\n"
              "tables: machine, sets, counters, metrics\n",
          .lists = [] { return RegistryText("sets", kCounterSets, &CounterSet::meaning, 10); },
          .run = RunCounters};
}

}  // namespace dlhook::analyzer::cli
