// Names of cuDNN's enumerators against the genuine headers: every enumerator of each enum.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "analyzer/ops/nvidia_names.h"
#include "tests/cudnn_header.h"

namespace dlhook::analyzer {
namespace {

struct Case {
  const char* name;    // of the enum
  const char* prefix;  // of its enumerators, after CUDNN_
  const char* suffix;
  std::function<std::string(int32_t)> name_of;
  std::map<std::string, std::string> others =
      {};  // oneDNN's terms, where it has them, by the rest of the enumerator's name
};

std::function<std::string(int32_t)> In(absl::Span<const absl::string_view> names) {
  return [names](int32_t number) { return NameIn(names, number); };
}

const std::vector<Case>& Cases() {
  static const auto* const cases = new std::vector<Case>{
      {"cudnnConvolutionFwdAlgo_t", "CONVOLUTION_FWD_ALGO_", "",
       [](int32_t i) { return ConvolutionAlgorithmName(Direction::kForward, i); }},
      {"cudnnConvolutionBwdDataAlgo_t",
       "CONVOLUTION_BWD_DATA_ALGO_",
       "",
       [](int32_t i) { return ConvolutionAlgorithmName(Direction::kBackwardData, i); },
       {{"0", "algo_0"}, {"1", "algo_1"}}},
      {"cudnnConvolutionBwdFilterAlgo_t",
       "CONVOLUTION_BWD_FILTER_ALGO_",
       "",
       [](int32_t i) { return ConvolutionAlgorithmName(Direction::kBackwardWeights, i); },
       {{"0", "algo_0"}, {"1", "algo_1"}, {"3", "algo_3"}}},
      {"cudnnPoolingMode_t",
       "",
       "",
       In(kPooling),
       {{"POOLING_AVERAGE_COUNT_INCLUDE_PADDING", "pooling_avg_include_padding"},
        {"POOLING_AVERAGE_COUNT_EXCLUDE_PADDING", "pooling_avg_exclude_padding"}}},
      {"cudnnResampleMode_t",
       "RESAMPLE_",
       "",
       In(kResample),
       {{"NEAREST", "resampling_nearest"},
        {"BILINEAR", "resampling_linear"},
        {"AVGPOOL", "pooling_avg_include_padding"},
        {"AVGPOOL_INCLUDE_PADDING", "pooling_avg_include_padding"},
        {"AVGPOOL_EXCLUDE_PADDING", "pooling_avg_exclude_padding"},
        {"MAXPOOL", "pooling_max"}}},
      {"cudnnActivationMode_t",
       "ACTIVATION_",
       "",
       In(kActivation),
       {{"SIGMOID", "logistic"}, {"CLIPPED_RELU", "clip"}}},
      {"cudnnSoftmaxAlgorithm_t", "", "", In(kSoftmax)},
      {"cudnnRNNMode_t",
       "",
       "",
       In(kRnn),
       {{"RNN_RELU", "vanilla_rnn_relu"},
        {"RNN_TANH", "vanilla_rnn_tanh"},
        {"LSTM", "vanilla_lstm"},
        {"GRU", "lbr_gru"}}},
      {"cudnnBatchNormMode_t", "BATCHNORM_", "", In(kBatchNorm)},
      {"cudnnBackendNormMode_t", "", "",
       [](int32_t i) { return std::string(absl::StripSuffix(NormKind(i), "alization")); }},
      {"cudnnOpTensorOp_t",
       "OP_TENSOR_",
       "",
       [](int32_t i) { return std::string(absl::StripPrefix(NameIn(kOpTensor, i), "binary_")); },
       {{"SQRT", "eltwise_sqrt"}, {"NOT", "eltwise_not"}}},
      {"cudnnReduceTensorOp_t",
       "REDUCE_TENSOR_",
       "",
       [](int32_t i) { return std::string(absl::StripPrefix(NameIn(kReductions, i), "reduction_")); },
       {{"ADD", "sum"}, {"AVG", "mean"}}},
      {"cudnnPointwiseMode_t", "POINTWISE_", "_FWD", PointwiseName},
      {"cudnnMathType_t",
       "",
       "_MATH",
       In(kMathTypes),
       {{"TENSOR_OP_MATH_ALLOW_CONVERSION", "tensor_op_allow_conversion"}}},
      {"cudnnBackendHeurMode_t", "HEUR_MODE_", "", In(kHeuristicModes)},
      {"cudnnBackendNumericalNote_t", "NUMERICAL_NOTE_", "", In(kNumericalNotes)},
      {"cudnnBackendBehaviorNote_t", "BEHAVIOR_NOTE_", "", In(kBehaviorNotes)},
  };
  return *cases;
}

bool IsCount(absl::string_view name) { return absl::EndsWith(name, "COUNT") || absl::EndsWith(name, "COUNTS"); }

class CudnnNamesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (enums_.empty()) GTEST_SKIP() << "SKIPPED: cudnn_names_test: no headers of cuDNN (build/venv-nvidia)";
  }
  const std::map<std::string, Enumerators> enums_ = ReadCudnnEnums(DLHOOK_SOURCE);
};

TEST_F(CudnnNamesTest, EveryEnumeratorHasItsName) {
  for (const Case& one : Cases()) {
    ASSERT_TRUE(enums_.contains(one.name)) << one.name;
    for (const auto& [enumerator, number] : enums_.at(one.name)) {
      if (IsCount(enumerator)) continue;
      const absl::string_view rest = absl::StripPrefix(absl::StripPrefix(enumerator, "CUDNN_"), one.prefix);
      const auto other = one.others.find(std::string(rest));
      EXPECT_EQ(one.name_of(static_cast<int32_t>(number)),
                other != one.others.end() ? other->second : absl::AsciiStrToLower(absl::StripSuffix(rest, one.suffix)))
          << enumerator;
    }
  }
}

TEST_F(CudnnNamesTest, EveryKnobHasItsNumber) {
  for (const auto& [enumerator, number] : enums_.at("cudnnBackendKnobType_t")) {
    const std::string name = absl::AsciiStrToLower(absl::StripPrefix(enumerator, "CUDNN_KNOB_TYPE_"));
    if (IsCount(enumerator)) continue;
    EXPECT_EQ(NameIn(kKnobTypes, number), name) << enumerator;
  }
}

}  // namespace
}  // namespace dlhook::analyzer
