// Rows of layers on the answer screen: repeated blocks in one row, no two rows with the same name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/answer/step_parts.h"
#include "analyzer/tables/columns.h"

namespace dlhook::analyzer {
namespace {

using ::testing::UnorderedElementsAre;

// `layers`: names, and what the column `second` says of them.
std::vector<std::string> NamesOf(const std::vector<std::pair<std::string, std::string>>& layers,
                                 const char* second = "type") {
  Table table;
  table.columns = {TextColumn("layer", ""), TextColumn(second, ""), IntegerColumn("time", "ns", Better::kLower, "")};
  for (const auto& [name, text] : layers) table.rows.push_back({name, text, int64_t{1000}});
  std::vector<std::string> names;
  for (const LayerRow& row : LayerRows(table)) names.push_back(row.name);
  return names;
}

TEST(LayerRowsTest, BlocksOfOneType) {
  EXPECT_THAT(NamesOf({{"encoder.0.dense", "linear"}, {"encoder.1.dense", "linear"}, {"encoder.2.dense", "linear"}}),
              UnorderedElementsAre("encoder.*.dense"));
}

// As torch.profiler's traces have them: modules are numbered by class, and an op may be in one more than once.
TEST(LayerRowsTest, OpsInBlocks) {
  std::vector<std::pair<std::string, std::string>> layers = {{"Attention_0:mul", ""}, {"Attention_0:mul#2", ""}};
  for (const char* name : {"Attention_0", "Attention_1", "Attention_2"})
    layers.push_back({absl::StrCat(name, ":softmax"), ""});
  layers.push_back({"Attention_0:cat_3", ""});
  EXPECT_THAT(NamesOf(layers),
              UnorderedElementsAre("Attention_*:softmax", "Attention_0:mul", "Attention_0:mul#2", "Attention_0:cat_3"));
  EXPECT_THAT(NamesOf({{"Net:mul", ""}, {"Net:mul#2", ""}, {"Net:mul#3", ""}}), UnorderedElementsAre("Net:mul"));
}

TEST(LayerRowsTest, NamesThatBeginWithTheirModelNeedNone) {
  EXPECT_THAT(NamesOf({{"encoder.fc", "Lit.encoder"}, {"encoder:relu", "Lit.encoder"}, {"head", "Lit.head"}}, "model"),
              UnorderedElementsAre("encoder.fc", "encoder:relu", "head"));
  EXPECT_THAT(NamesOf({{"encoder.fc", "Lit.encoder"}, {"encoder.fc", "Lit #2.encoder"}, {"encoder", "Net"}}, "model"),
              UnorderedElementsAre("Lit: encoder.fc", "Lit #2: encoder.fc", "Net: encoder"));
}

TEST(LayerRowsTest, TypesTellBlocksOfOnePatternApart) {
  EXPECT_THAT(NamesOf({{"net.0", "convolution"},
                       {"net.1", "relu"},
                       {"net.2", "convolution"},
                       {"net.3", "relu"},
                       {"net.4", "convolution"},
                       {"net.5", "relu"}}),
              UnorderedElementsAre("net.* (convolution)", "net.* (relu)"));
}

TEST(LayerRowsTest, NumbersAloneSayTooLittle) {
  EXPECT_THAT(NamesOf({{"0", "convolution"}, {"1", "relu"}}), UnorderedElementsAre("0 (convolution)", "1 (relu)"));
}

}  // namespace
}  // namespace dlhook::analyzer
