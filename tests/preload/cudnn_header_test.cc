// What the tracker knows of cuDNN's numbers against the genuine headers: every operation has a name, every tensor of every
// operation is taken for an output exactly if it is one, every data type is known.
#include "tests/cudnn_header.h"

#include <gtest/gtest.h>

#include <cctype>
#include <regex>
#include <set>

#include "preload/abi/cuda_types.h"
#include "preload/track/cudnn_nodes.h"
#include "tests/preload/frontend.h"

namespace dlhook {
namespace {

class CudnnHeaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (enums_.empty()) GTEST_SKIP() << "SKIPPED: cudnn_header_test: no headers of cuDNN (build/venv-nvidia)";
    ASSERT_NE(Attach(), nullptr);
    *FakeRuntimeAnswers() = {};
    *FakeBackendAnswers() = {};
  }
  // CUDNN_…
  int64_t NumberOf(const std::string& enumeration, const std::string& name) const {
    for (const auto& [enumerator, number] : enums_.at(enumeration)) {
      if (enumerator == "CUDNN_" + name) return number;
    }
    ADD_FAILURE() << name;
    return -1;
  }

  const std::map<std::string, Enumerators> enums_ = ReadCudnnEnums(DLHOOK_SOURCE);
};

trace::Cudnn PlanOf(Handle operation) {
  Handle graph = Graph({operation});
  const std::vector<Handle> configurations = Heuristics(graph, 1, 1, 1);
  Handle plan = Plan(configurations[0]);
  const trace::Cudnn described = Described(plan);
  Destroy({operation, graph, plan});
  Destroy(configurations);
  return described;
}

std::string Replace(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// "CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR" -> "normalization_forward".
std::string OperationOf(const std::string& enumerator) {
  constexpr char kPrefix[] = "CUDNN_BACKEND_OPERATION_", kSuffix[] = "_DESCRIPTOR";
  std::string name = enumerator.substr(sizeof kPrefix - 1);
  name.resize(name.size() - (sizeof kSuffix - 1));
  for (char& c : name) c = static_cast<char>(tolower(c));
  for (const auto& [from, to] : {std::pair{"_fwd", "_forward"},
                                 {"_bwd", "_backward"},
                                 {"backward_filter", "backward_weights"},
                                 {"bn_finalize_statistics", "batch_normalization_finalize"},
                                 {"bn_", "batch_normalization_"},
                                 {"norm_", "normalization_"},
                                 {"sdpa_", "attention_"}})
    name = Replace(name, from, to);
  return name;
}

TEST_F(CudnnHeaderTest, EveryOperationHasItsName) {
  int operations = 0;
  for (const auto& [enumerator, number] : enums_.at("cudnnBackendDescriptorType_t")) {
    if (enumerator.rfind("CUDNN_BACKEND_OPERATION_", 0) != 0) continue;
    ++operations;
    Handle tensor = Tensor(1, 0, {2, 2}, {2, 1});
    const trace::Cudnn cudnn = PlanOf(Operation(static_cast<int32_t>(number), {{750, tensor}}));
    EXPECT_EQ(cudnn.operation(), OperationOf(enumerator)) << enumerator;
    Destroy(tensor);
  }
  EXPECT_GT(operations, 20);
}

// By what their names say: what an operation writes is y, o, dx … or an output, except where a name is of something that the
// operation's inverse writes.
bool IsOutput(const std::string& name) {
  static const std::set<std::string> kOthers = {"GENSTATS_SUMDESC",
                                                "GENSTATS_SQSUMDESC",
                                                "BN_FINALIZE_UPDATED_RUNNING_MEAN_DESC",
                                                "BN_FINALIZE_UPDATED_RUNNING_VAR_DESC",
                                                "BN_FINALIZE_SAVED_MEAN_DESC",
                                                "BN_FINALIZE_SAVED_INV_STD_DESC",
                                                "BN_FINALIZE_EQ_SCALE_DESC",
                                                "BN_FINALIZE_EQ_BIAS_DESC",
                                                "MATMUL_CDESC",
                                                "BN_BWD_WEIGHTS_DBN_SCALE_DESC",
                                                "BN_BWD_WEIGHTS_DBN_BIAS_DESC",
                                                "BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC",
                                                "BN_BWD_WEIGHTS_EQ_X_SCALE_DESC",
                                                "BN_BWD_WEIGHTS_EQ_BIAS",
                                                "RESAMPLE_FWD_IDXDESC",
                                                "NORM_FWD_MEAN_DESC",
                                                "NORM_FWD_INV_VARIANCE_DESC",
                                                "NORM_FWD_OUTPUT_RUNNING_MEAN_DESC",
                                                "NORM_FWD_OUTPUT_RUNNING_VAR_DESC",
                                                "NORM_BWD_DSCALE_DESC",
                                                "NORM_BWD_DBIAS_DESC",
                                                "BLOCK_SCALE_QUANTIZE_SCALE_DESC",
                                                "SDPA_FWD_STATSDESC",
                                                "SDPA_FWD_DROPOUT_RNG_DUMP_DESC",
                                                "SDPA_BWD_DSINK_DESC",
                                                "MOE_GROUPED_MATMUL_BWD_DWEIGHT_DESC",
                                                "SOFTMAX_STATS_DESC",
                                                "SOFTMAX_MAX_DESC",
                                                "SOFTMAX_SUM_EXP_DESC"};
  static const std::regex kPattern(
      "(?!RESAMPLE_BWD_Y|SDPA_BWD_O).*(_YDESC|_DXDESC|_Y|_DX|_DW|_ODESC|_D[QKV]DESC|_OUTPUT_DESC)");
  return kOthers.contains(name) || std::regex_match(name, kPattern);
}

TEST_F(CudnnHeaderTest, EveryTensorIsInputOrOutput) {
  constexpr char kPrefix[] = "CUDNN_ATTR_OPERATION_";
  int outputs = 0;
  for (const auto& [enumerator, number] : enums_.at("cudnnBackendAttributeName_t")) {
    if (enumerator.rfind(kPrefix, 0) != 0) continue;
    Handle tensor = Tensor(7, 0, {2, 2}, {2, 1});
    const trace::Cudnn cudnn = PlanOf(Operation(13, {{static_cast<int32_t>(number), tensor}}));
    Destroy(tensor);
    ASSERT_EQ(cudnn.plan().node_size(), 1) << enumerator;
    const bool is_output = cudnn.plan().node(0).output_uid_size() == 1;
    EXPECT_EQ(is_output, IsOutput(enumerator.substr(sizeof kPrefix - 1))) << enumerator;
    outputs += is_output ? 1 : 0;
  }
  EXPECT_GT(outputs, 20);
}

TEST_F(CudnnHeaderTest, EveryDataType) {
  const std::map<std::string, DataType> types = {
      {"FLOAT", DataType::kF32},       {"DOUBLE", DataType::kF64},      {"HALF", DataType::kF16},
      {"INT8", DataType::kS8},         {"INT32", DataType::kS32},       {"INT8x4", DataType::kS8},
      {"UINT8", DataType::kU8},        {"UINT8x4", DataType::kU8},      {"INT8x32", DataType::kS8},
      {"BFLOAT16", DataType::kBf16},   {"INT64", DataType::kS64},       {"BOOLEAN", DataType::kBool},
      {"FP8_E4M3", DataType::kF8E4m3}, {"FP8_E5M2", DataType::kF8E5m2}, {"FAST_FLOAT_FOR_FP8", DataType::kF32},
      {"FP8_E8M0", DataType::kF8E8m0}, {"FP4_E2M1", DataType::kF4E2m1}, {"INT4", DataType::kS4},
      {"UINT4", DataType::kU4},        {"UINT32", DataType::kU32},      {"COMPLEX_FP32", DataType::kC32},
      {"COMPLEX_FP64", DataType::kC64}};
  for (const auto& [enumerator, number] : enums_.at("cudnnDataType_t")) {
    const auto type = types.find(enumerator.substr(sizeof "CUDNN_DATA_" - 1));
    ASSERT_NE(type, types.end()) << enumerator;
    EXPECT_EQ(CudnnType(number), type->second) << enumerator;
  }
}

TEST_F(CudnnHeaderTest, AttributesAndTypesThatAreRead) {
  const std::map<int, std::string> types = {{kTypeBoolean, "BOOLEAN"},
                                            {kTypeInt64, "INT64"},
                                            {kTypeKnob, "KNOB_TYPE"},
                                            {kTypeNumericalNote, "NUMERICAL_NOTE"},
                                            {kTypeDescriptor, "BACKEND_DESCRIPTOR"},
                                            {kTypeBehaviorNote, "BEHAVIOR_NOTE"}};
  for (const auto& [number, name] : types)
    EXPECT_EQ(number, NumberOf("cudnnBackendAttributeType_t", "TYPE_" + name)) << name;
  const std::map<int, std::string> attributes = {{kHeuristicMode, "ENGINEHEUR_MODE"},
                                                 {kHeuristicGraph, "ENGINEHEUR_OPERATION_GRAPH"},
                                                 {kHeuristicResults, "ENGINEHEUR_RESULTS"},
                                                 {kConfigurationEngine, "ENGINECFG_ENGINE"},
                                                 {kConfigurationKnobs, "ENGINECFG_KNOB_CHOICES"},
                                                 {kPlanConfiguration, "EXECUTION_PLAN_ENGINE_CONFIG"},
                                                 {kPlanWorkspace, "EXECUTION_PLAN_WORKSPACE_SIZE"},
                                                 {kPlanJson, "EXECUTION_PLAN_JSON_REPRESENTATION"},
                                                 {kKnobType, "KNOB_CHOICE_KNOB_TYPE"},
                                                 {kKnobValue, "KNOB_CHOICE_KNOB_VALUE"},
                                                 {kEngineGraph, "ENGINE_OPERATION_GRAPH"},
                                                 {kEngineIndex, "ENGINE_GLOBAL_INDEX"},
                                                 {kEngineNumericalNote, "ENGINE_NUMERICAL_NOTE"},
                                                 {kEngineBehaviorNote, "ENGINE_BEHAVIOR_NOTE"}};
  for (const auto& [number, name] : attributes)
    EXPECT_EQ(number, NumberOf("cudnnBackendAttributeName_t", "ATTR_" + name)) << name;
}

}  // namespace
}  // namespace dlhook
