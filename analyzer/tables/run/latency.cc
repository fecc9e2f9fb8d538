// Table `latency`: how long requests take, by batch size.

#include "analyzer/steps/step_groups.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer::inline tables {
namespace {

struct Requests {
  std::vector<int64_t> durations_ns;
  int64_t samples = 0;
  bool all_sizes_known = true;
  void Add(const Step& step) {
    durations_ns.push_back(step.end_ns - step.start_ns);
    samples += step.batch;
    all_sizes_known &= step.batch > 0;
  }
  Cell Throughput() const {
    const int64_t sum_ns = absl::c_accumulate(durations_ns, int64_t{0});
    if (!all_sizes_known || sum_ns <= 0) return std::monostate();
    return 1e9 * static_cast<double>(samples) / static_cast<double>(sum_ns);
  }
};

struct RequestRow {
  int64_t pid;
  std::string model;
  std::string batch;
  Requests requests;
};

TypedColumns<RequestRow> LatencyColumns(const std::vector<StepGroup>& groups) {
  const auto percentile = [](std::string name, std::string explanation, double part) {
    return TypedColumn<RequestRow>(TimeColumn(std::move(name), std::move(explanation)), [part](const RequestRow& row) {
      return QuantileOfSorted(row.requests.durations_ns, part);
    });
  };
  return {
      {ProcessColumn(HasSeveralProcesses(groups)), &RequestRow::pid},
      {TextColumn("model"), "The network, if only one ran.", Known(&RequestRow::model)},
      {TextColumn("batch"), "Samples in a request; all: whatever their number.", &RequestRow::batch},
      {NumberColumn("requests"), "Forward passes, without the warm-up.",
       [](const RequestRow& row) { return row.requests.durations_ns.size(); }},
      percentile("p50", "Half of the requests took at most this long.", 0.5),
      percentile("p90", "90 % of the requests took at most this long.", 0.9),
      percentile("p95", "95 % of the requests took at most this long.", 0.95),
      percentile("p99", "99 % of the requests took at most this long.", 0.99),
      {Detail(TimeColumn("max")), "The slowest request.",
       [](const RequestRow& row) { return row.requests.durations_ns.back(); }},
      {RealColumn("throughput", "samples/s", Better::kHigher), "Samples per second of request time, without pauses.",
       [](const RequestRow& row) { return row.requests.Throughput(); }},
  };
}

// Requests of all sorts in one process.
struct Served {
  std::vector<const Step*> steady;  // by start
  size_t warm_up = 0;
};

void AddRows(int64_t pid, const Served& served, const TypedColumns<RequestRow>& columns, Table& table) {
  std::map<std::pair<std::string, int64_t>, Requests> by_batch;
  Requests all;
  for (const Step* step : served.steady) {
    by_batch[{step->model, step->batch}].Add(*step);
    all.Add(*step);
  }
  const auto add = [&](const std::string& model, const std::string& batch, Requests requests) {
    absl::c_sort(requests.durations_ns);
    AddRow(columns, {pid, model, batch, std::move(requests)}, &table);
  };
  for (const auto& [key, requests] : by_batch) {
    add(key.first, key.second > 0 ? absl::StrCat(key.second) : "unknown", requests);
  }
  if (by_batch.size() > 1) add("", "all", all);
}

// Which part of the time requests were active, and how many there were.
std::string LoadNote(const std::string& process, const Served& served) {
  const int64_t start_ns = served.steady.front()->start_ns;
  int64_t end_ns = start_ns, busy_ns = 0;
  std::set<ThreadIndex> threads;
  for (const Step* step : served.steady) {
    busy_ns += std::max<int64_t>(0, step->end_ns - std::max(step->start_ns, end_ns));
    end_ns = std::max(end_ns, step->end_ns);
    threads.insert(step->thread);
  }
  const double seconds = static_cast<double>(end_ns - start_ns) / 1e9;
  const std::string of_threads = threads.size() > 1 ? absl::StrCat(" of ", threads.size(), " threads") : "";
  return absl::StrFormat(
      "%s: %d requests%s in %s, %.4g a second; %.3g %% of the time at least one was under way; %d of warm-up left out.",
      process, served.steady.size(), of_threads, HumanTime(end_ns - start_ns),
      static_cast<double>(served.steady.size()) / seconds,
      100.0 * static_cast<double>(busy_ns) / static_cast<double>(end_ns - start_ns), served.warm_up);
}

}  // namespace

absl::StatusOr<Table> LatencyTable(const TraceModel& model, const TableOptions& options) {
  std::vector<StepGroup> groups = GroupSteps(options.analysis->steps());
  std::set<uint32_t> train;
  for (const StepGroup& group : groups) {
    if (group.kind == StepKind::kTraining) train.insert(model.processes[group.process].pid);
  }
  std::erase_if(groups, [](const StepGroup& group) { return group.kind != StepKind::kInference; });
  std::set<ProcessIndex> workers;
  for (const StepGroup& group : groups) {
    if (train.contains(model.processes[group.process].parent_pid)) workers.insert(group.process);
  }
  std::erase_if(groups, [&](const StepGroup& group) { return workers.contains(group.process); });
  const TypedColumns<RequestRow> columns = LatencyColumns(groups);
  Table table = NewTable("latency", "How long requests take, by batch size", columns);
  std::map<ProcessIndex, Served> by_process;
  for (const StepGroup& group : groups) {
    Served& served = by_process[group.process];
    // Slow requests count: they are what a high percentile is about.
    served.steady.insert(served.steady.end(), group.steady.begin(), group.steady.end());
    served.steady.insert(served.steady.end(), group.longer.begin(), group.longer.end());
    served.warm_up += group.warm_up.size();
  }
  for (auto& [process, served] : by_process) {
    SortByStart(served.steady);
    AddRows(model.processes[process].pid, served, columns, table);
    table.notes.push_back(LoadNote(ProcessLabel(model, process), served));
  }
  if (!workers.empty()) {
    table.Note("Excluded: work of processes started by one that trains (", workers.size(),
               "; a loader's workers, for instance).");
  }
  if (groups.empty()) table.Note("No process runs a network without training it.");
  return table;
}

}  // namespace dlhook::analyzer::tables
