// Encodes CUDA ops, and those of MPI and LIBXSMM.
#include "preload/drain/describe_cuda.h"

#include "preload/drain/message_check.h"
#include "preload/format/definitions.h"
#include "preload/proto_fields.h"

namespace dlhook::inline drain {
namespace {

// By CudnnOperation: Cudnn.operation.
// clang-format off
const char* const kCudnnOperationNames[] = {
    "unknown", "convolution_forward", "convolution_backward_data", "convolution_backward_weights",
    "convolution_backward_bias", "convolution_bias_activation", "transform_tensor", "transform_filter",
    "reorder_filter", "add_tensor", "activation_forward", "activation_backward", "pooling_forward",
    "pooling_backward", "softmax_forward", "softmax_backward", "lrn_forward", "lrn_backward",
    "batch_normalization_inference", "batch_normalization_training", "batch_normalization_backward",
    "dropout_forward", "dropout_backward", "rnn_forward", "rnn_backward_data", "rnn_backward_weights",
    "attention_forward", "attention_backward_data", "attention_backward_weights", "reduce_tensor", "op_tensor",
    "scale_tensor", "set_tensor", "normalization_forward", "normalization_backward"};
// clang-format on
static_assert(sizeof kCudnnOperationNames / sizeof *kCudnnOperationNames == static_cast<int>(CudnnOperation::kCount));

// The record's shape, or zeros if the record is too short.
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
  namespace f = fields::CudaGemm;
  size_t cuda = writer->Begin(fields::Gemm::kCuda);
  writer->UInt(f::kLt, shape.lt);
  SInt32(writer, f::kComputeType, shape.compute_type);
  SInt32(writer, f::kScaleType, shape.scale_type);
  SInt32(writer, f::kMathMode, shape.math_mode);
  SInt32(writer, f::kAlgorithm, shape.algorithm);
  writer->UInt(f::kTile, shape.tile);
  writer->UInt(f::kStages, shape.stages);
  writer->UInt(f::kSplitK, shape.split_k);
  writer->UInt(f::kReduction, shape.reduction);
  writer->UInt(f::kSwizzle, shape.swizzle);
  writer->UInt(f::kCustomOption, shape.custom_option);
  writer->UInt(f::kInnerShape, shape.inner_shape);
  writer->UInt(f::kClusterShape, shape.cluster_shape);
  writer->UInt(f::kEpilogue, shape.epilogue);
  writer->UInt(f::kWorkspaceBytes, shape.workspace_bytes);
  writer->UInt(f::kAlignmentBytes, shape.alignment_log2 < 32 ? 1u << shape.alignment_log2 : 0);
  writer->UInt(f::kChooser, static_cast<uint32_t>(shape.chooser));
  SInt32(writer, f::kHeuristicRank, shape.heuristic_rank);
  writer->UInt(f::kHeuristicRequested, shape.heuristic_requested);
  writer->UInt(f::kHeuristicResults, shape.heuristic_results);
  writer->UInt(f::kOrderA, shape.order_a);
  writer->UInt(f::kOrderB, shape.order_b);
  writer->UInt(f::kOrderD, shape.order_d);
  writer->UInt(f::kFastAccumulation, shape.fast_accumulation);
  writer->End(cuda);
}

void WriteCudaGemmOp(const CallRecord& record, PacketWriter* writer) {
  CudaGemmShape shape;
  if (!ReadShape(record, &shape)) return;
  size_t gemm = writer->Begin(fields::OpDefinition::kGemm);
  WriteGemmFields(shape.gemm, writer);
  if (record.header.shape_words >= kGroupedCudaGemmShapeWords) {
    GemmGroups groups;
    memcpy(&groups, reinterpret_cast<const char*>(&record + 1) + sizeof shape, sizeof groups);
    writer->Int(fields::Gemm::kGroups, groups.groups);
    writer->UInt(fields::Gemm::kFlops, groups.flops);
  }
  WriteCudaGemm(shape, writer);
  writer->End(gemm);
  writer->UInt(fields::OpDefinition::kCaptured, shape.captured);
}

void WriteCopy(const CallRecord& record, PacketWriter* writer) {
  namespace f = fields::Copy;
  CopyShape shape;
  if (!ReadShape(record, &shape)) return;
  size_t copy = writer->Begin(fields::OpDefinition::kCopy);
  writer->UInt(f::kDirection, static_cast<uint32_t>(shape.direction));
  writer->UInt(f::kBytes, shape.bytes);
  writer->UInt(f::kAsynchronous, shape.asynchronous);
  writer->UInt(f::kHostMemory, static_cast<uint32_t>(shape.host_memory));
  writer->UInt(f::kCopies, shape.copies);
  writer->UInt(f::kWidthBytes, shape.width_bytes);
  writer->UInt(f::kHeight, shape.height);
  writer->UInt(f::kDepth, shape.depth);
  SInt32(writer, f::kSourceDevice, shape.source_device);
  SInt32(writer, f::kDestinationDevice, shape.destination_device);
  writer->End(copy);
  writer->UInt(fields::OpDefinition::kCaptured, shape.captured);
}

void WriteLaunch(const CallRecord& record, const DefinitionSource& definitions, PacketWriter* writer) {
  namespace f = fields::KernelLaunch;
  LaunchShape shape;
  if (!ReadShape(record, &shape)) return;
  DefinedBytes name =
      FindDefinition(definitions.session, definitions.mapping_bytes, shape.kernel, DefinitionKind::kKernel);
  size_t launch = writer->Begin(fields::OpDefinition::kLaunch);
  if (name.data != nullptr) writer->Text(f::kKernel, name.data, name.bytes);
  writer->UInt(f::kGridX, shape.grid[0]);
  writer->UInt(f::kGridY, shape.grid[1]);
  writer->UInt(f::kGridZ, shape.grid[2]);
  writer->UInt(f::kBlockX, shape.block[0]);
  writer->UInt(f::kBlockY, shape.block[1]);
  writer->UInt(f::kBlockZ, shape.block[2]);
  writer->UInt(f::kSharedBytes, shape.shared_bytes);
  writer->UInt(f::kCooperative, shape.cooperative);
  writer->End(launch);
  writer->UInt(fields::OpDefinition::kCaptured, shape.captured);
}

void WriteTensor(const CudnnTensorShape& tensor, PacketWriter* writer) {
  namespace f = fields::CudnnTensor;
  uint32_t dims = tensor.dims <= 8 ? tensor.dims : 8;
  size_t message = writer->Begin(fields::Cudnn::kTensor);
  writer->UInt(f::kRole, static_cast<uint32_t>(tensor.role));
  writer->UInt(f::kType, static_cast<uint32_t>(tensor.type));
  PackedInts(writer, f::kDim, tensor.dim, dims);
  PackedInts(writer, f::kStride, tensor.stride, dims);
  writer->UInt(f::kVectorCount, tensor.vector_count);
  writer->End(message);
}

void WriteCudnnFields(const CudnnShape& shape, PacketWriter* writer) {
  namespace f = fields::Cudnn;
  uint32_t operation = static_cast<uint32_t>(shape.operation);
  uint32_t spatial = shape.spatial_dims <= 3 ? shape.spatial_dims : 3;
  writer->String(f::kOperation,
                 kCudnnOperationNames[operation < static_cast<uint32_t>(CudnnOperation::kCount) ? operation : 0]);
  for (const CudnnTensorShape& tensor : shape.tensors) {
    if (tensor.role != TensorRole::kUnknown) WriteTensor(tensor, writer);
  }
  PackedInts(writer, f::kPad, shape.pad, spatial);
  PackedInts(writer, f::kStride, shape.stride, spatial);
  PackedInts(writer, f::kDilation, shape.dilation, spatial);
  writer->Int(f::kGroups, shape.groups);
  SInt32(writer, f::kConvolutionMode, shape.convolution_mode);
  writer->UInt(f::kComputeType, static_cast<uint32_t>(shape.compute_type));
  writer->UInt(f::kWorkspaceBytes, shape.workspace_bytes);
  SInt32(writer, f::kAlgorithm, shape.algorithm);
  SInt32(writer, f::kMathType, shape.math_type);
  SInt32(writer, f::kMode, shape.mode);
}

void WriteLegacyCudnn(const CallRecord& record, PacketWriter* writer) {
  CudnnShape shape;
  if (!ReadShape(record, &shape)) return;
  size_t cudnn = writer->Begin(fields::OpDefinition::kCudnn);
  WriteCudnnFields(shape, writer);
  writer->End(cudnn);
  writer->UInt(fields::OpDefinition::kCaptured, shape.captured);
}

void WritePlan(const CallRecord& record, const DefinitionSource& definitions, PacketWriter* writer) {
  PlanShape shape;
  if (!ReadShape(record, &shape)) return;
  DefinedBytes plan =
      FindDefinition(definitions.session, definitions.mapping_bytes, shape.plan, DefinitionKind::kCudnnPlan);
  size_t cudnn = writer->Begin(fields::OpDefinition::kCudnn);
  if (plan.data != nullptr && IsCudnnMessage(plan.data, plan.bytes)) {
    writer->Raw(plan.data, plan.bytes);
  } else {
    writer->String(fields::Cudnn::kOperation, "unknown");
  }
  writer->UInt(fields::Cudnn::kPackSeenBefore, shape.pack_seen_before);
  writer->End(cudnn);
  writer->UInt(fields::OpDefinition::kCaptured, shape.captured);
}

void WriteSearch(const CallRecord& record, PacketWriter* writer) {
  namespace f = fields::CudnnSearch::Candidate;
  SearchShape shape;
  if (!ReadShape(record, &shape)) return;
  size_t search = writer->Begin(fields::OpDefinition::kCudnnSearch);
  size_t problem = writer->Begin(fields::CudnnSearch::kProblem);
  WriteCudnnFields(shape.problem, writer);
  writer->End(problem);
  writer->UInt(fields::CudnnSearch::kMeasured, shape.measured);
  writer->UInt(fields::CudnnSearch::kRequested, shape.requested);
  for (uint32_t i = 0; i < shape.candidate_count && i < SearchShape::kCandidates; ++i) {
    const SearchCandidate& candidate = shape.candidates[i];
    size_t message = writer->Begin(fields::CudnnSearch::kCandidate);
    SInt32(writer, f::kAlgorithm, candidate.algorithm);
    SInt32(writer, f::kStatus, candidate.status);
    writer->UInt(f::kTimeNs, candidate.time_ns);
    writer->UInt(f::kWorkspaceBytes, candidate.workspace_bytes);
    SInt32(writer, f::kDeterminism, candidate.determinism);
    SInt32(writer, f::kMathType, candidate.math_type);
    writer->End(message);
  }
  writer->End(search);
}

void WriteCollective(const CallRecord& record, PacketWriter* writer) {
  namespace f = fields::Collective;
  CollectiveShape shape;
  if (!ReadShape(record, &shape)) return;
  size_t collective = writer->Begin(fields::OpDefinition::kCollective);
  writer->UInt(f::kKind, static_cast<uint32_t>(shape.kind));
  writer->UInt(f::kBytes, shape.bytes);
  writer->UInt(f::kCount, shape.count);
  writer->UInt(f::kDataType, static_cast<uint32_t>(shape.data_type));
  SInt32(writer, f::kReduction, shape.reduction);
  SInt32(writer, f::kPeer, shape.peer);
  writer->UInt(f::kCommunicator, shape.communicator);
  SInt32(writer, f::kRank, shape.rank);
  SInt32(writer, f::kRanks, shape.ranks);
  writer->UInt(f::kBlocking, shape.blocking);
  writer->End(collective);
  writer->UInt(fields::OpDefinition::kCaptured, shape.captured);
}

void WriteAllocation(const CallRecord& record, PacketWriter* writer) {
  namespace f = fields::Allocation;
  AllocationShape shape;
  if (!ReadShape(record, &shape)) return;
  size_t allocation = writer->Begin(fields::OpDefinition::kAllocation);
  writer->UInt(f::kKind, static_cast<uint32_t>(shape.kind));
  writer->UInt(f::kIsFree, shape.is_free);
  writer->UInt(f::kBytes, shape.bytes);
  writer->End(allocation);
}

void WriteLibxsmm(const CallRecord& record, PacketWriter* writer) {
  namespace f = fields::Libxsmm;
  LibxsmmShape shape;
  if (!ReadShape(record, &shape)) return;
  size_t libxsmm = writer->Begin(fields::OpDefinition::kLibxsmm);
  writer->UInt(f::kLayer, static_cast<uint32_t>(shape.layer));
  writer->UInt(f::kPass, static_cast<uint32_t>(shape.pass));
  writer->UInt(f::kCreation, shape.creation);
  writer->UInt(f::kShare, shape.share);
  PackedInts(writer, f::kNumber, shape.numbers, shape.count <= LibxsmmShape::kNumbers ? shape.count : 0);
  writer->End(libxsmm);
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
    case RecordType::kLibxsmmCall:
      WriteLibxsmm(record, writer);
      break;
    default:
      break;
  }
}

}  // namespace dlhook::inline drain
