#include "analyzer/cli/neighbours.h"
#include "analyzer/diff/changes.h"
#include "analyzer/table/table_ops.h"
#include "analyzer/time/counter_division.h"

namespace dlhook::analyzer::inline cli {
namespace {

// The table `work` of a mean step, by phase, layer and operation.
void AddPlaces(const Table& work, std::map<ContendedPlace, double>* places) {
  for (const Row& row : work.rows) {
    const double of_step = NumberOf(work, row, "time");
    const auto text = [&](const char* name) { return TextOf(work, row, name); };
    const std::string layer = text("layer"), direction = text("direction"), activity = text("activity"),
                      what = text("what"), problem = text("problem");
    (*places)[{PlaceLevel::kPhase, direction.empty() ? activity : direction, ""}] += of_step;
    if (!layer.empty()) (*places)[{PlaceLevel::kLayer, layer, ""}] += of_step;
    std::vector<std::string> words = {layer, direction, what.empty() ? activity : what};
    std::erase(words, "");
    (*places)[{PlaceLevel::kOperation, absl::StrJoin(words, " "), problem}] += of_step;
  }
}

// What threads counted in steps, a step.
void AddCounts(const TraceModel& model, const std::vector<Interval>& times, double steps,
               std::map<std::string, double>* counts) {
  const CountedRun counted = ReadCounters(model);
  for (const CounterTimeline& timeline : counted.timelines) {
    for (size_t i = 0; i < timeline.size(); ++i) {
      int64_t inside_ns = 0;
      for (const Interval& time : times) {
        const int64_t ns = std::min(time.end_ns, timeline.end_ns[i]) - std::max(time.start_ns, timeline.start_ns[i]);
        inside_ns += std::max<int64_t>(ns, 0);
      }
      const double part =
          static_cast<double>(inside_ns) / static_cast<double>(timeline.end_ns[i] - timeline.start_ns[i]);
      for (size_t j = 0; j < timeline.counters.size(); ++j) {
        const std::string& name = model.names[counted.counters[timeline.counters[j]]];
        (*counts)[name] += part * static_cast<double>(timeline.AmountsOf(i)[j]) / steps;
      }
    }
  }
}

}  // namespace

MachineWatch::MachineWatch(std::string sys, const std::string (&masks)[2])
    : sys_(std::move(sys)), masks_(std::begin(masks), std::end(masks)) {}

absl::Status MachineWatch::Open() {
  absl::StatusOr<PackageEnergy> energy = PackageEnergy::Open(sys_ + "/class/powercap");
  if (energy.ok()) energy_ = *std::move(energy);
  if (!energy.ok()) notes_.push_back(absl::StrCat("Energy is not measured: ", energy.status().message(), "."));
  const std::string root = sys_ + "/fs/resctrl";
  absl::Status status = CheckResctrl(root);
  if (status.ok()) RemoveResctrlGroups(root, 0);  // that others have left
  for (size_t i = 0; i < 2 && status.ok(); ++i) {
    const char* const name = i == 0 ? "program" : "neighbours";
    absl::StatusOr<ResctrlGroup> group = ResctrlGroup::Make(root, name, masks_[i]);
    status = group.status();
    if (group.ok()) groups_.emplace(name, *std::move(group));
  }
  if (status.ok()) return status;
  notes_.push_back(absl::StrCat("Cache occupancy and memory traffic are not measured: ", status.message(), "."));
  const bool is_asked = !masks_[0].empty() || !masks_[1].empty();
  return is_asked ? status : absl::OkStatus();
}

void MachineWatch::Add(const char* group, pid_t task) const {
  const auto found = groups_.find(group);
  const absl::Status status = found == groups_.end() ? absl::OkStatus() : found->second.Add(task);
  if (status.ok()) return;
  PrintError(status.message());
  _exit(126);
}

void MachineWatch::Look() {
  MachineLook look = {.time_ns = static_cast<int64_t>(ClockNanoseconds(CLOCK_MONOTONIC))};
  if (energy_) look.sums["energy of all processors (J)"] = energy_->Joules();
  for (const auto& [name, group] : groups_) {
    if (const auto bytes = group.TrafficBytes()) look.sums[absl::StrCat("memory traffic, ", name, " (bytes)")] = *bytes;
    if (const auto bytes = group.CacheBytes()) look.amounts[absl::StrCat("L3 cache, ", name, " (bytes)")] = *bytes;
  }
  looks_.push_back(std::move(look));
}

// Between the first and the last look in the steps sums are taken to grow evenly.
void MachineWatch::AddLooks(const Interval& time, double steps, std::map<std::string, double>* counts) const {
  std::vector<const MachineLook*> inside;
  for (const MachineLook& look : looks_) {
    if (look.time_ns >= time.start_ns && look.time_ns <= time.end_ns) inside.push_back(&look);
  }
  if (inside.size() < 2) return;
  const MachineLook &first = *inside.front(), &last = *inside.back();
  const double ns_of_step = static_cast<double>(time.end_ns - time.start_ns) / steps;
  for (const auto& [name, sum] : first.sums) {
    const auto end = last.sums.find(name);
    if (end != last.sums.end())
      (*counts)[name] = (end->second - sum) / static_cast<double>(last.time_ns - first.time_ns) * ns_of_step;
  }
  for (const MachineLook* look : inside) {
    for (const auto& [name, amount] : look->amounts) (*counts)[name] += amount / static_cast<double>(inside.size());
  }
}

ContendedRun MachineWatch::Read(const TryRun& run) const {
  ContendedRun read = {.wall_ns = run.time.wall_ns, .cpu_ns = run.time.cpu_ns};
  if (const auto& states = run.time.states) {
    const auto mean = [&](int64_t ns) { return static_cast<double>(ns) / run.time.states_count; };
    read.wall_ns = mean(states->wall_ns);
    read.states = {mean(states->running_ns), mean(states->queued_ns), std::max(mean(states->blocked_ns()), 0.0)};
  }
  absl::StatusOr<LoadedRun> loaded = LoadRun(run.run);
  if (!loaded.ok()) return read;
  const RunAnalysis analysis(&loaded->model);
  const ComparedSteps main = MainSteps(analysis.layers().steps());
  if (main.kind != run.kind) return read;  // it was not taken for what the others were
  const absl::StatusOr<Table> work = MeanWorkTable(loaded->model, analysis.options());
  if (work.ok()) AddPlaces(*work, &read.places_ns);
  std::vector<Interval> times;
  for (const StepTrack& track : main.tracks) {
    for (const Step& step : track.steps) times.push_back({step.start_ns, step.end_ns});
  }
  if (times.empty())
    times.push_back({loaded->model.processes.front().start_ns, loaded->model.processes.front().end_ns});
  const auto steps = static_cast<double>(std::max<int64_t>(run.time.steps, 1));
  AddCounts(loaded->model, times, steps, &read.counts);
  const IntervalSet all(std::move(times));
  AddLooks({all.intervals().front().start_ns, all.intervals().back().end_ns}, steps, &read.counts);
  return read;
}

}  // namespace dlhook::analyzer::cli
