// Dispatches an op definition to the decoder of its library.
#include "analyzer/ops/decode_op.h"

#include "absl/strings/str_cat.h"
#include "proto/op.pb.h"

namespace dlhook::analyzer::inline ops {

Op DecodeOp(const trace::OpDefinition& definition) {
  Op op;
  op.function = definition.function();
  op.family = definition.family();
  op.time_source = FromProto<TimeSource>(definition.time_source());
  op.captured = definition.captured();
  switch (definition.op_case()) {
    case trace::OpDefinition::kGemm:
      DecodeGemm(definition.gemm(), op);
      break;
    case trace::OpDefinition::kMatrix:
      DecodeMatrixOp(definition.matrix(), op);
      break;
    case trace::OpDefinition::kOnednn:
      DecodeOneDnn(definition.onednn(), op);
      break;
    case trace::OpDefinition::kCopy:
      DecodeCopy(definition.copy(), op);
      break;
    case trace::OpDefinition::kLaunch:
      DecodeLaunch(definition.launch(), op);
      break;
    case trace::OpDefinition::kCudnn:
      DecodeCudnn(definition.cudnn(), op);
      break;
    case trace::OpDefinition::kCudnnSearch:
      DecodeCudnnSearch(definition.cudnn_search(), op);
      break;
    case trace::OpDefinition::kCollective:
      DecodeCollective(definition.collective(), op);
      break;
    case trace::OpDefinition::kAllocation:
      DecodeAllocation(definition.allocation(), op);
      break;
    case trace::OpDefinition::kLibxsmm:
      DecodeLibxsmm(definition.libxsmm(), op);
      break;
    case trace::OpDefinition::OP_NOT_SET:  // a timed call: only its name identifies it
      op.on_gpu = IsGpuFamily(op.family);
      op.kind = "call";
      op.problem = absl::StrCat(op.function, definition.detail().empty() ? "" : " ", definition.detail());
      break;
  }
  return op;
}

}  // namespace dlhook::analyzer::ops
