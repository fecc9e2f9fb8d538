// Keys as in cuDNN 9.
#include <nlohmann/json.hpp>

#include "analyzer/ops/cudnn_problem.h"
#include "analyzer/ops/nvidia_names.h"

namespace dlhook::analyzer::inline ops {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxItems = 4096;  // tensors, nodes, knobs
constexpr size_t kMaxPlanDims = 12;
constexpr int kMaxDepth = 64;  // of lists and objects; what is nested more deeply is left out

// Null if the key is missing.
const Json& Member(const Json& object, absl::string_view key) {
  static const Json* const kNull = new Json();
  if (!object.is_object()) return *kNull;
  const auto place = object.find(std::string(key));
  return place == object.end() ? *kNull : *place;
}

std::string Text(const Json& json) { return json.is_string() ? json.get<std::string>() : ""; }

std::optional<int64_t> Integer(const Json& json) {
  if (json.is_boolean()) return json.get<bool>() ? 1 : 0;
  if (json.is_number_unsigned() && json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  if (json.is_number_integer()) return json.get<int64_t>();
  int64_t number = 0;
  return json.is_string() && absl::SimpleAtoi(Text(json), &number) ? std::optional(number) : std::nullopt;
}

template <typename List>
void ReadIntegers(const Json& json, List* list) {
  if (!json.is_array() || json.size() > kMaxPlanDims) return;
  for (const Json& item : json) list->Add(Integer(item).value_or(0));
}

// Lower case and without `prefix`.
std::string Enumerator(const Json& json, absl::string_view prefix) {
  const std::string text = absl::AsciiStrToLower(Text(json));
  return std::string(absl::StripPrefix(text, absl::AsciiStrToLower(prefix)));
}

struct TypeWord {
  absl::string_view word;
  int32_t number;  // cudnnDataType_t
  trace::DataType type;
};
constexpr TypeWord kTypes[] = {
    {"float", 0, trace::F32},         {"double", 1, trace::F64},        {"half", 2, trace::F16},
    {"int8", 3, trace::S8},           {"int32", 4, trace::S32},         {"int8x4", 5, trace::S8},
    {"uint8", 6, trace::U8},          {"uint8x4", 7, trace::U8},        {"int8x32", 8, trace::S8},
    {"bfloat16", 9, trace::BF16},     {"int64", 10, trace::S64},        {"boolean", 11, trace::BOOL},
    {"fp8_e4m3", 12, trace::F8_E4M3}, {"fp8_e5m2", 13, trace::F8_E5M2}, {"fast_float_for_fp8", 14, trace::F32},
    {"fp8_e8m0", 15, trace::F8_E8M0}, {"fp4_e2m1", 16, trace::F4_E2M1}};

trace::DataType ReadType(const Json& json) {
  const std::string word = Enumerator(json, "CUDNN_DATA_");
  for (const TypeWord& type : kTypes) {
    if (json.is_string() ? type.word == word : Integer(json) == type.number) return type.type;
  }
  return trace::DATA_TYPE_UNKNOWN;
}

// "relu_fwd" as the number of CUDNN_POINTWISE_RELU_FWD.
std::optional<int32_t> PointwiseMode(const Json& json) {
  if (const std::optional<int64_t> number = Integer(json)) return static_cast<int32_t>(*number);
  const std::string word = Enumerator(json, "CUDNN_POINTWISE_");
  const absl::string_view name = absl::StripSuffix(word, "_fwd");
  for (int32_t mode = 0; mode <= 601; ++mode) {
    if (PointwiseName(mode) == name) return mode;
  }
  return std::nullopt;
}

std::optional<int32_t> IndexIn(absl::Span<const absl::string_view> names, absl::string_view name) {
  const auto place = absl::c_find(names, name);
  return place == names.end() ? std::nullopt : std::optional(static_cast<int32_t>(place - names.begin()));
}

// The number itself, or the index of the enumerator's name in `names`.
std::optional<int32_t> ModeNumber(const Json& json, absl::string_view prefix,
                                  absl::Span<const absl::string_view> names) {
  if (const std::optional<int64_t> number = Integer(json)) return static_cast<int32_t>(*number);
  return IndexIn(names, Enumerator(json, prefix));
}

constexpr absl::string_view kReductionModes[] = {"add", "mul",   "min",   "max",         "amax",
                                                 "avg", "norm1", "norm2", "mul_no_zeros"};
constexpr absl::string_view kNormModes[] = {"layer_norm", "instance_norm", "batch_norm",
                                            "group_norm", "rms_norm",      "ada_layer_norm"};
constexpr absl::string_view kResampleModes[] = {"nearest", "bilinear", "avgpool_include_padding", "maxpool",
                                                "avgpool_exclude_padding"};

// Operations with the names of trace::CudnnNode: those of the descriptor's enumerator,
// CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR.
std::string OperationWord(const Json& json) {
  const std::string word = Enumerator(json, "CUDNN_BACKEND_OPERATION_");
  return std::string(absl::StripSuffix(word, "_descriptor"));
}

// "CUDNN_KNOB_TYPE_TILE_SIZE", or the number of an unnamed one.
std::optional<int32_t> KnobType(absl::string_view key) {
  int32_t number = 0;
  if (absl::SimpleAtoi(key, &number)) return number;
  const std::string word = absl::AsciiStrToLower(key);
  return IndexIn(kKnobTypes, absl::StripPrefix(word, "cudnn_knob_type_"));
}

// Which tensor of a node a key names, and whether the node writes it.
struct Operand {
  absl::string_view key;
  trace::CudnnTensor::Role role;
  bool is_output;
};
constexpr Operand kConvolutionOperands[] = {
    {"X", trace::CudnnTensor::X, false}, {"W", trace::CudnnTensor::W, false}, {"Y", trace::CudnnTensor::Y, true}};
constexpr Operand kDataGradientOperands[] = {
    {"W", trace::CudnnTensor::W, false}, {"dY", trace::CudnnTensor::DY, false}, {"dX", trace::CudnnTensor::DX, true}};
constexpr Operand kFilterGradientOperands[] = {
    {"X", trace::CudnnTensor::X, false}, {"dY", trace::CudnnTensor::DY, false}, {"dW", trace::CudnnTensor::DW, true}};
constexpr Operand kOtherOperands[] = {
    {"matA", trace::CudnnTensor::INPUT, false}, {"matB", trace::CudnnTensor::INPUT, false},
    {"X", trace::CudnnTensor::INPUT, false},    {"B", trace::CudnnTensor::INPUT, false},
    {"T", trace::CudnnTensor::INPUT, false},    {"dY", trace::CudnnTensor::INPUT, false},
    {"matC", trace::CudnnTensor::OUTPUT, true}, {"dX", trace::CudnnTensor::OUTPUT, true},
    {"Y", trace::CudnnTensor::OUTPUT, true}};

class PlanReader {
 public:
  absl::StatusOr<trace::Cudnn> Read(const Json& root) {
    const Json& graph = Member(root, "operationGraph");
    const Json& nodes = Member(graph, "nodes");
    if (!nodes.is_array() || nodes.empty()) return absl::InvalidArgumentError("no operation graph");
    ReadTensors(Member(graph, "tensors"));
    size_t count = 0;
    for (const Json& node : nodes) {
      if (++count <= kMaxItems) ReadNode(node);
    }
    ReadEngine(Member(root, "engine"));
    ChooseOperation();
    return std::move(cudnn_);
  }

 private:
  void ReadTensors(const Json& tensors) {
    if (!tensors.is_structured()) return;
    size_t count = 0;
    for (const auto& [key, json] : tensors.items()) {
      if (++count > kMaxItems) return;
      const std::string name = Member(json, "name").is_string() ? Text(Member(json, "name")) : key;
      ReadTensor(name, json);
    }
  }

  // A tensor's name is its uid in text form.
  void ReadTensor(const std::string& name, const Json& json) {
    const int index = cudnn_.tensor_size();
    trace::CudnnTensor* tensor = cudnn_.add_tensor();
    int64_t uid = 0;
    tensor->set_uid(absl::SimpleAtoi(name, &uid) ? uid : -1 - index);
    tensor->set_type(ReadType(Member(json, "dataType")));
    ReadIntegers(Member(json, "dim"), tensor->mutable_dim());
    ReadIntegers(Member(json, "stride"), tensor->mutable_stride());
    tensor->set_is_virtual(Integer(Member(json, "isVirtual")).value_or(0) != 0);
    tensor->set_by_value(Integer(Member(json, "isByValue")).value_or(0) != 0);
    tensor->set_vector_count(static_cast<uint32_t>(Integer(Member(json, "vectCount")).value_or(0)));
    tensor->set_vectorized_dim(static_cast<uint32_t>(Integer(Member(json, "vectDim")).value_or(0)));
    tensors_.emplace(name, index);
  }

  // The first node that names a tensor gives it its role; in a later node it is an intermediate result.
  template <size_t N>
  void ReadOperands(const Json& json, const Operand (&operands)[N], trace::CudnnNode* node) {
    for (const Operand& operand : operands) {
      const Json& name = Member(json, operand.key);
      const auto place = tensors_.find(name.is_string() ? Text(name) : name.dump());
      if (place == tensors_.end()) continue;
      trace::CudnnTensor* tensor = cudnn_.mutable_tensor(place->second);
      if (tensor->role() == trace::CudnnTensor::ROLE_UNKNOWN) tensor->set_role(operand.role);
      (operand.is_output ? node->mutable_output_uid() : node->mutable_input_uid())->Add(tensor->uid());
    }
  }

  void ReadNode(const Json& json) {
    trace::CudnnNode* node = cudnn_.mutable_plan()->add_node();
    node->set_operation(OperationWord(Member(json, "operation")));
    for (const char* key : {"pad", "pad_lower", "prePad"}) {
      if (node->pad().empty()) ReadIntegers(Member(json, key), node->mutable_pad());
    }
    for (const char* key : {"pad_upper", "postPad"}) {
      if (node->post_pad().empty()) ReadIntegers(Member(json, key), node->mutable_post_pad());
    }
    ReadIntegers(Member(json, "stride"), node->mutable_stride());
    ReadIntegers(Member(json, "dilation"), node->mutable_dilation());
    if (node->dilation().empty()) {  // a window uses its field
      ReadIntegers(Member(json, "windowDim"), node->mutable_dilation());
    }
    for (const char* key : {"mathPrec", "computeType", "compType"}) {
      if (node->compute_type() == 0) node->set_compute_type(ReadType(Member(json, key)));
    }
    ReadMode(json, node);
    const std::string& operation = node->operation();
    if (operation == "convolution_forward") return ReadOperands(json, kConvolutionOperands, node);
    if (operation == "convolution_backward_data") return ReadOperands(json, kDataGradientOperands, node);
    if (operation == "convolution_backward_filter") return ReadOperands(json, kFilterGradientOperands, node);
    ReadOperands(json, kOtherOperands, node);
  }

  static void ReadMode(const Json& json, trace::CudnnNode* node) {
    const std::string& operation = node->operation();
    const Json& mode = Member(json, "mode");
    std::optional<int32_t> number;
    if (operation == "pointwise") {
      number = PointwiseMode(Member(json, "pointwiseMode"));
    } else if (operation == "reduction") {
      number = ModeNumber(Member(json, "reductionOp"), "CUDNN_REDUCE_TENSOR_", kReductionModes);
    } else if (absl::StartsWith(operation, "norm_")) {
      number = ModeNumber(mode, "CUDNN_", kNormModes);
    } else if (absl::StartsWith(operation, "resample_")) {
      number = ModeNumber(mode, "CUDNN_RESAMPLE_", kResampleModes);
    }
    if (number) node->set_mode(absl::StrCat(operation, ":", *number));
  }

  void ReadEngine(const Json& json) {
    trace::CudnnPlan* plan = cudnn_.mutable_plan();
    plan->set_engine(Integer(Member(json, "engineId")).value_or(-1));
    const Json& choices = Member(json, "knobChoices");
    if (!choices.is_object()) return;
    for (const auto& [key, value] : choices.items()) {
      const std::optional<int32_t> type = KnobType(key);
      const std::optional<int64_t> number = Integer(value);
      if (!type || !number || plan->knob_size() == static_cast<int>(kMaxItems)) continue;
      trace::CudnnPlan::Knob* knob = plan->add_knob();
      knob->set_type(*type);
      knob->set_value(*number);
    }
    std::sort(plan->mutable_knob()->begin(), plan->mutable_knob()->end(),
              [](const auto& a, const auto& b) { return a.type() < b.type(); });
  }

  // The convolution or product that the other nodes are fused with, else the first node.
  void ChooseOperation() {
    const auto& nodes = cudnn_.plan().node();
    cudnn_.set_operation(nodes.Get(0).operation());
    for (const trace::CudnnNode& node : nodes) {
      if (!absl::StartsWith(node.operation(), "convolution") && node.operation() != "matmul") continue;
      cudnn_.set_operation(node.operation());
      return;
    }
  }

  trace::Cudnn cudnn_;
  std::map<std::string, int> tensors_;  // by name: index
};

// Whether any list or object is nested more deeply than in a plan: the parser is recursive.
bool IsTooDeep(absl::string_view json) {
  int depth = 0;
  for (char c : json) {
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (depth > kMaxDepth) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<trace::Cudnn> ParseCudnnPlanJson(absl::string_view json) {
  if (IsTooDeep(json)) return absl::InvalidArgumentError("nested too deeply");
  const Json root = Json::parse(json.begin(), json.end(), nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) return absl::InvalidArgumentError("not JSON");
  return PlanReader().Read(root);
}

}  // namespace dlhook::analyzer::ops
