// Encodes what calls computed.

#include "preload/drain/describe.h"
#include "preload/format/definitions.h"
#include "preload/format/packet_writer.h"

namespace dlhook::inline drain {
namespace {

// The types of a message's fields, by number. Other fields are numbers or unknown: they are always valid.
struct Form {
  uint32_t texts;        // bit i: field i is a string
  uint32_t columns;      // … a packed field of numbers
  uint32_t messages;     // … a message, whose form is
  const Form* inner[3];  // that of the first such field, of the next …
};

namespace tensor = fields::CudnnTensor;
namespace node = fields::CudnnNode;
namespace knob = fields::CudnnPlan::Knob;
namespace plan = fields::CudnnPlan;
namespace cudnn = fields::Cudnn;
constexpr Form kTensor = {tensor::kTexts, tensor::kRepeated, tensor::kMessages, {}};
constexpr Form kNode = {node::kTexts, node::kRepeated, node::kMessages, {}};
constexpr Form kKnob = {knob::kTexts, knob::kRepeated, knob::kMessages, {}};
constexpr Form kPlan = {plan::kTexts, plan::kRepeated, plan::kMessages, {&kNode, &kKnob}};
constexpr Form kCudnn = {cudnn::kTexts, cudnn::kRepeated, cudnn::kMessages, {&kTensor, &kPlan}};
static_assert((tensor::kMessages | node::kMessages | knob::kMessages) == 0);
static_assert(plan::kNode < plan::kKnob && plan::kMessages == (1 << plan::kNode | 1 << plan::kKnob));
static_assert(cudnn::kTensor < cudnn::kPlan && cudnn::kMessages == (1 << cudnn::kTensor | 1 << cudnn::kPlan));

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
    size_t length = Utf8Length(reinterpret_cast<const char*>(bytes.at), static_cast<size_t>(bytes.end - bytes.at));
    if (length == 0) return false;
    bytes.at += length;
  }
  return true;
}

bool IsMessage(const Form& form, Bytes bytes);

bool FitsField(const Form& form, uint64_t field, Bytes content) {
  if (field >= 32) return true;
  uint32_t bit = 1u << field;
  if ((form.texts & bit) != 0) return IsUtf8(content);
  if ((form.columns & bit) != 0) return AreVarints(content);
  if ((form.messages & bit) == 0) return true;
  return IsMessage(*form.inner[__builtin_popcount(form.messages & (bit - 1))], content);
}

bool IsMessage(const Form& form, Bytes bytes) {
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

// The record's shape, or zeros if the record is too short.
template <typename Shape>
bool ReadShape(const CallRecord& record, Shape* shape) {
  if (uint32_t{record.header.shape_words} * 8 < sizeof *shape) return false;
  memcpy(shape, &record + 1, sizeof *shape);
  return true;
}

// The groups after a product's shape of `words` words.
void WriteGroups(const CallRecord& record, size_t words, PacketWriter* writer) {
  GemmGroups groups;
  if (record.header.shape_words < words + sizeof groups / 8) return;
  memcpy(&groups, reinterpret_cast<const uint64_t*>(&record + 1) + words, sizeof groups);
  fields::Gemm::Write(groups, writer);
}

void WriteGemm(const CallRecord& record, PacketWriter* writer) {
  GemmShape shape;
  if (!ReadShape(record, &shape)) return;
  MessageScope gemm(writer, fields::OpDefinition::kGemm);
  fields::Gemm::Write(shape, writer);
  WriteGroups(record, kGemmShapeWords, writer);
}

void WriteCudaGemm(const CallRecord& record, PacketWriter* writer) {
  CudaGemmShape shape;
  if (!ReadShape(record, &shape)) return;
  {
    MessageScope gemm(writer, fields::OpDefinition::kGemm);
    fields::Gemm::Write(shape.gemm, writer);
    WriteGroups(record, kCudaGemmShapeWords, writer);
    MessageScope cuda(writer, fields::Gemm::kCuda);
    fields::CudaGemm::Write(shape, writer);
    writer->UInt(fields::CudaGemm::kAlignmentBytes, shape.alignment_log2 < 32 ? 1u << shape.alignment_log2 : 0);
  }
  writer->UInt(fields::OpDefinition::kCaptured, shape.captured);
}

void WriteLaunch(const CallRecord& record, const DefinitionSource& definitions, PacketWriter* writer) {
  LaunchShape shape;
  if (!ReadShape(record, &shape)) return;
  DefinedBytes name =
      FindDefinition(definitions.session, definitions.mapping_bytes, shape.kernel, DefinitionKind::kKernel);
  {
    MessageScope launch(writer, fields::OpDefinition::kLaunch);
    fields::KernelLaunch::Write({.kernel = {name.data, name.data != nullptr ? name.bytes : 0},
                                 .grid_x = shape.grid[0],
                                 .grid_y = shape.grid[1],
                                 .grid_z = shape.grid[2],
                                 .block_x = shape.block[0],
                                 .block_y = shape.block[1],
                                 .block_z = shape.block[2],
                                 .shared_bytes = shape.shared_bytes,
                                 .cooperative = shape.cooperative != 0,
                                 .cluster_x = shape.cluster[0],
                                 .cluster_y = shape.cluster[1],
                                 .cluster_z = shape.cluster[2],
                                 .programmatic = shape.programmatic != 0,
                                 .priority = shape.priority},
                                writer);
  }
  writer->UInt(fields::OpDefinition::kCaptured, shape.captured);
}

void WriteTensor(const CudnnTensorShape& tensor, PacketWriter* writer) {
  namespace f = fields::CudnnTensor;
  uint32_t dims = tensor.dims <= 8 ? tensor.dims : 8;
  MessageScope message(writer, fields::Cudnn::kTensor);
  f::Write(tensor, writer);
  writer->PackedInts(f::kDim, tensor.dim, dims);
  writer->PackedInts(f::kStride, tensor.stride, dims);
}

void WriteCudnnFields(const CudnnShape& shape, PacketWriter* writer) {
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

void WriteLegacyCudnn(const CallRecord& record, PacketWriter* writer) {
  CudnnShape shape;
  if (!ReadShape(record, &shape)) return;
  {
    MessageScope cudnn(writer, fields::OpDefinition::kCudnn);
    WriteCudnnFields(shape, writer);
  }
  writer->UInt(fields::OpDefinition::kCaptured, shape.captured);
}

void WritePlan(const CallRecord& record, const DefinitionSource& definitions, PacketWriter* writer) {
  PlanShape shape;
  if (!ReadShape(record, &shape)) return;
  DefinedBytes plan =
      FindDefinition(definitions.session, definitions.mapping_bytes, shape.plan, DefinitionKind::kCudnnPlan);
  {
    MessageScope cudnn(writer, fields::OpDefinition::kCudnn);
    if (plan.data != nullptr && IsCudnnMessage(plan.data, plan.bytes)) {
      writer->Raw(plan.data, plan.bytes);
    } else {
      writer->Text(fields::Cudnn::kOperation, CudnnOperation::kUnknown);
    }
    writer->UInt(fields::Cudnn::kPackSeenBefore, shape.pack_seen_before);
  }
  writer->UInt(fields::OpDefinition::kCaptured, shape.captured);
}

void WriteSearch(const CallRecord& record, PacketWriter* writer) {
  namespace f = fields::CudnnSearch;
  SearchShape shape;
  if (!ReadShape(record, &shape)) return;
  MessageScope search(writer, fields::OpDefinition::kCudnnSearch);
  f::Write(shape, writer);
  {
    MessageScope problem(writer, f::kProblem);
    WriteCudnnFields(shape.problem, writer);
  }
  for (uint32_t i = 0; i < shape.candidate_count && i < SearchShape::kCandidates; ++i) {
    MessageScope candidate(writer, f::kCandidate);
    f::Candidate::Write(shape.candidates[i], writer);
  }
}

void WriteLibxsmm(const CallRecord& record, PacketWriter* writer) {
  namespace f = fields::Libxsmm;
  LibxsmmShape shape;
  if (!ReadShape(record, &shape)) return;
  MessageScope libxsmm(writer, fields::OpDefinition::kLibxsmm);
  f::Write(shape, writer);
  writer->PackedInts(f::kNumber, shape.numbers, shape.count <= LibxsmmShape::kNumbers ? shape.count : 0);
}

// A message that holds nothing but the shape's members.
template <typename Shape>
void WriteWhole(const CallRecord& record, uint32_t field, void (*write)(const Shape&, PacketWriter*),
                PacketWriter* writer) {
  Shape shape;
  if (!ReadShape(record, &shape)) return;
  {
    MessageScope message(writer, field);
    write(shape, writer);
  }
  fields::OpDefinition::Write(shape, writer);
}

}  // namespace

// Protobuf's wire format, as far as a parser rejects it: broken varints and lengths, text that is not UTF-8.
bool IsCudnnMessage(const void* bytes, size_t size) {
  auto begin = static_cast<const uint8_t*>(bytes);
  return IsMessage(kCudnn, {begin, begin + size});
}

void WriteShape(const CallRecord& record, const DefinitionSource& definitions, PacketWriter* writer) {
  namespace f = fields::OpDefinition;
  switch (record.header.type) {
    case RecordType::kGemmCall:
      return WriteGemm(record, writer);
    case RecordType::kCudaGemmCall:
      return WriteCudaGemm(record, writer);
    case RecordType::kCopyCall:
      return WriteWhole(record, f::kCopy, fields::Copy::Write<CopyShape>, writer);
    case RecordType::kLaunchCall:
      return WriteLaunch(record, definitions, writer);
    case RecordType::kCudnnCall:
      return WriteLegacyCudnn(record, writer);
    case RecordType::kPlanCall:
      return WritePlan(record, definitions, writer);
    case RecordType::kSearchCall:
      return WriteSearch(record, writer);
    case RecordType::kCollectiveCall:
      return WriteWhole(record, f::kCollective, fields::Collective::Write<CollectiveShape>, writer);
    case RecordType::kAllocationCall:
      return WriteWhole(record, f::kAllocation, fields::Allocation::Write<AllocationShape>, writer);
    case RecordType::kLibxsmmCall:
      return WriteLibxsmm(record, writer);
    default:
      return;
  }
}

}  // namespace dlhook::inline drain
