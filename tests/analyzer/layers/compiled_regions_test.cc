// JAX on the CPU: one compiled region instead of layers made of slices of products.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "analyzer/layers/framework/framework_links.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace {

constexpr char kSlice[] =
    "onednn_verbose,v1,primitive,exec,cpu,gemm_api,,undef,src_f32::blocked:ab:f0 wei_f32::blocked:ab:f0 "
    "dst_f32::blocked:ab:f0,,,216x24:24x240,0.01";

void AddTap(const std::string& object, ProcessIndex process, ModelBuilder* builder) {
  Capability& capability = builder->model().processes[process].capabilities.emplace_back();
  capability.name = "onednn-tap";
  capability.state = CapabilityState::kOn;
  capability.object = object;
}

// As if pointers, shapes or order had assigned layers to all calls.
Attribution GuessedLayers(const TraceModel& model) {
  Attribution attribution;
  attribution.layers.resize(2);
  attribution.layers[0].name = "fc1";
  attribution.layers[1].name = "fc2";
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    attribution.of_call.push_back({call % 2, LayerDirection::kForward});
  }
  attribution.of_scope.Fill(model.scopes.size(), Place());
  attribution.oddities["a call outside of every sequence"] = 2;
  return attribution;
}

TEST(CompiledRegionsTest, JaxIsOneRegionOverAllItsThreads) {
  ModelBuilder builder;
  AddTap("libjax_common.so", 0, &builder);
  const ThreadIndex pool = builder.AddThread();
  const OpIndex slice = builder.AddOp(OneDnnDefinition(kSlice));
  builder.Call(slice, 0, 10);
  builder.Call(slice, 5, 10, pool);
  const TraceModel model = builder.Build();
  Attribution attribution = GuessedLayers(model);
  AttributeCompiledRegions(model, &attribution);
  ASSERT_EQ(attribution.layers.size(), 1u);
  EXPECT_EQ(attribution.layers[0].name, "compiled by XLA");
  EXPECT_TRUE(attribution.layers[0].is_compiled_region);
  EXPECT_TRUE(attribution.oddities.empty());
  EXPECT_THAT(attribution.layers[0].ambiguity, testing::HasSubstr("does not say"));
  for (const Place& place : attribution.of_call) {
    EXPECT_EQ(place.layer, 0u);
    EXPECT_EQ(place.direction, LayerDirection::kUnknown);
  }
}

TEST(CompiledRegionsTest, OtherLibrariesAndProcessesKeepTheirLayers) {
  ModelBuilder builder;
  AddTap("libjax_common.so", 0, &builder);
  const ProcessIndex other = builder.AddProcess();
  AddTap("libtorch_cpu.so", other, &builder);
  const ThreadIndex other_thread = builder.AddThread(other);
  builder.Call(builder.AddOp(GemmDefinition(20, 20, 20, "NN")), 0, 10);  // NumPy's, in JAX's process
  builder.Call(builder.AddOp(OneDnnDefinition(kSlice)), 0, 10, other_thread);
  const TraceModel model = builder.Build();
  Attribution attribution = GuessedLayers(model);
  AttributeCompiledRegions(model, &attribution);
  ASSERT_EQ(attribution.layers.size(), 2u);
  EXPECT_EQ(attribution.of_call[0].layer, 0u);
  EXPECT_EQ(attribution.of_call[1].layer, 1u);
  EXPECT_EQ(attribution.oddities.size(), 1u);
}

TEST(CompiledRegionsTest, TwoTapsInOneProcessAreNotToldApart) {
  ModelBuilder builder;
  AddTap("libjax_common.so", 0, &builder);
  AddTap("libtensorflow_cc.so.2", 0, &builder);
  builder.Call(builder.AddOp(OneDnnDefinition(kSlice)), 0, 10);
  const TraceModel model = builder.Build();
  Attribution attribution = GuessedLayers(model);
  AttributeCompiledRegions(model, &attribution);
  EXPECT_EQ(attribution.layers.size(), 2u);
}

TEST(CompiledRegionsTest, ScopesHadTheirSay) {
  ModelBuilder builder;
  AddTap("libjax_common.so", 0, &builder);
  builder.Scope("XLA runs jit_train_step", ScopeKind::kNvtxRange, 0, 100);
  const OpIndex slice = builder.AddOp(OneDnnDefinition(kSlice));
  builder.Call(slice, 10, 10);
  builder.Call(slice, 200, 10);  // outside
  const TraceModel model = builder.Build();
  Attribution attribution = GuessedLayers(model);
  AttributeCompiledRegions(model, &attribution);
  ASSERT_EQ(attribution.layers.size(), 2u);
  EXPECT_EQ(attribution.layers[attribution.of_call[0].layer].name, "fc1");
  EXPECT_EQ(attribution.layers[attribution.of_call[1].layer].name, "compiled by XLA");
}

}  // namespace
}  // namespace dlhook::analyzer
