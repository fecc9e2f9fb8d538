// Alignment of the layers of two networks.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "analyzer/diff/changes.h"

namespace dlhook::analyzer {
namespace layer_names_test {

using Layers = std::vector<std::pair<std::string, std::string>>;  // name, kind of work

Attribution Of(const Layers& network) {
  Attribution attribution;
  for (const auto& [name, type] : network) {
    Layer& layer = attribution.layers.emplace_back();
    layer.name = name;
    layer.type = type;
  }
  return attribution;
}

NameMap Names(const Layers& base, const Layers& new_side) {
  const TraceModel no_calls;
  const Attribution before = Of(base), after = Of(new_side);
  return MatchLayerNames(NetworkSide{&no_calls, &before}, NetworkSide{&no_calls, &after});
}

TEST(LayerNamesTest, EqualNetworksKeepTheirNames) {
  const Layers network = {{"0", "convolution"}, {"1", "relu"}, {"2", "linear"}};
  EXPECT_EQ(Names(network, network), NameMap());
}

TEST(LayerNamesTest, ALayerPutInBetweenShiftsTheRest) {
  EXPECT_EQ(
      Names({{"0", "convolution"}, {"1", "relu"}, {"2", "max pooling"}, {"3", "convolution"}},
            {{"0", "convolution"}, {"1", "batch norm"}, {"2", "relu"}, {"3", "max pooling"}, {"4", "convolution"}}),
      (NameMap{{"1", "2"}, {"2", "3"}, {"3", "4"}}));
}

TEST(LayerNamesTest, ALayerThatIsGoneDoesNotPassForAnother) {
  const NameMap names =
      Names({{"0", "convolution"}, {"1", "batch norm"}, {"2", "relu"}}, {{"0", "convolution"}, {"1", "relu"}});
  EXPECT_EQ(names.at("2"), "1");
  EXPECT_NE(names.at("1"), "1");
}

TEST(LayerNamesTest, RenamedLayersAreFoundByPlaceAndKind) {
  EXPECT_EQ(Names({{"conv1", "convolution"}, {"fc", "linear"}}, {{"stem", "convolution"}, {"head", "linear"}}),
            (NameMap{{"conv1", "stem"}, {"fc", "head"}}));
}

TEST(LayerNamesTest, AnotherKindOfWorkUnderTheSameNameInTheSamePlaceIsTheSameLayer) {
  EXPECT_EQ(Names({{"0", "convolution"}, {"1", "relu"}}, {{"0", "convolution"}, {"1", "gelu"}}), NameMap());
}

}  // namespace layer_names_test
}  // namespace dlhook::analyzer
