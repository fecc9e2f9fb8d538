// What a step's time consists of, as finely as possible: by layer, direction and op.
#pragma once

#include "analyzer/analysis/folded_time.h"
#include "analyzer/steps/compared_steps.h"
#include "analyzer/tables/network/layer_groups.h"
#include "analyzer/tables/tables.h"
#include "analyzer/time/time_division.h"

namespace dlhook::analyzer::inline work {

// One recurring activity.
struct Doing {
  GroupIndex group = 0;  // a result of Group()
  LayerDirection direction = LayerDirection::kUnknown;
  ActivityKind activity = ActivityKind::kUnattributed;
  uint32_t what = kNone;  // kCall, kWaiting: OpIndex; kScope: NameIndex of the scope's name
  auto operator<=>(const Doing&) const = default;
};

struct DoneSums {
  int64_t share_ns = 0;  // wall share; the sum over all activities is exactly the time of the steps
  int64_t calls = 0;     // library calls, without those nested in another call of the same kind
  int64_t begun = 0;     // framework's ops
};

// Over all steps of the analysis, or the whole run if it has none.
class StepWork {
 public:
  // `time`: of this analysis, or of one with more steps.
  StepWork(const TraceModel& model, const LayerAnalysis& analysis, const FoldedTime& time);

  const std::map<Doing, DoneSums>& sums() const { return sums_; }
  const LayerGroup& Group(const Doing& doing) const { return groups_.groups()[doing.group]; }

 private:
  using Intervals = std::vector<Interval>;
  struct DoingHash {
    size_t operator()(const Doing& doing) const;
  };

  static std::vector<Intervals> IntervalsOf(const TraceModel& model, const std::vector<StepTrack>& tracks);
  DoneSums& SumsOf(const Doing& doing);
  Doing DoingOf(const TimePiece& piece) const;
  Doing OfCall(CallIndex call) const;
  Doing OfScope(ScopeIndex scope) const;
  void CountCalls();
  void CountScopes(const FoldedTime& time);

  const TraceModel& model_;
  const Attribution& attribution_;
  const LayerGroups groups_;
  std::vector<IntervalFinder> steps_;  // by process
  std::map<Doing, DoneSums> sums_;
  absl::flat_hash_map<Doing, DoneSums*, DoingHash> known_;  // in sums_
};

// The steady steps of the kind that takes most time, and what they consist of; without steps, the whole run.
struct MainWork {
  MainWork(const TraceModel& model, const TableOptions& options);
  // The one of this analysis.
  static const MainWork& Of(const TraceModel& model, const TableOptions& options) {
    return options.analysis->Derived<MainWork>(model, options);
  }

  const ComparedSteps& steps;
  const LayerAnalysis analysis;  // of these steps
  const StepWork work;
};

// Table `work`: one row per layer, direction, op, problem and implementation, with its exact wall share. Over all steps
// of the analysis, or the whole run if it has none.
absl::StatusOr<Table> WorkTable(const TraceModel& model, const TableOptions& options);
// Over the steady steps of the kind that takes most time: for a report.
absl::StatusOr<Table> MeanWorkTable(const TraceModel& model, const TableOptions& options);

inline constexpr char kMovesData[] = "layout";  // in the column `purpose`

}  // namespace dlhook::analyzer::work
