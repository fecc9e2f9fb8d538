// What is told of simulated rounds with known truth: parts of a step, and places beyond the rest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/whatif/contend_table.h"

namespace dlhook::analyzer {
namespace contend_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int kOperations = 20;
constexpr double kOperationNs = 1e6;

// How a step goes: factors of the wait and of the work, the latter of one operation alone, and how runs scatter.
struct Truth {
  double wait = 0;  // for each ns of work
  double work = 1;
  double planted = 1;  // of operation 3
  double spread = 0.02;
};

ContendedRun Run(const Truth& truth, std::mt19937* random) {
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  ContendedRun run;
  run.states.emplace();
  const double machine = std::exp(truth.spread * normal(*random));
  for (int i = 0; i < kOperations; ++i) {
    const double work = kOperationNs * truth.work * (i == 3 ? truth.planted : 1) * machine;
    // Few long waits, at any operation: in 3 of 10 of its 20 calls.
    double wait = 0;
    for (int step = 0; step < 20; ++step) wait += uniform(*random) < 0.3 ? (0.5 + uniform(*random)) / 0.3 / 20 : 0;
    wait *= truth.wait * work;
    run.states->running_ns += work;
    run.states->waiting_ns += wait;
    run.places_ns[{PlaceLevel::kOperation, absl::StrCat("op", i), "m1"}] = work + wait;
    run.places_ns[{PlaceLevel::kLayer, absl::StrCat("layer", i / 4), ""}] += work + wait;
    run.wall_ns += work + wait;
  }
  run.cpu_ns = run.states->running_ns;
  run.counts["instructions"] = run.cpu_ns;
  return run;
}

Contended Play(const Truth& alone, const Truth& beside, size_t rounds, std::mt19937* random) {
  Contended contended = {.unit = "training step",
                         .neighbours = {{.name = "cache",
                                         .copies = 2,
                                         .intensity = 1,
                                         .moves_bytes = true,
                                         .seconds = 2,
                                         .processor_seconds = 1,
                                         .bytes = 4e9}}};
  while (contended.rounds.size() < rounds) {
    ContendedRun first = Run(alone, random);
    contended.rounds.emplace_back(std::move(first), Run(beside, random));
  }
  return contended;
}

std::string CellOf(const Table& table, const std::string& key, const std::string& column) {
  for (const Row& row : table.rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const bool is_row =
          std::any_of(row.begin(), row.begin() + 2, [&](const Cell& cell) { return cell == Cell(key); });
      if (!is_row || table.columns[i].name != column) continue;
      if (const auto* text = std::get_if<CellString>(&row[i])) return *text;
      if (const auto* real = std::get_if<double>(&row[i])) return absl::StrCat(*real);
    }
  }
  return "";
}

std::vector<std::string> Beyond(const Table& places) {
  std::vector<std::string> names;
  for (const Row& row : places.rows) {
    if (row.back() == Cell("more than the rest") || row.back() == Cell("only beside"))
      names.push_back(std::get<CellString>(row[1]));
  }
  return names;
}

TEST(ContendTest, AWaitIsToldApartFromProcessorTime) {
  std::mt19937 random(4711);
  const Contended contended = Play({.spread = 0.004}, {.wait = 0.8, .spread = 0.004}, 10, &random);
  EXPECT_TRUE(IsDecided(contended.rounds));
  const std::vector<Table> tables = ContendTables(contended);
  EXPECT_THAT(tables.front().title, HasSubstr("beside 2 loads on cache a training step takes 1."));
  EXPECT_THAT(tables.front().title, HasSubstr("moved: wait for a processor +"));
  EXPECT_EQ(CellOf(tables.front(), "training step", "outcome"), "longer");
  EXPECT_EQ(CellOf(tables.front(), "waiting", "outcome"), "longer");
  EXPECT_EQ(CellOf(tables.front(), "running", "outcome"), "unchanged");
  EXPECT_EQ(CellOf(tables.front(), "blocked", "outcome"), "unchanged");
  EXPECT_THAT(Beyond(tables[1]), IsEmpty());
  EXPECT_EQ(CellOf(tables[2], "instructions", "outcome"), "unchanged");
  EXPECT_EQ(CellOf(tables[3], "cache", "bandwidth"), "2");
}

TEST(ContendTest, AnOperationIsFoundAmongWaits) {
  std::mt19937 random(4712);
  const std::vector<Table> tables = ContendTables(Play({.wait = 0.1}, {.wait = 0.1, .planted = 10}, 10, &random));
  EXPECT_THAT(Beyond(tables[1]), ElementsAre("layer0", "op3"));
  EXPECT_THAT(tables.front().title, HasSubstr("more than the rest: op3 "));
  EXPECT_NE(CellOf(tables[1], "op1", "outcome"), "less than the rest");
  EXPECT_EQ(CellOf(tables.front(), "running", "outcome"), "longer");
}

TEST(ContendTest, WhatRunsOnlyBesideNeighboursIsNamed) {
  std::mt19937 random(4713);
  Contended contended = Play({}, {}, 6, &random);
  for (auto& [alone, beside] : contended.rounds) beside.places_ns[{PlaceLevel::kOperation, "other", "m2"}] = 1e7;
  const std::vector<Table> tables = ContendTables(contended);
  EXPECT_THAT(Beyond(tables[1]), ElementsAre("other"));
  EXPECT_NE(CellOf(tables[1], "op1", "outcome"), "less than the rest");
  EXPECT_THAT(tables.front().title, HasSubstr("more than the rest: other only beside"));
}

TEST(ContendTest, EqualRunsAndCommonFactorsBlameNothing) {
  std::mt19937 random(4714);
  constexpr int kTrials = 200;
  int alarms = 0, wrong = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const std::vector<Table> tables =
        ContendTables(Play({.wait = 0.3}, {.wait = trial % 2 == 0 ? 0.3 : 1.5}, 6 + trial % 10, &random));
    alarms += Beyond(tables[1]).empty() ? 0 : 1;
    wrong += CellOf(tables.front(), "running", "outcome") == "longer" ? 1 : 0;
  }
  EXPECT_LE(alarms, kTrials / 20);
  EXPECT_LE(wrong, kTrials / 20);
}

TEST(ContendTest, WhatIsNotKnownIsSaid) {
  Contended contended = {.unit = "run", .neighbours = {{.name = "make -j", .copies = 1}}};
  EXPECT_THAT(ContendTables(contended).front().title, HasSubstr("beside 1 x 'make -j' a run was not measured"));
  std::mt19937 random(4715);
  contended = Play({}, {.work = 2}, 2, &random);
  EXPECT_FALSE(IsDecided(contended.rounds));
  EXPECT_EQ(CellOf(ContendTables(contended).front(), "running", "outcome"), "not told apart");
  contended = Play({}, {.work = 2}, 8, &random);
  contended.rounds.front().first.states.reset();
  const std::string title = ContendTables(contended).front().title;
  EXPECT_THAT(title, HasSubstr("takes 2.0"));
  EXPECT_THAT(title, HasSubstr("was not seen in all runs"));
  EXPECT_THAT(title, Not(HasSubstr("unchanged")));
}

}  // namespace contend_test
}  // namespace dlhook::analyzer
