#include "analyzer/diff/diff_runs.h"

#include "analyzer/calls/scope_names.h"
#include "analyzer/diff/diff_table.h"
#include "analyzer/model/release.h"
#include "analyzer/model/scope_looks.h"
#include "analyzer/table/table_ops.h"
#include "analyzer/work/gap_lines.h"
#include "analyzer/work/step_facts.h"
#include "analyzer/work/step_work.h"

namespace dlhook::analyzer::inline diff {
namespace {

// How often functions are compiled in the whole run: "XLA compiles jit(scan)", "tf.function traces train_step".
std::map<std::string, double> CountCompilations(const TraceModel& model) {
  std::vector<std::string> functions;  // by name
  for (const std::string& name : model.names) {
    const CompiledRun run = CompiledRunOf(name);
    const char* does = run.compiler == "tf.function" ? " traces " : " compiles frame ";
    functions.push_back(run.compiler.empty() ? "" : absl::StrCat(run.compiler, does, run.function));
  }
  std::map<std::string, double> times;
  std::set<NameIndex> known;
  const auto is_of_compiler = [&](const ScopeLook& look) {
    return look.kind == ScopeKind::kXlaCompilation || !functions[look.name].empty();
  };
  ForEachScopeThat(model.scopes, is_of_compiler, [&](ScopeIndex scope) {
    const ScopeLook& look = model.scopes.look[scope];
    const bool is_xlas = look.kind == ScopeKind::kXlaCompilation;
    if (is_xlas || known.insert(look.name).second) ++times[is_xlas ? model.names[look.name] : functions[look.name]];
  });
  return times;
}

constexpr double kOtherCallsOfStep = 1.5;  // times as many
constexpr int64_t kLeastRows = 3;          // times as many: a layer of another width is no batch

constexpr TableKind kWork = {"work", "what each layer's time consists of: op, problem, algorithm, formats", WorkTable};

using Runs = std::vector<AnalyzedRun>;

// Of the kind that all runs have; else each run's most telling one; empty where a run has none.
class StepChoice {
 public:
  StepChoice(const Runs& base, const Runs& new_side) {
    for (const Runs* side : {&base, &new_side}) {
      for (const AnalyzedRun& run : *side) kinds_.push_back(KindsOfSteps(run.options.analysis->steps()));
    }
    for (StepKind kind : kinds_.front()) {
      const bool is_common = absl::c_all_of(
          kinds_, [&](const std::vector<StepKind>& kinds) { return absl::c_linear_search(kinds, kind); });
      if (is_common && !common_) common_ = kind;
    }
  }

  ComparedSteps Of(const AnalyzedRun& run) const {
    if (absl::c_any_of(kinds_, [](const auto& kinds) { return kinds.empty(); })) return {};
    const std::vector<StepTrack>& tracks = run.options.analysis->steps();
    return ChooseSteps(tracks, common_.value_or(KindsOfSteps(tracks).front()));
  }

 private:
  std::vector<std::vector<StepKind>> kinds_;  // of each run
  std::optional<StepKind> common_;
};

// What the threads that have steps did in time that is not seen.
LookSums LooksBetweenCalls(const TraceModel& model, const LayerAnalysis& analysis, const ComparedSteps& steps) {
  LookSums sums;
  if (model.states.empty()) return sums;
  const auto& looks = analysis.Derived<StateLooks>(model);
  for (const StepTrack& track : steps.tracks) {
    std::vector<Interval> times;
    for (const Step& step : track.steps) times.push_back({step.start_ns, step.end_ns});
    IntervalFinder finder(IntervalSet(std::move(times)).intervals());
    for (const StateLook& look : looks.Of(track.process)) {
      if (look.piece.kind == ActivityKind::kNotSeen && finder.Has(look.piece.start_ns)) sums.Add(look.sums);
    }
  }
  return sums;
}

// A side's runs, measured.
struct Side {
  MeasuredRun run;
  DifferenceInput input;  // its `run` is to be set

  // As if a step were this part of one.
  void Scale(double part) {
    MachineLoad& load = run.load;
    for (double* ns : {&run.time_ns, &load.cpu_ns, &load.first_thread_cpu_ns, &load.waiting_ns, &load.throttled_ns})
      *ns *= part;
    for (Samples* samples : {&run.samples, &run.low_samples, &load.cpu_samples, &load.waiting_samples})
      *samples = Scaled(std::move(*samples), part);
    for (auto& [line, ns] : run.between_lines) ns *= part;
    for (MeasuredTable& table : run.tables) {
      table.per /= part;
      for (Samples& samples : table.samples) samples = Scaled(std::move(samples), part);
    }
    for (auto* counts : {&input.work.calls, &input.work.ops, &input.work.types}) {
      for (auto& [what, count] : *counts) count *= part;
    }
  }
};

absl::StatusOr<Side> MeasureSide(const Runs& runs, const StepChoice& steps, GpuTimes gpu_times,
                                 const std::vector<const TableKind*>& kinds) {
  Side side;
  std::vector<MeasuredRun> measured;
  std::vector<DoneWork> work;
  for (const AnalyzedRun& run : runs) {
    TableOptions options = run.options;
    options.gpu_times = gpu_times;
    absl::StatusOr<MeasuredRun> one = MeasureRun(*run.model, options, steps.Of(run), kinds);
    if (!one.ok()) return one.status();
    side.input.programs.insert(ProgramOf(*run.model));
    side.input.environment.Add(EnvironmentOf(*run.model, one->load));
    side.input.sees_libraries &= absl::c_all_of(run.model->processes, SeesLibraries);
    side.input.uses_torch_compile |= run.model->HasRole(ScopeRole::kTorchRegion);
    work.push_back(CountWork(*run.model, run.options.analysis->steps(), one->steps));
    for (const auto& [function, times] : CountCompilations(*run.model)) {
      side.input.compilations[function] += times / static_cast<double>(runs.size());
    }
    one->preparing = WhoPrepares(*run.model, *run.options.analysis, one->steps, work.back().preparer());
    one->between_calls = LooksBetweenCalls(*run.model, *run.options.analysis, one->steps);
    const StepFacts facts(*run.model, run.options);
    one->around = TimeAroundSteps(facts);
    for (const GapLines& lines : GapLinesOf(facts)) one->between_lines[lines.text] += lines.ns;
    measured.push_back(*std::move(one));
  }
  side.run = MergeRuns(std::move(measured));
  for (const AnalyzedRun& run : runs) {
    if (side.run.failure.empty()) side.run.failure = run.failure;
  }
  side.input.work = MergeWork(work);
  return side;
}

// NEW's requests that do as much as one of BASE's: most of what both do is called so many times as often in a request of one
// side, and that side has so many fewer requests. Below 1: the reverse; 1: neither.
double PartsOfRequest(const Side& before, const Side& after, const NameMap& names) {
  constexpr double kLeastParts = 3, kSameWork = 0.25;  // the second as a logarithm
  const ComparedSteps &base = before.run.steps, &now = after.run.steps;
  if (base.kind == StepKind::kTraining || now.kind != base.kind || base.count() == 0 || now.count() == 0) return 1;
  const TableChanges work = CompareTables(before.run.tables.front(), after.run.tables.front(), names);
  double all_ns = 0, alike_ns = 0, flops = 0, other_flops = 0;
  const double requests = static_cast<double>(now.count()) / static_cast<double>(base.count());
  for (const RowChange& row : work.rows) {
    const WorkRow cells(work, row);
    flops += cells.Flops(true);
    other_flops += cells.Flops(false);
    const double calls = cells.Calls(true), other_calls = cells.Calls(false);
    if (calls == 0 || other_calls == 0) continue;
    const bool is_alike = std::abs(std::log(other_calls * requests / calls)) < kSameWork;
    all_ns += row.time.base_ns;
    alike_ns += is_alike ? row.time.base_ns : 0;
  }
  // Or products of other sizes, as where a batch is divided that is not known.
  const bool is_as_much = flops > 0 && other_flops > 0 && (base.batch == 0 || now.batch == 0) &&
                          std::abs(std::log(other_flops * requests / flops)) < kSameWork;
  return (alike_ns > all_ns / 2 || is_as_much) && std::abs(std::log(requests)) >= std::log(kLeastParts) ? requests : 1;
}

void SetRows(int64_t rows, ComparedSteps& steps) {
  steps.batch = rows;
  steps.batch_is_rows = true;
  for (StepTrack& track : steps.tracks) {
    for (Step& step : track.steps) step.batch = step.samples = rows;
  }
}

// Where batches are not known: one size of all that is computed differs by one and the same factor, and nothing else does; so these
// are rows of which a step has more on one side.
void TakeRows(const TableChanges& work, ComparedSteps& base, ComparedSteps& now) {
  if (base.count() == 0 || now.count() == 0 || base.batch > 0 || now.batch > 0) return;
  std::pair<std::string, std::string> sizes;
  for (const RowChange& row : work.rows) {
    const WorkRow cells(work, row);
    if (cells.Newest("problem").empty()) continue;
    if (row.rows.match != Match::kResized || cells.Differs("types")) return;
    const std::string from = cells.Problem(true), to = cells.Problem(false);
    for (const SizeChange& size : ChangedSizes(from, to)) {
      if (!sizes.first.empty() && sizes != std::pair(size.from, size.to)) return;
      sizes = {size.from, size.to};
    }
  }
  int64_t from = 0, to = 0;
  if (!absl::SimpleAtoi(sizes.first, &from) || !absl::SimpleAtoi(sizes.second, &to) || from <= 0 || to <= 0) return;
  if (std::max(from, to) < kLeastRows * std::min(from, to)) return;
  SetRows(from, base);
  SetRows(to, now);
}

// Rows of the first products are no batch that differs where a step has another number of calls: an encoder, beside a decoder of
// single tokens.
void ForgetRows(Side& before, Side& after) {
  ComparedSteps &base = before.run.steps, &now = after.run.steps;
  if (base.batch == now.batch || (!base.batch_is_rows && !now.batch_is_rows)) return;
  const auto calls = [](const Side& side) {
    double sum = 0;
    for (const auto& [kind, count] : side.input.work.calls) sum += count;
    return sum;
  };
  if (std::max(calls(before), calls(after)) < kOtherCallsOfStep * std::min(calls(before), calls(after))) return;
  SetRows(0, base);
  SetRows(0, now);
}

GpuTimes LeastGpuTimes(const Runs& base, const Runs& new_side) {
  GpuTimes least = GpuTimesOf(*base.front().model);
  for (const Runs* side : {&base, &new_side}) {
    for (const AnalyzedRun& run : *side) least = std::min(least, GpuTimesOf(*run.model));
  }
  return least;
}

NetworkSide NetworkOf(const Runs& runs) { return {runs.front().model, &runs.front().options.analysis->attribution()}; }

// Checks the columns of the table of an empty run.
bool IsComparable(const TableKind& kind) {
  TraceModel model;
  const Choices choices = ResolveChoices(&model);
  const RunTotals totals = ComputeTotals(model);
  const LayerAnalysis analysis(model);
  const absl::StatusOr<Table> table = kind.run(model, {.choices = &choices, .totals = &totals, .analysis = &analysis});
  return table.ok() && IsComparable(*table);
}

constexpr double kLongerStepsTell = 0.1;  // change of the mean step, with them
constexpr double kReasonTells = 0.5;      // of this change: gain of a finding
constexpr double kMostOfTheTime = 0.75;
constexpr double kAlike = 0.1;  // more or fewer products

// Where one side has such steps for a reason, they are not left out of the comparison.
void AddLongerSteps(const std::vector<OwnFinding>& own, const ComparedSteps& before, const ComparedSteps& after,
                    Decision& decision) {
  if (decision.per != Per::kStep || before.count() == 0 || after.count() == 0) return;
  decision.with_longer.base_ns = before.MeanWithInterruptedNs() + before.ValidationNs();
  decision.with_longer.new_ns = after.MeanWithInterruptedNs() + after.ValidationNs();
  const double change_ns = decision.with_longer.change_ns();
  const double least_ns = std::min(decision.with_longer.base_ns, decision.with_longer.new_ns);
  const OwnFinding* const found = ReasonOfLongerSteps(own, change_ns > 0);
  // Where most of the time is in them, the steady ones say little, whatever the reason.
  decision.are_longer_most = std::max(before.InterruptedPart(), after.InterruptedPart()) >= kMostOfTheTime;
  if (found == nullptr || std::abs(change_ns) < kLongerStepsTell * least_ns) return;
  // Other rules may be about steady steps, which tell it themselves, or about a part.
  if (found->rule != "longer-steps" && (std::abs(change_ns) < 2 * std::abs(decision.time.change_ns()) ||
                                        found->gain_ns - found->other_ns < kReasonTells * std::abs(change_ns)))
    return;
  decision.with_longer.finding = change_ns > 0 ? Speed::kSlower : Speed::kFaster;
}

}  // namespace

const std::vector<TableKind>& ComparableTables() {
  static const auto& kTableKinds = *[] {
    auto* kinds = new std::vector<TableKind>{kWork};
    for (const TableKind& kind : TableKinds()) {
      if (IsComparable(kind)) kinds->push_back(kind);
    }
    return kinds;
  }();
  return kTableKinds;
}

absl::StatusOr<RunsDiff> DiffRuns(const std::vector<AnalyzedRun>& base, const std::vector<AnalyzedRun>& new_side,
                                  const std::vector<const TableKind*>& kinds, std::vector<OwnFinding> own_findings) {
  std::vector<const TableKind*> all = {&kWork};
  absl::c_copy_if(kinds, std::back_inserter(all), [](const TableKind* kind) { return kind->name != kWork.name; });
  const StepChoice steps(base, new_side);
  const GpuTimes gpu_times = LeastGpuTimes(base, new_side);
  absl::StatusOr<Side> before = MeasureSide(base, steps, gpu_times, all);
  if (!before.ok()) return before.status();
  absl::StatusOr<Side> after = MeasureSide(new_side, steps, gpu_times, all);
  if (!after.ok()) return after.status();
  before->input.run = &before->run;
  after->input.run = &after->run;
  const NameMap names = MatchLayerNames(NetworkOf(base), NetworkOf(new_side));
  const double parts = PartsOfRequest(*before, *after, names);
  if (parts > 1) before->Scale(1 / parts);
  if (parts < 1) after->Scale(parts);
  std::vector<TableChanges> changes;
  for (size_t i = 0; i < all.size(); ++i) {
    changes.push_back(CompareTables(before->run.tables[i], after->run.tables[i], names));
  }
  ForgetRows(*before, *after);
  if (parts == 1) TakeRows(changes.front(), before->run.steps, after->run.steps);
  const Pace pace = FindPace(changes.front());
  const std::vector<Difference> differences = FindDifferences(before->input, after->input, changes.front(), names);
  RunsDiff diff;
  diff.environment = EnvironmentText(differences);
  diff.differences = differences;
  std::pair<double, double> flops, products;
  for (const RowChange& row : changes.front().rows) {
    const WorkRow cells(changes.front(), row);
    products.first += cells.Flops(true) > 0 ? cells.Calls(true) : 0;
    products.second += cells.Flops(false) > 0 ? cells.Calls(false) : 0;
    flops.first += cells.Flops(true);
    flops.second += cells.Flops(false);
  }
  diff.decision = Decide(before->run, after->run, pace, differences.empty(), flops);
  diff.decision.parts = parts;
  for (OwnFinding& finding : own_findings) {
    const Runs& runs = finding.is_of_new ? new_side : base;
    const auto steps = static_cast<double>(MainSteps(runs.front().options.analysis->steps()).AllCount());
    const auto run_ns = static_cast<double>(runs.front().model->wall_ns());
    finding.steps = std::max(finding.whole_ns > 0 ? run_ns / finding.whole_ns : steps, 1.0);
  }
  AddLongerSteps(own_findings, before->run.steps, after->run.steps, diff.decision);
  const Pace& own = diff.decision.pace;
  const std::vector<Cause> causes =
      FindCauses({&changes.front(), &names, &before->run, &after->run, &diff.decision, &differences});
  diff.tables.push_back(VerdictTable({&before->run, &after->run, &diff.decision, differences, causes,
                                      FindContributions(changes.front(), names, own), std::move(own_findings), flops,
                                      std::abs(products.second - products.first) <= kAlike * products.first}));
  diff.tables.push_back(CausesTable(causes, diff.decision));
  diff.tables.push_back(DifferencesTable(differences));
  for (TableChanges& table : changes) JudgeRows(own, table);
  for (const TableKind* kind : kinds) {
    const auto place = absl::c_find_if(all, [&](const TableKind* other) { return other->name == kind->name; });
    diff.tables.push_back(DiffTable(changes[static_cast<size_t>(place - all.begin())]));
  }
  for (Table& table : diff.tables) TakeAwayNonsense(&table);
  return diff;
}

}  // namespace dlhook::analyzer::diff
