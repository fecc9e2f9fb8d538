// Layers from calls alone on programs with known truth: networks x ways of making calls, and recorded ones. Prints the
// tables of docs/truth.md ("Layers from calls alone").
#include "tests/analyzer/layers/network_programs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/layers/structure/structure.h"

namespace dlhook::analyzer {
namespace {

struct Score {
  int64_t calls = 0;  // of layers
  int64_t named = 0;  // in rows that are sure
  int64_t right = 0;  // of these, in a right row
  int wrong_rows = 0;
  int rows = 0;
  std::string mistakes;
};

// A sum of both gradients matches either; otherwise the direction must be equal.
bool IsDirection(LayerDirection said, const CallTruth& truth) {
  return said == truth.direction || (said == LayerDirection::kBackward && IsBackward(truth.direction));
}

bool IsType(const std::string& said, const CallTruth& truth) { return said == truth.type || said == "matrix product"; }

bool IsSure(const Layer& layer) { return layer.ambiguity.empty(); }

// A row is right if all its calls have its layer and direction, and the layer is in no other row.
Score ScoreOf(const Attribution& found, const std::vector<CallTruth>& truths) {
  std::map<LayerIndex, std::map<std::string, int64_t>> votes;
  for (size_t i = 0; i < truths.size(); ++i) {
    const Place& place = found.of_call[i];
    if (place.layer != kNone) ++votes[place.layer][truths[i].layer];
  }
  std::map<LayerIndex, std::string> layer_of;
  std::map<std::string, std::pair<int64_t, LayerIndex>> best;
  for (const auto& [index, counts] : votes) {
    const auto most = std::max_element(counts.begin(), counts.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    layer_of[index] = most->first;
    if (most->second > best[most->first].first) best[most->first] = {most->second, index};
  }
  std::map<std::pair<LayerIndex, LayerDirection>, std::pair<int64_t, bool>> rows;  // calls, right
  Score score;
  for (size_t i = 0; i < truths.size(); ++i) {
    const CallTruth& truth = truths[i];
    if (!truth.layer.empty()) ++score.calls;
    const Place& place = found.of_call[i];
    if (place.layer == kNone || !IsSure(found.layers[place.layer])) continue;
    const Layer& layer = found.layers[place.layer];
    const bool right = truth.layer == layer_of[place.layer] && best[truth.layer].second == place.layer &&
                       IsDirection(place.direction, truth) && IsType(layer.type, truth);
    auto& row = rows.try_emplace({place.layer, place.direction}, 0, true).first->second;
    ++row.first;
    if (row.second && !right) {
      absl::StrAppend(&score.mistakes, "\n  call ", i, ": ", layer.name, " ", layer.type, " ",
                      LayerDirectionName(place.direction), " is ", truth.layer, " ",
                      LayerDirectionName(truth.direction));
    }
    row.second = row.second && right;
    ++score.named;
    score.right += right ? 1 : 0;
  }
  score.rows = static_cast<int>(rows.size());
  for (const auto& [key, row] : rows) score.wrong_rows += row.second ? 0 : 1;
  return score;
}

int Percent(int64_t part, int64_t whole) { return whole == 0 ? 100 : static_cast<int>(100 * part / whole); }

TEST(NetworkProgramsTest, NoWrongRowThatLooksSure) {
  std::printf("%-14s %-12s %6s %6s %6s %6s\n", "network", "way", "prec.", "recall", "wrong", "rows");
  for (const NetworkCase& network : NetworkCases()) {
    for (Way way : kWays) {
      NetworkProgram program(way);
      network.train(program);
      const Attribution found = AttributeByStructure(program.Build());
      const Score score = ScoreOf(found, program.truths());
      std::printf("%-14s %-12s %5d%% %5d%% %6d %6d\n", network.name.c_str(), WayName(way),
                  Percent(score.right, score.named), Percent(score.right, score.calls), score.wrong_rows, score.rows);
      EXPECT_GE(Percent(score.right, score.calls), network.least_recall) << network.name << ", " << WayName(way);
      EXPECT_EQ(score.wrong_rows, 0) << network.name << ", " << WayName(way) << score.mistakes;
    }
  }
}

TEST(NetworkProgramsTest, NoWrongRowInAnyNetwork) {
  int64_t right = 0, calls = 0;
  for (uint32_t seed = 0; seed < 50; ++seed) {
    for (Way way : kWays) {
      NetworkProgram program(way);
      TrainAnyNetwork(program, seed);
      const Score score = ScoreOf(AttributeByStructure(program.Build()), program.truths());
      right += score.right;
      calls += score.calls;
      EXPECT_EQ(score.wrong_rows, 0) << "seed " << seed << ", " << WayName(way) << score.mistakes;
    }
  }
  EXPECT_GE(Percent(right, calls), 95);
}

struct RecordedCase {
  const char* name;
  int least_recall;
};

// Calls of real programs (recorded/README.md), each with its known layer.
TEST(NetworkProgramsTest, RecordedPrograms) {
  std::printf("%-18s %6s %6s %6s %6s\n", "recorded", "prec.", "recall", "wrong", "rows");
  for (const RecordedCase& recorded : std::vector<RecordedCase>{{"paddle_lenet", 100},
                                                                {"mxnet_lenet", 100},
                                                                {"chainer_lenet", 100},
                                                                {"chainer_rnn", 100},
                                                                {"chainer_vgg", 100},
                                                                {"sklearn_mlp", 100},
                                                                {"autograd_mlp", 85},
                                                                {"numpy_cs231n", 100},
                                                                {"numpy_course", 65}}) {
    const RecordedProgram program = ReadRecordedProgram(recorded.name);
    const Score score = ScoreOf(AttributeByStructure(program.model), program.truths);
    std::printf("%-18s %5d%% %5d%% %6d %6d\n", recorded.name, Percent(score.right, score.named),
                Percent(score.right, score.calls), score.wrong_rows, score.rows);
    EXPECT_GT(score.calls, 0);
    EXPECT_EQ(score.wrong_rows, 0) << recorded.name << score.mistakes;
    EXPECT_GE(Percent(score.right, score.calls), recorded.least_recall) << recorded.name;
  }
}

// "fc1" would be the first layer of the program, not the first that is known.
TEST(NetworkProgramsTest, WithoutTheFirstLayersNamesAreSizes) {
  const Attribution found = AttributeByStructure(ReadRecordedProgram("numpy_course").model);
  for (const Layer& layer : found.layers) {
    EXPECT_TRUE(layer.name == "product 100x40" || layer.name == "product 40x10" || !IsSure(layer)) << layer.name;
  }
}

// A long run has operands of its first products only; then order distinguishes layers of one shape.
TEST(NetworkProgramsTest, GoesOnWithoutOperands) {
  for (const NetworkCase& network : NetworkCases()) {
    NetworkProgram all(Way::kBatches), part(Way::kBatches);
    network.train(all);
    part.KeepOperandsOf(all.truths().size() * 5 / 8);
    network.train(part);
    const Score score = ScoreOf(AttributeByStructure(part.Build()), part.truths());
    EXPECT_EQ(score.wrong_rows, 0) << network.name << score.mistakes;
    EXPECT_GE(Percent(score.right, score.calls), network.least_recall) << network.name;
  }
}

}  // namespace
}  // namespace dlhook::analyzer
