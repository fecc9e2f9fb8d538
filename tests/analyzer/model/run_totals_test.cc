// Totals, self times and wall shares; the shares against a slow and obvious computation.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer {
namespace {

TraceModel ModelOfOps(const std::vector<std::string>& kinds) {
  TraceModel model;
  for (const std::string& kind : kinds) {
    model.ops.emplace_back();
    model.ops.back().kind = kind;
  }
  return model;
}

CallIndex AddCall(TraceModel* model, ThreadIndex thread, OpIndex op, int64_t start, int64_t end,
                  CallIndex parent = kNone) {
  CallColumns& calls = model->calls;
  calls.start_ns.push_back(start);
  calls.duration_ns.push_back(end - start);
  calls.self_ns.push_back(end - start);
  calls.op.push_back(op);
  calls.thread.push_back(thread);
  calls.parent.push_back(parent);
  calls.sequence.push_back(calls.size() + 1);
  if (parent != kNone) calls.self_ns[parent] -= end - start;
  return static_cast<CallIndex>(calls.size() - 1);
}

AggregateRow Aggregate(OpIndex op, ThreadIndex thread, int64_t start, int64_t end, int64_t count, int64_t sum) {
  AggregateRow row;
  row.op = op;
  row.thread = thread;
  row.window_start_ns = start;
  row.window_end_ns = end;
  row.count = count;
  row.sum_ns = sum;
  row.min_ns = 1;
  row.max_ns = sum;
  return row;
}

int64_t SumOfShares(const RunTotals& totals) {
  int64_t sum = totals.unattributed_ns;
  for (const OpTotals& op : totals.ops) sum += op.wall_share_ns;
  return sum;
}

TEST(RunTotals, CountsCallsAndTheirTimes) {
  TraceModel model = ModelOfOps({"gemm", "gemm", "conv"});
  model.end_ns = 1000;
  const CallIndex cblas = AddCall(&model, 0, 0, 100, 300);
  AddCall(&model, 0, 1, 120, 280, cblas);
  const CallIndex conv = AddCall(&model, 0, 2, 400, 600);
  AddCall(&model, 0, 1, 450, 500, conv);
  const RunTotals totals = ComputeTotals(model);
  EXPECT_EQ(totals.ops[0].calls, 1);
  EXPECT_EQ(totals.ops[0].total_ns, 200);
  EXPECT_EQ(totals.ops[0].self_ns, 40);
  EXPECT_EQ(totals.ops[1].calls, 2);
  EXPECT_EQ(totals.ops[1].nested_calls,
            1);  // inside a gemm: the same work; inside a convolution: not
  EXPECT_EQ(totals.ops[1].total_ns, 50);
  EXPECT_EQ(totals.ops[1].self_ns, 210);
  EXPECT_EQ(totals.ops[1].min_ns, 50);
  EXPECT_EQ(totals.ops[1].max_ns, 160);
  EXPECT_EQ(totals.thread_time_ns, 400);
  EXPECT_EQ(totals.unattributed_ns, 600);
  EXPECT_EQ(totals.in_library_wall_ns, 400);
  EXPECT_EQ(totals.ops[1].wall_share_ns, 210);  // one thread: the self time
}

TEST(RunTotals, DividesAMomentAmongTheThreadsActiveInIt) {
  TraceModel model = ModelOfOps({"a", "b", "c"});
  model.end_ns = 700;
  AddCall(&model, 0, 0, 0, 300);
  AddCall(&model, 1, 1, 0, 300);
  AddCall(&model, 2, 2, 200, 300);
  const RunTotals totals = ComputeTotals(model);
  EXPECT_EQ(totals.unattributed_ns, 400);
  EXPECT_EQ(SumOfShares(totals), 700);
  EXPECT_NEAR(totals.ops[0].wall_share_ns, 133, 1);
  EXPECT_NEAR(totals.ops[1].wall_share_ns, 133, 1);
  EXPECT_NEAR(totals.ops[2].wall_share_ns, 33, 1);
}

TEST(RunTotals, HasNoNestedCallsBetweenMakingAndExecuting) {
  TraceModel model = ModelOfOps({"conv", "conv"});
  model.ops[1].is_creation = true;
  model.end_ns = 100;
  AddCall(&model, 0, 1, 10, 20, AddCall(&model, 0, 0, 0, 50));
  EXPECT_EQ(ComputeTotals(model).ops[1].nested_calls, 0);
}

TEST(RunTotals, SpreadsAggregatesOverWhatIsIdleInTheirWindow) {
  TraceModel model = ModelOfOps({"a", "b"});
  model.end_ns = 1000;
  AddCall(&model, 0, 0, 0, 200);
  model.aggregates.push_back(Aggregate(1, 0, 100, 500, 10, 150));
  const RunTotals totals = ComputeTotals(model);
  EXPECT_EQ(totals.ops[0].wall_share_ns, 200);
  EXPECT_EQ(totals.ops[1].wall_share_ns, 150);
  EXPECT_EQ(totals.unattributed_ns, 650);
  EXPECT_EQ(totals.ops[1].calls, 10);
  EXPECT_EQ(totals.ops[1].total_ns, 150);
  EXPECT_EQ(totals.ops[1].self_ns, 150);
  EXPECT_EQ(totals.thread_time_ns, 350);
}

TEST(RunTotals, GivesAggregatesNoMoreThanIsIdle) {
  TraceModel model = ModelOfOps({"a", "b"});
  model.end_ns = 1000;
  AddCall(&model, 0, 0, 0, 450);
  model.aggregates.push_back(Aggregate(1, 1, 0, 500, 10, 500));
  const RunTotals totals = ComputeTotals(model);
  EXPECT_EQ(totals.ops[0].wall_share_ns, 450);
  EXPECT_EQ(totals.ops[1].wall_share_ns, 50);
  EXPECT_EQ(totals.unattributed_ns, 500);
}

TEST(RunTotals, TakesThreadsOfAggregatesToBeIndependent) {
  TraceModel model = ModelOfOps({"a", "b"});
  model.end_ns = 1000;
  model.aggregates.push_back(Aggregate(0, 0, 0, 1000, 10, 500));
  model.aggregates.push_back(Aggregate(1, 1, 0, 1000, 10, 500));
  const RunTotals totals = ComputeTotals(model);
  EXPECT_EQ(totals.ops[0].wall_share_ns, 375);
  EXPECT_EQ(totals.ops[1].wall_share_ns, 375);
  EXPECT_EQ(totals.unattributed_ns, 250);
}

TEST(RunTotals, DoesNotCountTheTimeOfNestedAggregatedCallsTwice) {
  TraceModel model = ModelOfOps({"gemm", "gemm"});
  model.end_ns = 1000;
  model.aggregates.push_back(Aggregate(0, 0, 0, 1000, 10, 500));
  AggregateRow inner = Aggregate(1, 0, 0, 1000, 10, 400);
  inner.nested_count = 10;
  inner.nested_sum_ns = 400;
  model.aggregates.push_back(inner);
  const RunTotals totals = ComputeTotals(model);
  EXPECT_EQ(totals.thread_time_ns, 500);
  EXPECT_EQ(totals.ops[0].wall_share_ns, 500);
  EXPECT_EQ(totals.ops[1].wall_share_ns, 0);
  EXPECT_EQ(totals.ops[1].nested_calls, 10);
  EXPECT_EQ(totals.ops[1].total_ns, 0);
}

// --- Random sets of calls ---

class RandomCalls {
 public:
  explicit RandomCalls(uint32_t seed) : random_(seed) {}

  TraceModel Make(int threads) {
    TraceModel model = ModelOfOps({"a", "b", "c", "d", "e"});
    model.start_ns = 1'000'000;
    model.end_ns = model.start_ns + 100 + UpTo(5'000);
    for (int thread = 0; thread < threads; ++thread) {
      Fill(&model, thread, model.start_ns, model.end_ns, kNone, 0);
    }
    return model;
  }

  int64_t UpTo(int64_t limit) { return static_cast<int64_t>(random_() % (limit + 1)); }

 private:
  // Calls one after another between `start` and `end`, adjacent or not, some without length, some with children.
  void Fill(TraceModel* model, ThreadIndex thread, int64_t start, int64_t end, CallIndex parent, int depth) {
    while (start < end && UpTo(8) != 0) {
      const int64_t from = std::min(end, start + UpTo(3) * UpTo(100));
      const int64_t to = std::min(end, from + UpTo(3) * UpTo(200));
      const CallIndex call = AddCall(model, thread, static_cast<OpIndex>(UpTo(4)), from, to, parent);
      if (depth < 3) Fill(model, thread, from, to, call, depth + 1);
      start = to;
    }
  }

  std::mt19937 random_;
};

// By definition: between any two edges, the innermost call of each thread.
std::vector<double> SharesByDefinition(const TraceModel& model, int threads) {
  const CallColumns& calls = model.calls;
  std::set<int64_t> times = {model.start_ns, model.end_ns};
  for (size_t i = 0; i < calls.size(); ++i) {
    times.insert(calls.start_ns[i]);
    times.insert(calls.start_ns[i] + calls.duration_ns[i]);
  }
  std::vector<double> shares(model.ops.size() + 1, 0);  // the last element: unattributed
  for (auto time = times.begin(); std::next(time) != times.end(); ++time) {
    std::vector<size_t> innermost(threads, SIZE_MAX);
    for (size_t i = 0; i < calls.size(); ++i) {
      if (calls.start_ns[i] <= *time && *time < calls.start_ns[i] + calls.duration_ns[i])
        innermost[calls.thread[i]] = i;
    }
    const auto active = threads - std::count(innermost.begin(), innermost.end(), SIZE_MAX);
    const double length = static_cast<double>(*std::next(time) - *time);
    if (active == 0) shares.back() += length;
    for (size_t call : innermost) {
      if (call != SIZE_MAX) shares[calls.op[call]] += length / static_cast<double>(active);
    }
  }
  return shares;
}

TEST(RunTotals, WallSharesAreExactForRandomCalls) {
  for (int round = 0; round < 400; ++round) {
    const int threads = 1 + round % 8;
    const TraceModel model = RandomCalls(round).Make(threads);
    const RunTotals totals = ComputeTotals(model);
    const std::vector<double> expected = SharesByDefinition(model, threads);
    ASSERT_EQ(SumOfShares(totals), model.wall_ns()) << "round " << round;
    ASSERT_EQ(totals.unattributed_ns, static_cast<int64_t>(expected.back())) << "round " << round;
    for (size_t op = 0; op < model.ops.size(); ++op) {
      ASSERT_NEAR(static_cast<double>(totals.ops[op].wall_share_ns), expected[op], 1.01) << "round " << round;
    }
  }
}

TEST(RunTotals, SelfTimesOfAllOpsAreTheThreadTime) {
  for (int round = 0; round < 200; ++round) {
    const TraceModel model = RandomCalls(round).Make(1 + round % 8);
    const RunTotals totals = ComputeTotals(model);
    int64_t self_ns = 0;
    for (const OpTotals& op : totals.ops) self_ns += op.self_ns;
    ASSERT_EQ(self_ns, totals.thread_time_ns);
  }
}

TEST(RunTotals, WallSharesAddUpWithRandomAggregates) {
  for (int round = 0; round < 400; ++round) {
    RandomCalls random(round);
    TraceModel model = random.Make(round % 5);
    for (int64_t i = 0, count = 1 + random.UpTo(20); i < count; ++i) {
      const int64_t start = model.start_ns + random.UpTo(model.wall_ns());
      const int64_t end = start + random.UpTo(model.end_ns - start);
      model.aggregates.push_back(Aggregate(static_cast<OpIndex>(random.UpTo(4)),
                                           static_cast<ThreadIndex>(random.UpTo(3)), start, end, 1 + random.UpTo(9),
                                           random.UpTo(3'000)));
    }
    const RunTotals totals = ComputeTotals(model);
    ASSERT_EQ(SumOfShares(totals), model.wall_ns()) << "round " << round;
    ASSERT_GE(totals.unattributed_ns, 0);
    for (const OpTotals& op : totals.ops) ASSERT_GE(op.wall_share_ns, 0) << "round " << round;
  }
}

TEST(RunTotals, OfNoTraceAtAllIsZero) {
  const RunTotals totals = ComputeTotals(TraceModel());
  EXPECT_EQ(totals.unattributed_ns, 0);
  EXPECT_EQ(totals.thread_time_ns, 0);
}

}  // namespace
}  // namespace dlhook::analyzer
