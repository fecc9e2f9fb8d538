// Encoding of CUDA's ops.
#include "preload/drain/describe_cuda.h"

#include "preload/drain/message_check.h"
#include "preload/format/definitions.h"

namespace dlhook {
namespace {

// Field numbers of OpDefinition.
enum OpField : uint32_t {
  kGemmField = 6, kCopyField = 9, kLaunchField = 10, kCudnnField = 11, kSearchField = 12, kCollectiveField = 13,
  kAllocationField = 14, kCapturedField = 15
};

// By CudnnOperation: Cudnn.operation.
const char* const kCudnnOperationNames[] = {
    "unknown", "convolution_forward", "convolution_backward_data", "convolution_backward_weights",
    "convolution_backward_bias", "convolution_bias_activation", "transform_tensor", "transform_filter",
    "reorder_filter", "add_tensor", "activation_forward", "activation_backward", "pooling_forward",
    "pooling_backward", "softmax_forward", "softmax_backward", "lrn_forward", "lrn_backward",
    "batch_normalization_inference", "batch_normalization_training", "batch_normalization_backward",
    "dropout_forward", "dropout_backward", "rnn_forward", "rnn_backward_data", "rnn_backward_weights",
    "attention_forward", "attention_backward_data", "attention_backward_weights", "reduce_tensor", "op_tensor",
    "scale_tensor", "set_tensor", "normalization_forward", "normalization_backward"};
static_assert(sizeof kCudnnOperationNames / sizeof *kCudnnOperationNames == static_cast<int>(CudnnOperation::kCount));

// The record's shape, or all zero where it is too short for one.
template <typename Shape>
bool ReadShape(const CallRecord& record, Shape* shape) {
  if (uint32_t{record.header.shape_words} * 8 < sizeof *shape) return false;
  memcpy(shape, &record + 1, sizeof *shape);
  return true;
}

// int32 fields of type sint32.
void SInt32(PacketWriter* writer, uint32_t field, int32_t value) { writer->UInt(field, ZigZag(value) & 0xffffffff); }

template <typename T>
void PackedInts(PacketWriter* writer, uint32_t field, const T* values, uint32_t count) {
  if (count == 0) return;
  size_t mark = writer->Begin(field);
  for (uint32_t i = 0; i < count; ++i) writer->Varint(static_cast<uint64_t>(static_cast<int64_t>(values[i])));
  writer->End(mark);
}

void WriteCudaGemm(const CudaGemmShape& shape, PacketWriter* writer) {
  size_t cuda = writer->Begin(17);
  writer->UInt(1, shape.lt);
  SInt32(writer, 2, shape.compute_type);
  SInt32(writer, 3, shape.scale_type);
  SInt32(writer, 4, shape.math_mode);
  SInt32(writer, 5, shape.algorithm);
  const uint32_t configuration[] = {shape.tile,          shape.stages,      shape.split_k,      shape.reduction, shape.swizzle,
                                    shape.custom_option, shape.inner_shape, shape.cluster_shape, shape.epilogue};
  for (uint32_t i = 0; i < 9; ++i) writer->UInt(6 + i, configuration[i]);
  writer->UInt(15, shape.workspace_bytes);
  writer->UInt(16, shape.alignment_log2 < 32 ? 1u << shape.alignment_log2 : 0);
  writer->UInt(17, static_cast<uint32_t>(shape.chooser));
  SInt32(writer, 18, shape.heuristic_rank);
  writer->UInt(19, shape.heuristic_requested);
  writer->UInt(20, shape.heuristic_results);
  writer->UInt(21, shape.order_a);
  writer->UInt(22, shape.order_b);
  writer->UInt(23, shape.order_d);
  writer->UInt(24, shape.fast_accumulation);
  writer->End(cuda);
}

void WriteCudaGemmOp(const CallRecord& record, PacketWriter* writer) {
  CudaGemmShape shape;
  if (!ReadShape(record, &shape)) return;
  size_t gemm = writer->Begin(kGemmField);
  WriteGemmFields(shape.gemm, writer);
  if (record.header.shape_words >= kGroupedCudaGemmShapeWords) {
    GemmGroups groups;
    memcpy(&groups, reinterpret_cast<const char*>(&record + 1) + sizeof shape, sizeof groups);
    writer->Int(15, groups.groups);
    writer->UInt(16, groups.flops);
  }
  WriteCudaGemm(shape, writer);
  writer->End(gemm);
  writer->UInt(kCapturedField, shape.captured);
}

void WriteCopy(const CallRecord& record, PacketWriter* writer) {
  CopyShape shape;
  if (!ReadShape(record, &shape)) return;
  size_t copy = writer->Begin(kCopyField);
  writer->UInt(1, static_cast<uint32_t>(shape.direction));
  writer->UInt(2, shape.bytes);
  writer->UInt(3, shape.asynchronous);
  writer->UInt(4, static_cast<uint32_t>(shape.host_memory));
  writer->UInt(5, shape.copies);
  writer->UInt(6, shape.width_bytes);
  writer->UInt(7, shape.height);
  writer->UInt(8, shape.depth);
  SInt32(writer, 9, shape.source_device);
  SInt32(writer, 10, shape.destination_device);
  writer->End(copy);
  writer->UInt(kCapturedField, shape.captured);
}

void WriteLaunch(const CallRecord& record, const DefinitionSource& definitions, PacketWriter* writer) {
  LaunchShape shape;
  if (!ReadShape(record, &shape)) return;
  DefinedBytes name = FindDefinition(definitions.session, definitions.mapping_bytes, shape.kernel, DefinitionKind::kKernel);
  size_t launch = writer->Begin(kLaunchField);
  if (name.data != nullptr) writer->Text(1, name.data, name.bytes);
  for (uint32_t i = 0; i < 3; ++i) writer->UInt(2 + i, shape.grid[i]);
  for (uint32_t i = 0; i < 3; ++i) writer->UInt(5 + i, shape.block[i]);
  writer->UInt(8, shape.shared_bytes);
  writer->UInt(9, shape.cooperative);
  writer->End(launch);
  writer->UInt(kCapturedField, shape.captured);
}

void WriteTensor(const CudnnTensorShape& tensor, PacketWriter* writer) {
  uint32_t dims = tensor.dims <= 8 ? tensor.dims : 8;
  size_t message = writer->Begin(2);
  writer->UInt(1, static_cast<uint32_t>(tensor.role));
  writer->UInt(2, static_cast<uint32_t>(tensor.type));
  PackedInts(writer, 3, tensor.dim, dims);
  PackedInts(writer, 4, tensor.stride, dims);
  writer->UInt(7, tensor.vector_count);
  writer->End(message);
}

void WriteCudnnFields(const CudnnShape& shape, PacketWriter* writer) {
  uint32_t operation = static_cast<uint32_t>(shape.operation);
  uint32_t spatial = shape.spatial_dims <= 3 ? shape.spatial_dims : 3;
  writer->String(1, kCudnnOperationNames[operation < static_cast<uint32_t>(CudnnOperation::kCount) ? operation : 0]);
  for (const CudnnTensorShape& tensor : shape.tensors) {
    if (tensor.role != TensorRole::kUnknown) WriteTensor(tensor, writer);
  }
  PackedInts(writer, 3, shape.pad, spatial);
  PackedInts(writer, 5, shape.stride, spatial);
  PackedInts(writer, 6, shape.dilation, spatial);
  writer->Int(7, shape.groups);
  SInt32(writer, 8, shape.convolution_mode);
  writer->UInt(9, static_cast<uint32_t>(shape.compute_type));
  writer->UInt(10, shape.workspace_bytes);
  SInt32(writer, 11, shape.algorithm);
  SInt32(writer, 12, shape.math_type);
  SInt32(writer, 13, shape.mode);
}

void WriteLegacyCudnn(const CallRecord& record, PacketWriter* writer) {
  CudnnShape shape;
  if (!ReadShape(record, &shape)) return;
  size_t cudnn = writer->Begin(kCudnnField);
  WriteCudnnFields(shape, writer);
  writer->End(cudnn);
  writer->UInt(kCapturedField, shape.captured);
}

void WritePlan(const CallRecord& record, const DefinitionSource& definitions, PacketWriter* writer) {
  PlanShape shape;
  if (!ReadShape(record, &shape)) return;
  DefinedBytes plan = FindDefinition(definitions.session, definitions.mapping_bytes, shape.plan, DefinitionKind::kCudnnPlan);
  size_t cudnn = writer->Begin(kCudnnField);
  if (plan.data != nullptr && IsCudnnMessage(plan.data, plan.bytes)) {
    writer->Raw(plan.data, plan.bytes);
  } else {
    writer->String(1, "unknown");
  }
  writer->UInt(15, shape.pack_seen_before);
  writer->End(cudnn);
  writer->UInt(kCapturedField, shape.captured);
}

void WriteSearch(const CallRecord& record, PacketWriter* writer) {
  SearchShape shape;
  if (!ReadShape(record, &shape)) return;
  size_t search = writer->Begin(kSearchField);
  size_t problem = writer->Begin(1);
  WriteCudnnFields(shape.problem, writer);
  writer->End(problem);
  writer->UInt(2, shape.measured);
  writer->UInt(3, shape.requested);
  for (uint32_t i = 0; i < shape.candidate_count && i < SearchShape::kCandidates; ++i) {
    const SearchCandidate& candidate = shape.candidates[i];
    size_t message = writer->Begin(4);
    SInt32(writer, 1, candidate.algorithm);
    SInt32(writer, 2, candidate.status);
    writer->UInt(3, candidate.time_ns);
    writer->UInt(4, candidate.workspace_bytes);
    SInt32(writer, 5, candidate.determinism);
    SInt32(writer, 6, candidate.math_type);
    writer->End(message);
  }
  writer->End(search);
}

void WriteCollective(const CallRecord& record, PacketWriter* writer) {
  CollectiveShape shape;
  if (!ReadShape(record, &shape)) return;
  size_t collective = writer->Begin(kCollectiveField);
  writer->UInt(1, static_cast<uint32_t>(shape.kind));
  writer->UInt(2, shape.bytes);
  writer->UInt(3, shape.count);
  writer->UInt(4, static_cast<uint32_t>(shape.data_type));
  SInt32(writer, 5, shape.reduction);
  SInt32(writer, 6, shape.peer);
  writer->UInt(7, shape.communicator);
  SInt32(writer, 8, shape.rank);
  SInt32(writer, 9, shape.ranks);
  writer->UInt(10, shape.blocking);
  writer->End(collective);
  writer->UInt(kCapturedField, shape.captured);
}

void WriteAllocation(const CallRecord& record, PacketWriter* writer) {
  AllocationShape shape;
  if (!ReadShape(record, &shape)) return;
  size_t allocation = writer->Begin(kAllocationField);
  writer->UInt(1, static_cast<uint32_t>(shape.kind));
  writer->UInt(2, shape.is_free);
  writer->UInt(3, shape.bytes);
  writer->End(allocation);
}

}  // namespace

void WriteCudaShape(const CallRecord& record, const DefinitionSource& definitions, PacketWriter* writer) {
  switch (record.header.type) {
    case RecordType::kCudaGemmCall:
      WriteCudaGemmOp(record, writer);
      break;
    case RecordType::kCopyCall:
      WriteCopy(record, writer);
      break;
    case RecordType::kLaunchCall:
      WriteLaunch(record, definitions, writer);
      break;
    case RecordType::kCudnnCall:
      WriteLegacyCudnn(record, writer);
      break;
    case RecordType::kPlanCall:
      WritePlan(record, definitions, writer);
      break;
    case RecordType::kSearchCall:
      WriteSearch(record, writer);
      break;
    case RecordType::kCollectiveCall:
      WriteCollective(record, writer);
      break;
    case RecordType::kAllocationCall:
      WriteAllocation(record, writer);
      break;
    default:
      break;
  }
}

}  // namespace dlhook
