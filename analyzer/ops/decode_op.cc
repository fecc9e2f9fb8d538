#include "analyzer/ops/decode_op.h"

#include "proto/op.pb.h"

namespace dlhook::analyzer::inline ops {
namespace {

void Decode(const trace::OpDefinition& definition, Op& op) {
  switch (definition.op_case()) {
    case trace::OpDefinition::kGemm:
      if (!trace::Gemm::Kind_IsValid(definition.gemm().kind())) break;  // another release's: it may compute nothing
      return DecodeGemm(definition.gemm(), op);
    case trace::OpDefinition::kMatrix:
      return DecodeMatrixOp(definition.matrix(), op);
    case trace::OpDefinition::kOnednn:
      return DecodeOneDnn(definition.onednn(), op);
    case trace::OpDefinition::kCopy:
      return DecodeCopy(definition.copy(), op);
    case trace::OpDefinition::kLaunch:
      return DecodeLaunch(definition.launch(), op);
    case trace::OpDefinition::kCudnn:
      return DecodeCudnn(definition.cudnn(), op);
    case trace::OpDefinition::kCudnnSearch:
      return DecodeCudnnSearch(definition.cudnn_search(), op);
    case trace::OpDefinition::kCollective:
      return DecodeCollective(definition.collective(), op);
    case trace::OpDefinition::kAllocation:
      return DecodeAllocation(definition.allocation(), op);
    case trace::OpDefinition::OP_NOT_SET:
      break;
  }
  // A timed call: only its name identifies it.
  op.on_gpu = IsGpuFamily(op.family);
  op.kind = "call";
  op.problem = absl::StrCat(op.function, definition.detail().empty() ? "" : " ", definition.detail());
}

}  // namespace

Op DecodeOp(const trace::OpDefinition& definition) {
  Op op;
  op.function = definition.function();
  op.family = definition.family();
  op.time_source = FromProto<TimeSource>(definition.time_source());
  op.captured = definition.captured();
  Decode(definition, op);
  return op;
}

std::string TypesText(const std::vector<std::string>& types) {
  if (types.empty()) return "";
  const bool same = absl::c_all_of(types, [&](const std::string& type) { return type == types[0]; });
  return same ? types[0] : absl::StrJoin(types, ":");
}

}  // namespace dlhook::analyzer::ops
