// Encodes what calls computed.

#include "preload/drain/describe.h"
#include "preload/format/definitions.h"
#include "preload/format/packet_writer.h"

namespace dlhook::inline drain {
namespace {

struct Bytes {
  const uint8_t* at;
  const uint8_t* end;
};

constexpr uint32_t kMaxTagBytes = 5;  // of lengths, too
constexpr uint32_t kMaxNumberBytes = 10;

bool ReadVarint(Bytes* bytes, uint32_t max_bytes, uint64_t* value) {
  *value = 0;
  for (uint32_t shift = 0; bytes->at < bytes->end && shift < 7 * max_bytes; shift += 7) {
    *value |= uint64_t{*bytes->at & 0x7fu} << shift;
    if ((*bytes->at++ & 0x80) == 0) return true;
  }
  return false;
}

bool AreVarints(Bytes bytes) {
  uint64_t value;
  while (bytes.at < bytes.end) {
    if (!ReadVarint(&bytes, kMaxNumberBytes, &value)) return false;
  }
  return true;
}

bool IsUtf8(Bytes bytes) {
  while (bytes.at < bytes.end) {
    const Character character =
        FirstCharacter(reinterpret_cast<const char*>(bytes.at), static_cast<size_t>(bytes.end - bytes.at));
    if (!character.is_utf8) return false;
    bytes.at += character.bytes;
  }
  return true;
}

bool IsMessage(const MessageForm& form, Bytes bytes);

bool FitsField(const MessageForm& form, uint64_t field, Bytes content) {
  if (field >= 32) return true;
  uint32_t bit = 1u << field;
  if ((form.texts & bit) != 0) return IsUtf8(content);
  if ((form.columns & bit) != 0) return AreVarints(content);
  if ((form.messages & bit) == 0) return true;
  return IsMessage(*form.inner[__builtin_popcount(form.messages & (bit - 1))], content);
}

bool IsMessage(const MessageForm& form, Bytes bytes) {
  while (bytes.at < bytes.end) {
    uint64_t tag, value;
    if (!ReadVarint(&bytes, kMaxTagBytes, &tag) || tag >> 3 == 0 || tag > UINT32_MAX) return false;
    bool is_number = (tag & 7) == 0;
    bool is_bytes = (tag & 7) == 2;
    if (!is_number && !is_bytes) return false;
    if (!ReadVarint(&bytes, is_number ? kMaxNumberBytes : kMaxTagBytes, &value)) return false;
    if (is_number) continue;
    if (value > static_cast<uint64_t>(bytes.end - bytes.at)) return false;
    Bytes content = {bytes.at, bytes.at + value};
    if (!FitsField(form, tag >> 3, content)) return false;
    bytes.at = content.end;
  }
  return true;
}

// Writes the call's shape into this field of the open OpDefinition, and what OpDefinition itself has of it.
template <typename Shape, typename Write>
void WriteAs(uint32_t field, const CallRecord& record, PacketWriter* writer, Write write) {
  Shape shape;
  if (uint32_t{record.header.shape_words} * 8 < sizeof shape) return;
  memcpy(&shape, &record + 1, sizeof shape);
  {
    MessageScope message(writer, field);
    write(shape);
  }
  fields::OpDefinition::Write(shape, writer);
}

// What may follow a shape. All of it 0 if nothing does.
template <typename More, typename Shape>
More Behind(const Shape&, const CallRecord& record) {
  More more = {};
  if (uint32_t{record.header.shape_words} * 8 < sizeof(Shape) + sizeof more) return more;
  memcpy(&more, reinterpret_cast<const char*>(&record + 1) + sizeof(Shape), sizeof more);
  return more;
}

void WriteTensor(const CudnnTensorShape& tensor, PacketWriter* writer) {
  namespace f = fields::CudnnTensor;
  uint32_t dims = tensor.dims <= 8 ? tensor.dims : 8;
  MessageScope message(writer, fields::Cudnn::kTensor);
  f::Write(tensor, writer);
  writer->PackedInts(f::kDim, tensor.dim, dims);
  writer->PackedInts(f::kStride, tensor.stride, dims);
}

void WriteCudnn(const CudnnShape& shape, PacketWriter* writer) {
  namespace f = fields::Cudnn;
  uint32_t spatial = shape.spatial_dims <= 3 ? shape.spatial_dims : 3;
  f::Write(shape, writer);
  if (*EnumName(shape.operation) == '\0') writer->Text(f::kOperation, CudnnOperation::kUnknown);
  for (const CudnnTensorShape& tensor : shape.tensors) {
    if (tensor.role != TensorRole::kUnknown) WriteTensor(tensor, writer);
  }
  writer->PackedInts(f::kPad, shape.pad, spatial);
  writer->PackedInts(f::kStride, shape.stride, spatial);
  writer->PackedInts(f::kDilation, shape.dilation, spatial);
}

void WritePlan(const PlanShape& shape, const DefinitionSource& definitions, PacketWriter* writer) {
  DefinedBytes plan =
      FindDefinition(definitions.session, definitions.mapping_bytes, shape.plan, DefinitionKind::kCudnnPlan);
  if (plan.data != nullptr && IsCudnnMessage(plan.data, plan.bytes)) {
    writer->Raw(plan.data, plan.bytes);
  } else {
    writer->Text(fields::Cudnn::kOperation, CudnnOperation::kUnknown);
  }
  writer->UInt(fields::Cudnn::kPackSeenBefore, shape.pack_seen_before);
}

void WriteSearch(const SearchShape& shape, PacketWriter* writer) {
  namespace f = fields::CudnnSearch;
  f::Write(shape, writer);
  {
    MessageScope problem(writer, f::kProblem);
    WriteCudnn(shape.problem, writer);
  }
  for (uint32_t i = 0; i < shape.candidate_count && i < SearchShape::kCandidates; ++i) {
    MessageScope candidate(writer, f::kCandidate);
    f::Candidate::Write(shape.candidates[i], writer);
  }
}

}  // namespace

// Protobuf's wire format, as far as a parser rejects it: broken varints and lengths, text that is not UTF-8.
bool IsCudnnMessage(const void* bytes, size_t size) {
  auto begin = static_cast<const uint8_t*>(bytes);
  return IsMessage(fields::Cudnn::kForm, {begin, begin + size});
}

void WriteShape(const CallRecord& record, const DefinitionSource& definitions, PacketWriter* writer) {
  namespace f = fields::OpDefinition;
  switch (record.header.type) {
    case RecordType::kGemmCall:
      return WriteAs<GemmShape>(f::kGemm, record, writer, [&](const auto& shape) {
        fields::Gemm::Write(shape, writer);
        fields::Gemm::Write(Behind<GemmGroups>(shape, record), writer);
      });
    case RecordType::kCudaGemmCall:
      return WriteAs<CudaGemmShape>(f::kGemm, record, writer, [&](const auto& shape) {
        fields::Gemm::Write(shape.gemm, writer);
        fields::Gemm::Write(Behind<GemmGroups>(shape, record), writer);
        MessageScope cuda(writer, fields::Gemm::kCuda);
        fields::CudaGemm::Write(shape, writer);
        writer->UInt(fields::CudaGemm::kAlignmentBytes, shape.alignment_log2 < 32 ? 1u << shape.alignment_log2 : 0);
      });
    case RecordType::kMatrixCall: {
      CudaMatrixShape cuda = Behind<CudaMatrixShape>(MatrixShape{}, record);
      WriteAs<MatrixShape>(f::kMatrix, record, writer, [&](const auto& shape) {
        fields::MatrixOp::Write(shape, writer);
        fields::MatrixOp::Write(cuda, writer);
      });
      return f::Write(cuda, writer);
    }
    case RecordType::kCopyCall:
      return WriteAs<CopyShape>(f::kCopy, record, writer,
                                [&](const auto& shape) { fields::Copy::Write(shape, writer); });
    case RecordType::kLaunchCall:
      return WriteAs<LaunchShape>(f::kLaunch, record, writer, [&](const auto& shape) {
        DefinedBytes name =
            FindDefinition(definitions.session, definitions.mapping_bytes, shape.kernel, DefinitionKind::kKernel);
        if (name.data != nullptr) writer->Text(fields::KernelLaunch::kKernel, name.data, name.bytes);
        fields::KernelLaunch::Write(shape, writer);
      });
    case RecordType::kCudnnCall:
      return WriteAs<CudnnShape>(f::kCudnn, record, writer, [&](const auto& shape) { WriteCudnn(shape, writer); });
    case RecordType::kPlanCall:
      return WriteAs<PlanShape>(f::kCudnn, record, writer,
                                [&](const auto& shape) { WritePlan(shape, definitions, writer); });
    case RecordType::kSearchCall:
      return WriteAs<SearchShape>(f::kCudnnSearch, record, writer,
                                  [&](const auto& shape) { WriteSearch(shape, writer); });
    case RecordType::kCollectiveCall:
      return WriteAs<CollectiveShape>(f::kCollective, record, writer,
                                      [&](const auto& shape) { fields::Collective::Write(shape, writer); });
    case RecordType::kAllocationCall:
      return WriteAs<AllocationShape>(f::kAllocation, record, writer,
                                      [&](const auto& shape) { fields::Allocation::Write(shape, writer); });
    default:
      return;
  }
}

}  // namespace dlhook::inline drain
