// Tables `counters` and `counters_over_time`: rows of every kind add up to the counts; derived columns; runs without
// counters.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analyzer/calls/choices.h"
#include "analyzer/tables/tables.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace {

using Scope = ScopeKind;

class CountersTableTest : public testing::Test {
 protected:
  // Readings {time, values…}.
  void AddSeries(ThreadIndex thread, uint32_t tid, CounterKind kind, const std::vector<std::string>& names,
                 const std::vector<std::vector<uint64_t>>& readings) {
    CounterSeries series;
    series.thread = thread;
    series.tid = tid;
    series.kind = kind;
    series.source = CounterSource::kPerfRead;
    for (const std::string& name : names) series.names.push_back(builder_.AddName(name));
    for (const std::vector<uint64_t>& reading : readings) {
      series.time_ns.push_back(static_cast<int64_t>(reading[0]));
      series.value.insert(series.value.end(), reading.begin() + 1, reading.end());
    }
    builder_.model().counters.push_back(std::move(series));
  }

  // A product, a scope of the framework, a worker, and the process as a whole.
  void AddRun() {
    builder_.Call(builder_.AddOp(GemmDefinition(8, 8, 8, "NN")), 100, 100);
    builder_.Scope("aten::relu", Scope::kFrameworkOp, 300, 100);
    AddSeries(0, 1, CounterKind::kBoundary, {"minor-faults", "task-clock"},
              {{100, 0, 0}, {200, 7, 100}, {300, 7, 100}, {400, 10, 150}});
    AddSeries(kNone, 2, CounterKind::kSample, {"task-clock", "minor-faults"}, {{150, 0, 0}, {450, 300, 3}});
    AddSeries(kNone, 0, CounterKind::kSample, {"task-clock"}, {{0, 0}, {500, 500}});
  }

  Table Run(TableOptions options,
            absl::StatusOr<Table> (*pass)(const TraceModel&, const TableOptions&) = CountersTable) {
    model_ = builder_.Build(500);
    const Choices choices = ResolveChoices(&model_);
    const RunTotals totals = ComputeTotals(model_);
    const LayerAnalysis analysis(model_);
    options.choices = &choices;
    options.totals = &totals;
    options.analysis = &analysis;
    absl::StatusOr<Table> table = pass(model_, options);
    EXPECT_TRUE(table.ok());
    CheckShape(*table);
    return *table;
  }

  ModelBuilder builder_;
  TraceModel model_;
};

TEST_F(CountersTableTest, RowsAreWhatTheProgramDid) {
  AddRun();
  const Table table = Run({});
  EXPECT_EQ(Sum(table, "task_clock"), 500) << "the process as a whole";
  EXPECT_EQ(Sum(table, "wall_share"), 500);
  // Of the worker's 300: 50 during the product, 100 during the op, the rest during nothing.
  const size_t product = RowWhere(table, {{"layer", "[other library calls]"}});
  EXPECT_EQ(Integer(table, product, "task_clock"), 150);
  EXPECT_EQ(Integer(table, product, "minor_faults"), 7 + 1) << "half a fault by the largest rest";
  EXPECT_DOUBLE_EQ(Real(table, product, "running_percent"), 100) << "of the thread itself";
  EXPECT_NEAR(Real(table, product, "estimated_percent"), 100.0 * 50 / 150, 1e-9);
  EXPECT_DOUBLE_EQ(Real(table, product, "cpus_used"), 1.5);
  const size_t op = RowWhere(table, {{"layer", "[other framework ops]"}});
  EXPECT_EQ(Integer(table, op, "task_clock"), 150);
  EXPECT_DOUBLE_EQ(Real(table, op, "running_percent"), 50) << "it waited half of the time";
  EXPECT_EQ(Integer(table, RowWhere(table, {{"layer", "[other threads]"}}), "task_clock"), 150);
  EXPECT_EQ(Integer(table, RowWhere(table, {{"layer", "[not sampled]"}}), "task_clock"), 500 - 450);
  EXPECT_NE(table.notes[0].find("process as a whole: 500 ns"), std::string::npos) << table.notes[0];
}

TEST_F(CountersTableTest, EveryDivisionHasTheSameSum) {
  AddRun();
  for (By by : {By::kLayer, By::kPhase, By::kStep, By::kScope, By::kThread}) {
    TableOptions options;
    options.by = by;
    const Table table = Run(options);
    EXPECT_EQ(Sum(table, "task_clock"), 500) << static_cast<int>(by);
    EXPECT_EQ(Sum(table, "minor_faults"), 13) << static_cast<int>(by);
  }
  TableOptions by_op, by_interval;
  by_op.by = By::kOp;
  by_interval.interval_ns = 100;
  EXPECT_EQ(Sum(Run(by_op), "task_clock"), 500);
  const Table by_time = Run(by_interval, CountersOverTimeTable);
  EXPECT_EQ(Sum(by_time, "task_clock"), 500);
  ASSERT_EQ(by_time.rows.size(), 5u + 1);
  EXPECT_EQ(Integer(by_time, 1, "start"), 100);
  EXPECT_EQ(Integer(by_time, 1, "task_clock"), 100 + 50);
}

TEST_F(CountersTableTest, ColumnsFollowTheCounters) {
  builder_.Call(builder_.AddOp(GemmDefinition(8, 8, 8, "NN")), 0, 500);
  AddSeries(0, 1, CounterKind::kBoundary, {"cycles", "instructions", "cpu/event=0x3c;umask=0/"},
            {{0, 0, 0, 0}, {500, 1000, 2500, 3}});
  const Table table = Run({});
  EXPECT_EQ(Integer(table, 0, "cycles"), 1000);
  EXPECT_EQ(Integer(table, 0, "cpu_event_0x3c_umask_0_"), 3);
  EXPECT_DOUBLE_EQ(Real(table, 0, "ipc"), 2.5);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(At(table, 0, "running_percent"))) << "no counter tells of time";
}

TEST_F(CountersTableTest, ARunWithoutCountersSaysHowToGetThem) {
  builder_.Call(builder_.AddOp(GemmDefinition(8, 8, 8, "NN")), 0, 500);
  for (const auto pass : {CountersTable, CountersOverTimeTable}) {
    const Table table = Run({}, pass);
    EXPECT_TRUE(table.rows.empty());
    EXPECT_NE(table.notes[0].find("DLHOOK_COUNTERS=software"), std::string::npos);
    EXPECT_NO_FATAL_FAILURE(ColumnIndex(table, "task_clock"));  // so that --explain knows it
    EXPECT_NO_FATAL_FAILURE(ColumnIndex(table, "ipc"));
  }
}

}  // namespace
}  // namespace dlhook::analyzer
