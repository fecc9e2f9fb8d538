// Table `ranks`: the processes of a run side by side: how evenly they are loaded, which waits for which.

#include "analyzer/gpu/gpu_division.h"
#include "analyzer/model/release.h"
#include "analyzer/steps/step_groups.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/ranks/collective_arrivals.h"
#include "analyzer/tables/tables.h"
#include "analyzer/time/intervals.h"

namespace dlhook::analyzer::inline tables {
namespace {

struct RankSums {
  int64_t devices = 0;
  int64_t compute_ns = 0;
  int64_t communication_ns = 0;
  int64_t exposed_ns = 0;
  int64_t collectives = 0;
  int64_t came_last = 0;
  int64_t lateness_ns = 0;
  int64_t caused_ns = 0;  // how long the first rank waited when this one came last; operations at the same time once
  bool is_late = false;   // the others wait for it, by more than chance would have it
  int64_t waiting_ns = 0;
  bool knows_waiting = true;
  double no_processor = 0;  // part of the time of its steps
};

struct RankRow {
  std::string rank;
  const ProcessInfo& process;
  const RankSums& sums;
  const MeasuredTime& time;

  int64_t steps() const { return std::max<int64_t>(1, time.all_steps); }
  // GPU work, over the steps that were measured.
  Cell OfGpu(int64_t ns) const { return sums.devices > 0 ? Mean(ns, std::max<int64_t>(1, time.steps)) : Cell(); }
  bool KnowsWaiting() const { return sums.collectives > 0 && sums.knows_waiting; }
  double NoProcessorNs() const {
    return sums.no_processor * static_cast<double>(time.duration_ns) / static_cast<double>(steps());
  }
};

TypedColumns<RankRow> RanksColumns(bool has_ranks) {
  TypedColumns<RankRow> columns = {
      {TextColumn("rank"), "As set by its launcher (RANK, OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID).",
       Known(&RankRow::rank)},
      {Detail(NumberColumn("restart")),
       "How often torchrun had restarted its ranks before it began: compared within it.",
       [](const RankRow& row) { return int64_t{RestartOf(row.process)}; }},
      {NumberColumn("process"), "Process id.", [](const RankRow& row) { return row.process.pid; }},
      {Detail(TextColumn("host")), "Machine.", [](const RankRow& row) { return KnownText(row.process.host); }},
      {NumberColumn("devices"), "GPUs that worked for it.", [](const RankRow& row) { return row.sums.devices; }},
      {NumberColumn("steps"), "Steady steps that the row covers; not known: it covers the whole process.",
       [](const RankRow& row) { return row.time.all_steps == 0 ? Cell() : Cell(row.time.all_steps); }},
      {TimeColumn("step_time"), "Of a mean step (the process where there are none).",
       [](const RankRow& row) { return Mean(row.time.duration_ns, row.steps()); }},
      {TimeColumn("compute"),
       "In which its GPUs computed, in a mean step; several GPUs' times are added. As far as times of GPUs were "
       "measured.",
       [](const RankRow& row) { return row.OfGpu(row.sums.compute_ns); }},
      {TimeColumn("communication"), "The same of kernels of collectives, waiting included.",
       [](const RankRow& row) { return row.OfGpu(row.sums.communication_ns); }},
      {TimeColumn("exposed_communication"), "Part of it that did not overlap with compute on the same GPU.",
       [](const RankRow& row) { return row.OfGpu(row.sums.exposed_ns); }},
      {PercentColumn("comm_overlap", Better::kHigher), "Part of the communication that overlapped with compute.",
       [](const RankRow& row) {
         return Percent(row.sums.communication_ns - row.sums.exposed_ns, row.sums.communication_ns);
       }},
      {NumberColumn("collectives"),
       "Collective operations in these steps of which the other ranks' calls are known too.",
       [](const RankRow& row) { return row.sums.collectives; }},
      {IntegerColumn("came_last", "", Better::kLower),
       "Those that this rank reached last, so that the others waited for it.",
       [](const RankRow& row) { return row.sums.came_last; }},
      {Detail(TimeColumn("waited_for")),
       "In a mean step, from the first rank's arrival to this one's where it came last.",
       [](const RankRow& row) { return Mean(row.sums.caused_ns, row.steps()); }},
      {Detail(TextColumn("late")),
       "yes: the others wait mostly for this rank, in more steps or longer than chance explains.",
       [](const RankRow& row) { return KnownText(row.sums.is_late ? "yes" : ""); }},
      {TimeColumn("lateness"), "Mean time from the first rank's arrival to this one's.",
       [](const RankRow& row) { return Mean(row.sums.lateness_ns, row.sums.collectives); }},
      {TimeColumn("waiting"),
       "In a mean step, in collectives, until the last rank had come: from its kernel's start (its call's, where times "
       "of GPUs are not known), at most to its end; of operations at the same time once. Not known of asynchronous "
       "calls without times of GPUs.",
       [](const RankRow& row) { return row.KnowsWaiting() ? Mean(row.sums.waiting_ns, row.steps()) : Cell(); }},
      {PercentColumn("waiting_percent", Better::kLower), "Waiting as a part of the step's time.",
       [](const RankRow& row) {
         return row.KnowsWaiting() ? Percent(row.sums.waiting_ns, row.time.duration_ns) : Cell();
       }},
      {Detail(TimeColumn("no_processor")),
       "In a mean step, its first thread was runnable without a processor, by the launcher's samples from the first "
       "step to the last.",
       [](const RankRow& row) {
         return row.sums.no_processor > 0 ? Cell(static_cast<int64_t>(row.NoProcessorNs())) : Cell();
       }},
  };
  columns.Find("rank")->detail = !has_ranks;
  return columns;
}

// The step's place among these; kNone: in none. Where there are no steps the whole process counts.
size_t StepAt(const TraceModel& model, const std::vector<const Step*>& steps, ProcessIndex process, int64_t ns) {
  if (steps.empty()) return ns >= model.processes[process].start_ns ? 0 : kNone;
  return StepAt(steps, ns);
}

// Whether these have a mean above 0 by more than chance: Student's t, with a limit that 1 of 50 sets of three values without
// a direction exceeds, and 1 of 600 of 40.
bool IsAboveChance(const std::vector<double>& differences) {
  const auto n = static_cast<double>(differences.size());
  if (n < 3) return false;
  double sum = 0, squares = 0;
  for (const double difference : differences) sum += difference;
  for (const double difference : differences) squares += (difference - sum / n) * (difference - sum / n);
  return sum / n > (3 + 6 / n) * std::sqrt(squares / (n - 1) / n);
}

// One much longer step must not hide that all are late.
std::vector<double> WithoutOutliers(std::vector<double> differences) {
  std::vector<int64_t> sizes;
  for (const double difference : differences) sizes.push_back(static_cast<int64_t>(std::abs(difference)));
  absl::c_sort(sizes);
  const double most = sizes.empty() ? 0 : 2 * static_cast<double>(QuantileOfSorted(sizes, 0.5));
  for (double& difference : differences) difference = std::clamp(difference, -most, most);
  return differences;
}

// Part of this time in which the process's first thread was runnable without running; 0: or no samples.
double NoProcessorPart(const TraceModel& model, ProcessIndex process, const Interval& time) {
  const LoadSample* first = nullptr;
  const LoadSample* last = nullptr;
  const auto is_before = [](const LoadSample& sample, ProcessIndex index) { return sample.process < index; };
  auto sample = absl::c_lower_bound(model.loads, process, is_before);
  for (; sample != model.loads.end() && sample->process == process; ++sample) {
    if (sample->time_ns < time.start_ns || sample->time_ns > time.end_ns) continue;
    if (first == nullptr) first = &*sample;
    last = &*sample;
  }
  if (first == last) return 0;
  return static_cast<double>(last->waiting_ns - first->waiting_ns) /
         static_cast<double>(last->time_ns - first->time_ns);
}

class RankTable {
 public:
  RankTable(const TraceModel& model, const std::vector<StepTrack>& tracks)
      : model_(model),
        times_(MeasuredTimes(model, tracks)),
        sums_(model.processes.size()),
        steps_(model.processes.size()) {
    for (const StepGroup& group : GroupSteps(tracks)) {
      const MeasuredTime& time = times_[group.process];
      if (group.kind == time.kind && group.sort == time.sort) steps_[group.process] = group.steady;
    }
    for (ProcessIndex process = 0; process < steps_.size(); ++process) {
      const std::vector<const Step*>& of = steps_[process];
      if (of.empty()) continue;
      sums_[process].no_processor = NoProcessorPart(model, process, {of.front()->start_ns, of.back()->end_ns});
    }
    AddWork();
    const Meetings found = MatchCollectives(model);
    waits_.resize(model.processes.size());
    caused_.resize(model.processes.size());
    for (size_t i = 0; i < found.meetings.size(); ++i) AddMeeting(found.meetings[i], i);
    AddWaits();
    FindLate();
    oddities_ = found.oddities;
  }

  Table Make() const {
    const TypedColumns<RankRow> columns = RanksColumns(HasRanks(model_));
    Table table = NewTable("ranks", "Ranks compared", columns);
    const std::vector<ProcessIndex> shown = Compared();
    if (shown.empty()) {
      AddNotMatched(&table);
      return table;
    }
    for (const ProcessIndex process : shown) AddRow(columns, RowOf(process), &table);
    AddNotes(shown, &table);
    return table;
  }

  std::vector<RankFacts> Facts() const {
    std::vector<RankFacts> facts;
    for (const ProcessIndex process : Compared()) {
      const RankRow row = RowOf(process);
      const auto steps = static_cast<double>(row.steps());
      const std::string pid = absl::StrCat("process ", row.process.pid);
      facts.push_back({.process = process,
                       .name = row.rank.empty() ? pid : Label(process),
                       .step_ns = static_cast<double>(row.time.duration_ns) / steps,
                       .waiting_ns = row.KnowsWaiting() ? static_cast<double>(row.sums.waiting_ns) / steps : 0,
                       .no_processor_ns = row.NoProcessorNs(),
                       .collectives = row.sums.collectives,
                       .came_last = row.sums.came_last,
                       .is_late = row.sums.is_late});
    }
    return facts;
  }

 private:
  // Those that did something together; none if there are fewer than two.
  std::vector<ProcessIndex> Compared() const {
    std::vector<ProcessIndex> compared;
    for (const ProcessIndex process : ByRank(model_)) {
      if (sums_[process].devices > 0 || sums_[process].collectives > 0) compared.push_back(process);
    }
    return compared.size() < 2 ? std::vector<ProcessIndex>() : compared;
  }

  RankRow RowOf(ProcessIndex process) const {
    return {RankOf(model_.processes[process]), model_.processes[process], sums_[process], times_[process]};
  }

  void AddWork() {
    for (const DeviceWork& work : WorkOfDevices(model_, times_)) {
      RankSums& sums = sums_[model_.gpu_devices[work.device].process];
      ++sums.devices;
      sums.compute_ns += work.compute.total_ns();
      sums.communication_ns += work.communication.total_ns();
      sums.exposed_ns += work.ExposedCommunication().total_ns();
    }
  }

  // `number`: where there are no steps, each meeting stands for one.
  void AddMeeting(const Meeting& meeting, size_t number) {
    const int64_t first_ns = meeting.FirstNs(), last_ns = meeting.LastNs();
    size_t in_step = kNone;  // of the first rank that has it
    bool counts = false;
    for (const Arrival& arrival : meeting.arrivals) {
      const std::vector<const Step*>& steps = steps_[arrival.process];
      const size_t step = StepAt(model_, steps, arrival.process, arrival.called_ns);
      if (step == kNone) continue;
      if (!counts) in_step = steps.empty() ? number : step;
      counts = true;
      RankSums& sums = sums_[arrival.process];
      ++sums.collectives;
      const bool is_last = arrival.start_ns == last_ns && last_ns > first_ns;
      sums.came_last += is_last ? 1 : 0;
      if (is_last) caused_[arrival.process][in_step].push_back({first_ns, last_ns});
      sums.lateness_ns += arrival.start_ns - first_ns;
      waits_[arrival.process].push_back({arrival.start_ns, std::min(last_ns, arrival.end_ns)});
      sums.knows_waiting = sums.knows_waiting && arrival.end_ns > arrival.start_ns;
    }
    if (!counts) return;
    spreads_ns_.push_back(last_ns - first_ns);
    by_host_ += meeting.is_estimated ? 1 : 0;
  }

  // Buckets of gradients, for instance, are reduced at the same time.
  void AddWaits() {
    for (ProcessIndex process = 0; process < sums_.size(); ++process) {
      sums_[process].waiting_ns = IntervalSet(std::move(waits_[process])).total_ns();
      for (auto& [step, intervals] : caused_[process]) {
        const int64_t ns = IntervalSet(std::move(intervals)).total_ns();
        sums_[process].caused_ns += ns;
        caused_in_[step][process] = static_cast<double>(ns);
      }
    }
  }

  // The rank that the others mostly wait for, if there is one.
  void FindLate() {
    double all_ns = 0;
    for (const RankSums& sums : sums_) all_ns += static_cast<double>(sums.caused_ns);
    const auto last =
        absl::c_max_element(sums_, [](const RankSums& a, const RankSums& b) { return a.caused_ns < b.caused_ns; });
    if (all_ns == 0 || static_cast<double>(last->caused_ns) < kLateRankMostly * all_ns) return;
    std::vector<double> differences;  // from the one that is waited for most among the others
    for (const auto& [step, caused] : caused_in_) {
      double own_ns = 0, others_ns = 0;
      for (const auto& [process, ns] : caused) {
        double& of = &sums_[process] == &*last ? own_ns : others_ns;
        of = std::max(of, ns);
      }
      differences.push_back(own_ns - others_ns);
    }
    last->is_late = IsAboveChance(differences) || IsAboveChance(WithoutOutliers(differences));
  }

  // Steps with GPU measurements.
  int64_t StepsOf(ProcessIndex process) const { return std::max<int64_t>(1, times_[process].steps); }

  // "rank 0", or "process 4711" if the launcher gave no rank.
  std::string Label(ProcessIndex process) const {
    const std::string rank = RankOf(model_.processes[process]);
    const int32_t restart = RestartOf(model_.processes[process]);
    if (rank.empty()) return ProcessLabel(model_, process);
    return absl::StrCat("rank ", rank, restart > 0 ? absl::StrCat(" after restart ", restart) : "");
  }

  void AddNotes(const std::vector<ProcessIndex>& shown, Table* table) const {
    AddImbalance(shown, table);
    AddLastRank(shown, table);
    if (!spreads_ns_.empty()) {
      std::vector<int64_t> spreads_ns = spreads_ns_;
      absl::c_sort(spreads_ns);
      table->Note("From the first to the last rank's arrival at ", spreads_ns.size(), " collective operations: median ",
                  HumanTime(QuantileOfSorted(spreads_ns, 0.5)), ", 95 % within ",
                  HumanTime(QuantileOfSorted(spreads_ns, 0.95)), ", at most ", HumanTime(spreads_ns.back()), ".");
    }
    if (by_host_ > 0) {
      table->Note("Of ", by_host_,
                  " of these operations arrivals are the host's calls: on the GPU they may "
                  "have come later, and not in this order.");
    }
    std::set<std::string> hosts;
    for (const ProcessIndex process : shown) hosts.insert(model_.processes[process].host);
    if (hosts.size() > 1) {
      table->Note("The ranks ran on ", hosts.size(),
                  " machines: arrivals are only as exact as their clocks (CLOCK_REALTIME) agree.");
    }
    const auto is_imported = [&](ProcessIndex process) { return !SeesLibraries(model_.processes[process]); };
    if (shown.size() > 1 && hosts.contains("") && absl::c_any_of(shown, is_imported)) {
      table->Note(
          "Not all machines of the ranks are known: arrivals are only as exact as their clocks (CLOCK_REALTIME) "
          "agree.");
    }
    AddNotMatched(table);
  }

  void AddNotMatched(Table* table) const {
    for (const auto& [sentence, count] : oddities_) {
      table->Note("Not matched: ", sentence, " (", count, ").");
    }
  }

  // If the wait matters.
  void AddLastRank(const std::vector<ProcessIndex>& shown, Table* table) const {
    for (const ProcessIndex last : shown) {
      const RankSums& sums = sums_[last];
      if (!sums.is_late || sums.caused_ns < times_[last].duration_ns / 100) continue;
      table->Note("The others wait for ", Label(last), ": it came last to ", sums.came_last, " of ", sums.collectives,
                  " operations, in a mean step ",
                  HumanTime(sums.caused_ns / std::max<int64_t>(1, times_[last].all_steps)), " after the first one.");
    }
  }

  void AddImbalance(const std::vector<ProcessIndex>& shown, Table* table) const {
    const auto compute = [&](ProcessIndex process) { return sums_[process].compute_ns / StepsOf(process); };
    const auto [fastest, slowest] = std::minmax_element(
        shown.begin(), shown.end(), [&](ProcessIndex a, ProcessIndex b) { return compute(a) < compute(b); });
    if (compute(*fastest) == 0 || compute(*fastest) == compute(*slowest)) return;
    table->notes.push_back(
        absl::StrFormat("Compute of a step takes %s on %s and %s on %s: %.2f times as long.",
                        HumanTime(compute(*slowest)), Label(*slowest), HumanTime(compute(*fastest)), Label(*fastest),
                        static_cast<double>(compute(*slowest)) / static_cast<double>(compute(*fastest))));
  }

  const TraceModel& model_;
  const std::vector<MeasuredTime> times_;
  std::vector<RankSums> sums_;                                   // by process
  std::vector<std::vector<const Step*>> steps_;                  // by process
  std::vector<std::vector<Interval>> waits_;                     // by process
  std::vector<std::map<size_t, std::vector<Interval>>> caused_;  // by process and step: it came last
  std::map<size_t, std::map<ProcessIndex, double>> caused_in_;   // by step: the sums of these
  std::vector<int64_t> spreads_ns_;                              // of meetings inside a step of one of the ranks
  int64_t by_host_ = 0;
  std::map<std::string, int64_t> oddities_;
};

}  // namespace

absl::StatusOr<Table> RanksTable(const TraceModel& model, const TableOptions& options) {
  Table table = model.processes.size() < 2 ? NewTable("ranks", "Ranks compared", RanksColumns(false))
                                           : RankTable(model, options.analysis->steps()).Make();
  const bool is_untold = table.rows.empty() && table.notes.empty();
  if (is_untold && FindCollectiveRanges(model).size() + FindCommunicators(model).size() > 0)
    table.Note("One rank is in this run: there is none to compare it with.");
  return table;
}

std::vector<RankFacts> RanksCompared(const TraceModel& model, const std::vector<StepTrack>& tracks) {
  return RankTable(model, tracks).Facts();
}

}  // namespace dlhook::analyzer::tables
