// A finalized plan as a trace::Cudnn.
#include <stdio.h>

#include <initializer_list>

#include "preload/abi/cuda_types.h"
#include "preload/format/packet_writer.h"
#include "preload/format/record.h"
#include "preload/track/cudnn_nodes.h"

namespace dlhook::inline track {
namespace {

// Cudnn.operation and CudnnNode.operation, by cudnnBackendDescriptorType_t (cudnn_graph_v9.h).
const char* OperationName(int32_t type) {
  constexpr int32_t kFirstLegacy = 64;
  const char* name = type >= 0 && type < kFirstLegacy ? EnumName(static_cast<CudnnOperation>(type)) : "";
  return *name != '\0' ? name : EnumName(CudnnOperation::kUnknown);
}

// Attributes of operations (cudnnBackendAttributeName_t): tensors with a role of their own, then all others that an operation
// writes. What is left is read.
struct TensorAttribute {
  int32_t attribute;
  TensorRole role;
  bool is_output;
};
constexpr TensorAttribute kRoles[] = {
    {703, TensorRole::kW, false},         {704, TensorRole::kX, false},
    {705, TensorRole::kY, true},          {709, TensorRole::kW, false},
    {710, TensorRole::kDx, true},         {711, TensorRole::kDy, false},
    {715, TensorRole::kDw, true},         {716, TensorRole::kX, false},
    {717, TensorRole::kDy, false},  // convolutions
    {1710, TensorRole::kX, false},        {1711, TensorRole::kY, true},
    {1720, TensorRole::kDx, true},        {1721, TensorRole::kDy, false},  // resampling
    {2002, TensorRole::kX, false},        {2003, TensorRole::kMean, true},
    {2004, TensorRole::kVariance, true},  {2005, TensorRole::kScale, false},
    {2006, TensorRole::kBias, false},     {2013, TensorRole::kY, true},  // normalization
    {2101, TensorRole::kX, false},        {2102, TensorRole::kMean, false},
    {2103, TensorRole::kVariance, false}, {2104, TensorRole::kDy, false},
    {2105, TensorRole::kScale, false},    {2108, TensorRole::kDbias, true},
    {2109, TensorRole::kDx, true}};
constexpr int16_t kOutputs[] = {753,  756,  773,  774,  788,  789,  790,  791,  792,  793,  // pointwise, statistics
                                1522, 1611, 1626, 1627, 1628, 1629, 1630, 1712, 1803, 1904, 1951, 2011, 2012,
                                2107,  // matmul, reduction, normalization …
                                2201, 2251, 2271, 2310, 2501, 2502, 2602, 2803, 2804, 2817, 2859, 2860, 2861,
                                2864, 2905, 2953, 3006, 3101, 3102, 3103, 3104, 3201, 3301, 3401, 3411};

TensorAttribute DescribeAttribute(int32_t attribute) {
  for (const TensorAttribute& known : kRoles) {
    if (known.attribute == attribute) return known;
  }
  for (int32_t output : kOutputs) {
    if (output == attribute) return {attribute, TensorRole::kOutput, true};
  }
  return {attribute, TensorRole::kInput, false};
}

bool Is(const BackendNode& node, CudnnOperation operation) { return node.type == static_cast<int32_t>(operation); }

// The tensors whose addresses an execution records: two inputs, one output.
struct MainTensors {
  CudnnOperation operation;
  int32_t attributes[3];
};
constexpr MainTensors kMainTensors[] = {{CudnnOperation::kConvolutionForward, {704, 703, 705}},
                                        {CudnnOperation::kConvolutionBackwardData, {711, 709, 710}},
                                        {CudnnOperation::kConvolutionBackwardWeights, {716, 717, 715}},
                                        {CudnnOperation::kAttentionForward, {2800, 2801, 2803}},
                                        {CudnnOperation::kAttentionBackward, {2851, 2852, 2859}},
                                        {CudnnOperation::kMatmul, {1520, 1521, 1522}},
                                        {CudnnOperation::kNormalizationForward, {2002, 2005, 2013}},
                                        {CudnnOperation::kNormalizationBackward, {2101, 2104, 2109}},
                                        {CudnnOperation::kResampleForward, {1710, 1710, 1711}},
                                        {CudnnOperation::kResampleBackward, {1721, 1721, 1720}}};

// The operation that names a graph: one of the costliest kind, else the first.
const BackendNode* MainOperation(const BackendNode& graph) {
  constexpr int32_t kOperations = 801;  // CUDNN_ATTR_OPERATIONGRAPH_OPS
  for (const MainTensors& candidate : kMainTensors) {
    const BackendNode* found = nullptr;
    ForEachChild(graph, [&](int32_t attribute, const BackendNode& node) {
      if (attribute == kOperations && Is(node, candidate.operation) && found == nullptr) found = &node;
    });
    if (found != nullptr) return found;
  }
  return ChildOf(graph, kOperations);
}

void PackedSInt(PacketWriter* writer, uint32_t field, const int32_t* values, uint32_t count) {
  if (count == 0) return;
  MessageScope packed(writer, field);
  for (uint32_t i = 0; i < count; ++i) writer->Varint(ZigZag(values[i]) & 0xffffffff);
}

void WriteTensor(const BackendNode& tensor, TensorRole role, PacketWriter* writer) {
  namespace f = fields::CudnnTensor;
  MessageScope message(writer, fields::Cudnn::kTensor);
  writer->UInt(f::kRole, role);
  writer->UInt(f::kType, CudnnType(tensor.data_type));
  writer->PackedInts(f::kDim, tensor.numbers[0], tensor.counts[0]);
  writer->PackedInts(f::kStride, tensor.numbers[1], tensor.counts[1]);
  writer->Int(f::kUid, tensor.uid);
  writer->UInt(f::kIsVirtual, tensor.is_virtual);
  uint32_t vector_count = tensor.vector_count > 1 ? tensor.vector_count : CudnnVectorCount(tensor.data_type);
  writer->UInt(f::kVectorCount, vector_count > 1 ? vector_count : 0);
  writer->UInt(f::kVectorizedDim, tensor.vectorized_dim);
  writer->UInt(f::kByValue, tensor.by_value);
}

// Tensors of a graph, each uid once; the main operation's come first and keep its roles.
class TensorSet {
 public:
  explicit TensorSet(PacketWriter* writer) : writer_(writer) {}
  void AddTensorsOf(const BackendNode& operation) {
    ForEachChild(operation, [&](int32_t attribute, const BackendNode& child) {
      if (child.type != kBackendTensor || Contains(child.uid) || count_ == kCapacity) return;
      uids_[count_++] = child.uid;
      WriteTensor(child, DescribeAttribute(attribute).role, writer_);
    });
  }

 private:
  static constexpr uint32_t kCapacity = 128;
  bool Contains(int64_t uid) const {
    for (uint32_t i = 0; i < count_; ++i) {
      if (uids_[i] == uid) return true;
    }
    return false;
  }
  PacketWriter* writer_;
  int64_t uids_[kCapacity];
  uint32_t count_ = 0;
};

// The descriptor that configures an operation (convolution, pointwise …): its only child that is not a tensor.
const BackendNode* Configuration(const BackendNode& operation) {
  const BackendNode* found = nullptr;
  ForEachChild(operation, [&](int32_t, const BackendNode& child) {
    if (child.type != kBackendTensor && found == nullptr) found = &child;
  });
  return found;
}

// In the order of the attributes (A before B, Q before K before V), independent of the order in which the caller set
// them.
void WriteUids(const BackendNode& operation, bool outputs, uint32_t field, PacketWriter* writer) {
  constexpr uint32_t kMax = 32;
  int64_t uids[kMax];
  int32_t attributes[kMax];
  uint32_t count = 0;
  ForEachChild(operation, [&](int32_t attribute, const BackendNode& child) {
    bool wanted = child.type == kBackendTensor && DescribeAttribute(attribute).is_output == outputs;
    if (!wanted || count == kMax) return;
    uint32_t at = count++;
    for (; at > 0 && attributes[at - 1] > attribute; --at) {
      attributes[at] = attributes[at - 1];
      uids[at] = uids[at - 1];
    }
    attributes[at] = attribute;
    uids[at] = child.uid;
  });
  writer->PackedInts(field, uids, count);
}

// Padding, stride and dilation, one number per dimension, in the order of BackendNode.numbers.
void WriteWindow(const BackendNode& configuration, const uint32_t (&fields)[4], PacketWriter* writer) {
  for (uint32_t i = 0; i < 4; ++i) writer->PackedInts(fields[i], configuration.numbers[i], configuration.counts[i]);
}

void WriteNode(const BackendNode& operation, PacketWriter* writer) {
  namespace f = fields::CudnnNode;
  MessageScope message(writer, fields::CudnnPlan::kNode);
  writer->Text(f::kOperation, OperationName(operation.type));
  const BackendNode* configuration = Configuration(operation);
  const BackendNode& settings = configuration != nullptr ? *configuration : operation;
  bool is_convolution = settings.type == kBackendConvolution;
  if (settings.mode >= 0 && !is_convolution) {
    char text[16];
    snprintf(text, sizeof text, "%d", settings.mode);
    writer->Text(f::kMode, text);
  }
  WriteUids(operation, false, f::kInputUid, writer);
  WriteUids(operation, true, f::kOutputUid, writer);
  if (configuration != nullptr) WriteWindow(settings, {f::kPad, f::kPostPad, f::kStride, f::kDilation}, writer);
  if (is_convolution) writer->SInt32(f::kConvolutionMode, settings.mode);
  writer->UInt(f::kComputeType, CudnnType(settings.data_type));
}

// groups = channels of the input / channels that one filter sees
int64_t GroupsOf(const BackendNode& operation) {
  int64_t x = 0, w = 0;  // channels
  ForEachChild(operation, [&](int32_t attribute, const BackendNode& tensor) {
    TensorRole role = DescribeAttribute(attribute).role;
    if (tensor.type != kBackendTensor || tensor.counts[0] < 2) return;
    if (role == TensorRole::kX || role == TensorRole::kDx) x = tensor.numbers[0][1];
    if (role == TensorRole::kW || role == TensorRole::kDw) w = tensor.numbers[0][1];
  });
  return w > 0 ? x / w : 0;
}

void WriteMainOperation(const BackendNode& operation, PacketWriter* writer) {
  namespace f = fields::Cudnn;
  const BackendNode* configuration = Configuration(operation);
  if (configuration == nullptr) return;
  WriteWindow(*configuration, {f::kPad, f::kPostPad, f::kStride, f::kDilation}, writer);
  writer->Int(f::kGroups, GroupsOf(operation));
  if (configuration->type == kBackendConvolution) writer->SInt32(f::kConvolutionMode, configuration->mode);
  writer->UInt(f::kComputeType, CudnnType(configuration->data_type));
}

// The last operation that has the tensor with this uid among its inputs (or outputs), or null. The last one, for cases
// such as a softmax's exponentials: their sums come first, the quotients, which lead to the result, after them.
const BackendNode* OperationOf(const BackendNode& graph, int64_t uid, bool as_output) {
  const BackendNode* found = nullptr;
  ForEachChild(graph, [&](int32_t, const BackendNode& operation) {
    ForEachChild(operation, [&](int32_t attribute, const BackendNode& tensor) {
      bool fits =
          tensor.type == kBackendTensor && tensor.uid == uid && DescribeAttribute(attribute).is_output == as_output;
      if (fits) found = &operation;
    });
  });
  return found;
}

// The first tensor of an operation on the given side, preferring one in memory to a virtual one; null if it has none.
const BackendNode* TensorOf(const BackendNode& operation, bool output) {
  const BackendNode* found = nullptr;
  ForEachChild(operation, [&](int32_t attribute, const BackendNode& tensor) {
    if (tensor.type != kBackendTensor || DescribeAttribute(attribute).is_output != output) return;
    if (found == nullptr || (found->is_virtual && !tensor.is_virtual)) found = &tensor;
  });
  return found;
}

// A tensor between two fused operations is not in memory: follows the chain (such as a convolution's bias and
// activation) to one that is. Null if there is none.
const BackendNode* InMemory(const BackendNode& graph, const BackendNode* tensor, bool output) {
  constexpr int kLongestChain = 16;
  for (int i = 0; i < kLongestChain && tensor != nullptr && tensor->is_virtual; ++i) {
    const BackendNode* next = OperationOf(graph, tensor->uid, !output);
    tensor = next == nullptr ? nullptr : TensorOf(*next, output);
  }
  return tensor != nullptr && !tensor->is_virtual ? tensor : nullptr;
}

void NoteMainTensors(const BackendNode& graph, const BackendNode& operation, BackendNode* plan) {
  plan->main_uid_count = 0;
  for (const MainTensors& known : kMainTensors) {
    if (!Is(operation, known.operation)) continue;
    for (int32_t attribute : known.attributes) {
      bool output = DescribeAttribute(attribute).is_output;
      const BackendNode* tensor = InMemory(graph, ChildOf(operation, attribute), output);
      plan->main_uids[plan->main_uid_count++] = tensor != nullptr ? tensor->uid : -1;
    }
  }
}

// The source of the configuration and the facts found about it.
void WriteOrigin(const BackendNode* configuration, const PlanFacts& facts, PacketWriter* writer) {
  namespace f = fields::CudnnPlan;
  writer->SInt64(f::kEngine, facts.engine);
  for (uint32_t i = 0; i < facts.knobs; ++i) {
    MessageScope knob(writer, f::kKnob);
    writer->SInt32(f::Knob::kType, static_cast<int32_t>(facts.knob_types[i]));
    writer->SInt64(f::Knob::kValue, facts.knob_values[i]);
  }
  PackedSInt(writer, f::kNumericalNote, facts.numerical_notes, facts.numerical_note_count);
  PackedSInt(writer, f::kBehaviorNote, facts.behavior_notes, facts.behavior_note_count);
  bool heuristic = configuration != nullptr && configuration->heuristic_rank >= 0;
  Chooser chooser = facts.json != nullptr ? Chooser::kCached : heuristic ? Chooser::kHeuristic : Chooser::kFixed;
  writer->UInt(f::kChooser, chooser);
  writer->SInt32(f::kHeuristicMode, heuristic ? configuration->heuristic_mode : -1);
  writer->SInt32(f::kHeuristicRank, heuristic ? configuration->heuristic_rank : -1);
  if (heuristic) {
    writer->UInt(f::kHeuristicRequested, configuration->heuristic_requested);
    writer->UInt(f::kHeuristicResults, configuration->heuristic_results);
  }
  writer->UInt(f::kFailedBefore, facts.failed_before);
  constexpr size_t kMaxJson = 16 << 10;
  writer->Text(f::kJson, facts.json, facts.json_bytes < kMaxJson ? facts.json_bytes : kMaxJson);
  writer->UInt(f::kBuildTicks, facts.build_ticks);
  writer->UInt(f::kNumber, facts.number);
  writer->UInt(f::kJsonCut, facts.json_bytes > kMaxJson);
}

}  // namespace

BackendNode* GraphOfConfiguration(const BackendNode* configuration) {
  if (configuration == nullptr) return nullptr;
  if (BackendNode* graph = ChildOf(*configuration, kHeuristicGraph)) return graph;
  const BackendNode* engine = ChildOf(*configuration, kConfigurationEngine);
  return engine == nullptr ? nullptr : ChildOf(*engine, kEngineGraph);
}

void SerializePlan(BackendNode* plan, const PlanFacts& facts, Buffer* out) {
  namespace f = fields::Cudnn;
  const BackendNode* configuration = ChildOf(*plan, kPlanConfiguration);
  const BackendNode* graph = GraphOfConfiguration(configuration);
  const BackendNode* main = graph == nullptr ? nullptr : MainOperation(*graph);
  out->Clear();
  PacketWriter writer(out);
  writer.Text(f::kOperation, main != nullptr ? OperationName(main->type) : "graph");
  if (main != nullptr) {
    TensorSet tensors(&writer);
    tensors.AddTensorsOf(*main);
    ForEachChild(*graph, [&](int32_t, const BackendNode& operation) { tensors.AddTensorsOf(operation); });
    WriteMainOperation(*main, &writer);
    NoteMainTensors(*graph, *main, plan);
  }
  writer.UInt(f::kWorkspaceBytes, static_cast<uint64_t>(facts.workspace_bytes));
  for (uint32_t field : {f::kAlgorithm, f::kMathType, f::kMode})
    writer.SInt32(field, -1);  // the legacy interface's numbers
  MessageScope message(&writer, f::kPlan);
  if (graph != nullptr) {
    ForEachChild(*graph, [&](int32_t, const BackendNode& operation) { WriteNode(operation, &writer); });
  }
  WriteOrigin(configuration, facts, &writer);
}

}  // namespace dlhook::inline track
