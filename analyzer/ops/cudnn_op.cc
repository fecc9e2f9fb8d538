// Calls of cuDNN.
//
// To add an operation, add its line to kOperations, its enumerators to AlgorithmName, and its size to CudnnProblem.

#include "analyzer/model/op_cost.h"
#include "analyzer/ops/cudnn_problem.h"
#include "analyzer/ops/decode_op.h"
#include "analyzer/ops/nvidia_names.h"

namespace dlhook::analyzer::inline ops {
namespace {

struct OperationKind {
  absl::string_view prefix;  // of Cudnn.operation
  absl::string_view kind;
};
constexpr OperationKind kOperations[] = {
    {"convolution_", "convolution"},
    {"pooling_", "pooling"},
    {"activation_", "eltwise"},
    {"scale_tensor", "eltwise"},
    {"softmax", "softmax"},
    {"batch_normalization_", "batch_normalization"},
    {"gen_stats", "batch_normalization"},
    {"bn_", "batch_normalization"},
    {"normalization_", "batch_normalization"},  // cudnnNorm…: per activation or per channel
    {"lrn_", "lrn"},
    {"dropout_", "dropout"},
    {"rnn_", "rnn"},
    {"attention_", "attention"},
    {"sdpa_", "attention"},
    {"transform_", "reorder"},
    {"reorder_", "reorder"},
    {"transpose", "reorder"},
    {"add_tensor", "binary"},
    {"op_tensor", "binary"},
    {"reduce_tensor", "reduction"},
    {"reduction", "reduction"},
    {"matmul", "matmul"},
    {"concat", "concat"}};

// The number in "pointwise:100"; -1 if there is none.
int32_t ModeNumber(const trace::CudnnNode& node) {
  const absl::string_view mode = node.mode();
  const size_t colon = mode.rfind(':');
  int32_t number = -1;
  return absl::SimpleAtoi(mode.substr(colon == mode.npos ? 0 : colon + 1), &number) ? number : -1;
}

int32_t ModeOf(const trace::Cudnn& cudnn) {
  const trace::CudnnNode* node = cudnn.has_plan() ? MainNode(cudnn) : nullptr;
  return node ? ModeNumber(*node) : cudnn.mode();
}

int64_t CountNodes(const trace::CudnnPlan& plan, absl::string_view operation) {
  return absl::c_count_if(plan.node(), [&](const trace::CudnnNode& node) { return node.operation() == operation; });
}

// Attention built from single ops by a frontend: two products with an exponential in between. The backward pass has
// five products.
bool IsAttention(const trace::CudnnPlan& plan) {
  constexpr int32_t kExponential = 13;
  const bool has_exponential = absl::c_any_of(plan.node(), [](const trace::CudnnNode& node) {
    return node.operation() == "pointwise" && ModeNumber(node) == kExponential;
  });
  return has_exponential && CountNodes(plan, "matmul") >= 2;
}

// Pointwise functions of one operand; those of two and three are "binary", as in oneDNN.
bool IsUnary(int32_t mode) {
  return mode == 4 || (mode >= 10 && mode < 23) || (mode >= 100 && mode < 200) || mode == 402;
}

std::string KindOf(const trace::Cudnn& cudnn) {
  const std::string& operation = cudnn.operation();
  const int32_t mode = ModeOf(cudnn);
  if (IsAttention(cudnn.plan())) return "attention";
  if (absl::StartsWith(operation, "pointwise")) return IsUnary(mode) ? "eltwise" : "binary";
  const bool is_graph_norm =
      absl::StartsWith(operation, "norm_") || (cudnn.has_plan() && absl::StartsWith(operation, "normalization_"));
  if (is_graph_norm) return NormKind(mode);
  if (absl::StartsWith(operation, "resample")) return mode >= 2 ? "pooling" : "resampling";
  for (const OperationKind& known : kOperations) {
    if (absl::StartsWith(operation, known.prefix)) return std::string(known.kind);
  }
  return operation.empty() ? "cudnn" : operation;
}

Direction DirectionOf(const trace::Cudnn& cudnn) {
  const std::string& operation = cudnn.operation();
  if (IsAttention(cudnn.plan())) {
    return CountNodes(cudnn.plan(), "matmul") > 2 ? Direction::kBackward : Direction::kForward;
  }
  if (absl::StrContains(operation, "backward_data")) return Direction::kBackwardData;
  if (absl::StrContains(operation, "backward_bias")) return Direction::kBackwardBias;
  if (absl::StrContains(operation, "backward_weights") || absl::StrContains(operation, "backward_filter")) {
    return Direction::kBackwardWeights;
  }
  if (absl::StrContains(operation, "backward") || absl::StrContains(operation, "_bwd")) return Direction::kBackward;
  for (absl::string_view word : {"forward", "_fwd", "inference", "training", "bias_activation"}) {
    if (absl::StrContains(operation, word)) return Direction::kForward;
  }
  const int32_t mode = operation == "pointwise" ? ModeOf(cudnn) : -1;
  if (mode >= 200 && mode < 300) return Direction::kBackward;
  return mode >= 100 && mode < 200 ? Direction::kForward : Direction::kUnknown;
}

// For a plan, only its notes show how it computes.
std::string PlanAlgorithm(const trace::CudnnPlan& plan) {
  for (int32_t note : plan.numerical_note()) {
    const std::string name = NameIn(kNumericalNotes, note);
    if (name == "winograd" || name == "fft") return name;
  }
  return "";
}

// For convolutions, how they are computed; for all others, what is computed.
std::string AlgorithmName(const trace::Cudnn& cudnn, const Op& op) {
  const int32_t mode = ModeOf(cudnn);
  const std::string& operation = cudnn.operation();
  if (op.kind == "convolution") {
    if (cudnn.has_plan()) return PlanAlgorithm(cudnn.plan());
    return cudnn.algorithm() < 0 ? "" : ConvolutionAlgorithmName(op.direction, cudnn.algorithm());
  }
  if (absl::StartsWith(operation, "pointwise")) return mode < 0 ? "" : absl::StrCat(op.kind, "_", PointwiseName(mode));
  if (absl::StartsWith(operation, "resample")) return NameIn(kResample, mode);
  if (absl::StartsWith(operation, "activation_")) {
    return mode < 0 ? "" : absl::StrCat("eltwise_", NameIn(kActivation, mode));
  }
  if (absl::StartsWith(operation, "op_tensor")) return NameIn(kOpTensor, mode);
  if (operation == "add_tensor") return "binary_add";
  if (op.kind == "reduction") return NameIn(kReductions, mode);
  if (op.kind == "pooling") return NameIn(kPooling, mode);
  if (op.kind == "softmax") return NameIn(kSoftmax, cudnn.algorithm());
  if (op.kind == "rnn") return NameIn(kRnn, mode);
  if (absl::StartsWith(operation, "batch_norm")) return NameIn(kBatchNorm, mode);
  return "";
}

// oneDNN's tensor names; for convolutions its log uses the same ones in all directions.
struct RoleNames {
  trace::CudnnTensor::Role role;
  const char* name;
  const char* of_convolution;
};
constexpr RoleNames kRoleNames[] = {
    {trace::CudnnTensor::X, "src", "src"},       {trace::CudnnTensor::INPUT, "src", "src"},
    {trace::CudnnTensor::W, "wei", "wei"},       {trace::CudnnTensor::Y, "dst", "dst"},
    {trace::CudnnTensor::OUTPUT, "dst", "dst"},  {trace::CudnnTensor::DX, "diff_src", "src"},
    {trace::CudnnTensor::DW, "diff_wei", "wei"}, {trace::CudnnTensor::DY, "diff_dst", "dst"},
    {trace::CudnnTensor::BIAS, "bia", "bia"},    {trace::CudnnTensor::DBIAS, "diff_bia", "bia"},
    {trace::CudnnTensor::Z, "add", "add"},       {trace::CudnnTensor::SCALE, "scale", "scale"},
    {trace::CudnnTensor::MEAN, "mean", "mean"},  {trace::CudnnTensor::VARIANCE, "variance", "variance"}};

std::string RoleName(trace::CudnnTensor::Role role, bool is_convolution) {
  const auto known = absl::c_find_if(kRoleNames, [&](const RoleNames& names) { return names.role == role; });
  return known == std::end(kRoleNames) ? "tensor" : is_convolution ? known->of_convolution : known->name;
}

Tensor DecodeTensor(const trace::CudnnTensor& recorded, bool is_convolution) {
  Tensor tensor;
  tensor.role = RoleName(recorded.role(), is_convolution);
  tensor.type = TypeName(FromProto<DataType>(recorded.type()));
  tensor.dims = DimsOf(recorded);
  tensor.format = TensorFormat(tensor.dims, {recorded.stride().begin(), recorded.stride().end()});
  if (recorded.vector_count() > 1) tensor.format = absl::StrCat(tensor.format, "_vect", recorded.vector_count());
  if (tensor.format == "strided") tensor.strides = absl::StrJoin(recorded.stride(), "x");
  return tensor;
}

// Tensors in memory: without those that fused nodes pass to each other, and without scalars passed by value.
std::vector<Tensor> DecodeTensors(const trace::Cudnn& cudnn, bool is_convolution) {
  std::vector<Tensor> tensors;
  for (const trace::CudnnTensor& tensor : cudnn.tensor()) {
    if (tensor.is_virtual() || tensor.by_value()) continue;
    tensors.push_back(DecodeTensor(tensor, is_convolution));
  }
  return tensors;
}

// As for oneDNN's ops: one type if source, weights and destination agree. The result of a fused graph may be virtual.
std::string TypesOf(const trace::Cudnn& cudnn) {
  std::vector<std::string> types;
  for (const char* role : {"src", "wei", "dst"}) {
    for (const trace::CudnnTensor& tensor : cudnn.tensor()) {
      const bool is_known = tensor.type() != trace::DATA_TYPE_UNKNOWN && !tensor.is_virtual();
      if (!is_known || RoleName(tensor.role(), /*is_convolution=*/true) != role) continue;
      types.push_back(TypeName(FromProto<DataType>(tensor.type())));
      break;
    }
  }
  return TypesText(types);
}

// One value per channel, the same for all images of a batch.
bool IsBias(const trace::CudnnTensor* tensor) {
  if (!tensor || tensor->by_value() || tensor->dim_size() < 2) return false;
  for (int i = 0; i < tensor->dim_size(); ++i) {
    if (i != 1 && tensor->dim(i) != 1) return false;
  }
  return tensor->dim(1) > 1;
}

std::string NodeName(const trace::Cudnn& cudnn, const trace::CudnnNode& node) {
  const int32_t mode = ModeNumber(node);
  if (node.operation() == "pointwise") {
    const bool adds_bias =
        mode == 0 && absl::c_any_of(node.input_uid(), [&](int64_t uid) { return IsBias(FindTensor(cudnn, uid)); });
    return adds_bias ? "bias" : PointwiseName(mode);
  }
  if (node.operation() == "reduction" && mode >= 0) return NameIn(kReductions, mode);
  return node.operation();
}

std::vector<std::string> PostOps(const trace::Cudnn& cudnn) {
  std::vector<std::string> names;
  if (cudnn.operation() == "convolution_bias_activation") {
    names.push_back("bias");
    if (FindTensor(cudnn, {trace::CudnnTensor::Z})) names.push_back("add");
    if (cudnn.mode() >= 0) names.push_back(NameIn(kActivation, cudnn.mode()));
  }
  const trace::CudnnNode* main = MainNode(cudnn);
  for (const trace::CudnnNode& node : cudnn.plan().node()) {
    if (&node != main) names.push_back(NodeName(cudnn, node));
  }
  return names;
}

std::string Heuristic(const trace::CudnnPlan& plan) {
  if (plan.heuristic_mode() < 0 || plan.heuristic_results() == 0) return "";
  std::string text = NameIn(kHeuristicModes, plan.heuristic_mode());
  if (plan.heuristic_rank() < 0) return text;
  return absl::StrCat(text, ", rank ", plan.heuristic_rank(), " of ", plan.heuristic_results());
}

std::string KnobsText(const trace::CudnnPlan& plan, absl::string_view before) {
  std::string text;
  for (const trace::CudnnPlan::Knob& knob : plan.knob()) absl::StrAppend(&text, before, knob.type(), "=", knob.value());
  return text;
}

void DecodePlan(const trace::CudnnPlan& plan, Op& op) {
  const std::string engine = plan.engine() >= 0 ? absl::StrCat("cudnn engine ", plan.engine()) : "";
  op.implementation = engine + KnobsText(plan, " k");
  op.chooser = FromProto<Chooser>(plan.chooser());
  op.heuristic = Heuristic(plan);
  for (int32_t note : plan.numerical_note()) op.notes.push_back(NameIn(kNumericalNotes, note));
  for (int32_t note : plan.behavior_note()) op.notes.push_back(NameIn(kBehaviorNotes, note));
}

std::string ComputeType(const trace::Cudnn& cudnn) {
  trace::DataType type = cudnn.compute_type();
  const trace::CudnnNode* main = MainNode(cudnn);
  if (type == trace::DATA_TYPE_UNKNOWN && main) type = main->compute_type();
  return type == trace::DATA_TYPE_UNKNOWN ? "" : TypeName(FromProto<DataType>(type));
}

// Everything except the chooser.
void DecodeProblem(const trace::Cudnn& cudnn, Op& op) {
  op.on_gpu = IsGpuFamily(op.family);
  op.kind = KindOf(cudnn);
  op.direction = DirectionOf(cudnn);
  op.tensors = DecodeTensors(cudnn, op.kind == "convolution");
  op.types = TypesOf(cudnn);
  op.problem = CudnnProblem(cudnn, op.kind);
  op.compute_type = ComputeType(cudnn);
  if (!cudnn.has_plan()) op.math_mode = NameIn(kMathTypes, cudnn.math_type());
}

// What a plan's JSON contains, combined with what was recorded.
trace::Cudnn WithPlanFromJson(const trace::Cudnn& recorded, Op& op) {
  absl::StatusOr<trace::Cudnn> parsed = ParseCudnnPlanJson(recorded.plan().json());
  if (!parsed.ok()) {
    op.trouble =
        absl::StrCat("a cuDNN plan whose JSON could not be read: ",
                     recorded.plan().json_cut() ? "it was cut when it was recorded" : parsed.status().message());
    return recorded;
  }
  trace::Cudnn merged = *std::move(parsed);
  trace::CudnnPlan from_json = std::move(*merged.mutable_plan());
  *merged.mutable_plan() = recorded.plan();
  *merged.mutable_plan()->mutable_node() = from_json.node();
  if (recorded.plan().engine() < 0 || recorded.plan().knob().empty()) {
    merged.mutable_plan()->set_engine(from_json.engine());
    *merged.mutable_plan()->mutable_knob() = from_json.knob();
  }
  merged.set_workspace_bytes(recorded.workspace_bytes());
  return merged;
}

void DecodeComplete(const trace::Cudnn& cudnn, Op& op) {
  DecodeProblem(cudnn, op);
  op.is_asynchronous = op.on_gpu;
  op.algorithm = AlgorithmName(cudnn, op);
  op.post_ops = PostOps(cudnn);
  const bool takes_workspace = op.kind == "convolution" || cudnn.has_plan();
  if (takes_workspace || cudnn.workspace_bytes() > 0) {
    op.workspace_bytes = static_cast<int64_t>(std::min<uint64_t>(cudnn.workspace_bytes(), INT64_MAX));
  }
  if (cudnn.has_plan()) DecodePlan(cudnn.plan(), op);
  op.tensor_core = TensorCoreOf(cudnn, op);
  if (op.direction != Direction::kBackwardBias) op.flops = CudnnFlops(cudnn, op.kind);
  op.bytes = TensorBytes(op);
}

CudnnPlan PlanOf(const trace::CudnnPlan& recorded) {
  return {.number = recorded.number(),
          .configuration = absl::StrCat(recorded.engine(), KnobsText(recorded, " ")),
          .heuristic_mode = recorded.heuristic_mode(),
          .heuristic_results = recorded.heuristic_results(),
          .failed_before = recorded.failed_before(),
          .build_ticks = recorded.build_ticks(),
          .is_from_json = !recorded.json().empty()};
}

CudnnCall CallOf(const trace::Cudnn& cudnn) {
  CudnnCall call = {.tensors = {}, .plan = std::nullopt, .pack_seen_before = cudnn.pack_seen_before()};
  for (const trace::CudnnTensor& tensor : cudnn.tensor()) {
    call.tensors.push_back({FromProto<TensorRole>(tensor.role()), {tensor.dim().begin(), tensor.dim().end()}});
  }
  if (cudnn.has_plan()) call.plan = PlanOf(cudnn.plan());
  return call;
}

Candidate DecodeCandidate(const trace::CudnnSearch::Candidate& recorded, Direction direction) {
  return {ConvolutionAlgorithmName(direction, recorded.algorithm()),
          recorded.status(),
          static_cast<int64_t>(std::min<uint64_t>(recorded.time_ns(), INT64_MAX)),
          static_cast<int64_t>(std::min<uint64_t>(recorded.workspace_bytes(), INT64_MAX)),
          recorded.determinism() == 1,
          NameIn(kMathTypes, recorded.math_type())};
}

}  // namespace

void DecodeCudnn(const trace::Cudnn& cudnn, Op& op) {
  op.asked = CallOf(cudnn);
  const bool is_from_json = cudnn.plan().node().empty() && !cudnn.plan().json().empty();
  DecodeComplete(is_from_json ? WithPlanFromJson(cudnn, op) : cudnn, op);
}

void DecodeCudnnSearch(const trace::CudnnSearch& search, Op& op) {
  DecodeProblem(search.problem(), op);
  op.subject = std::exchange(op.kind, "search");
  op.chooser = search.measured() ? Chooser::kProfiled : Chooser::kHeuristic;
  op.asked = CudnnSearch{search.measured()};
  for (const trace::CudnnSearch::Candidate& candidate : search.candidate()) {
    op.candidates.push_back(DecodeCandidate(candidate, op.direction));
  }
  const auto best = std::ranges::find(op.candidates, 0, &Candidate::status);
  if (best != op.candidates.end()) op.algorithm = best->algorithm;
  op.heuristic = absl::StrCat(op.candidates.size(), " of ", search.requested(), " requested");
}

}  // namespace dlhook::analyzer::ops
