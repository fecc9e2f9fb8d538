// Op definitions of BLAS calls decoded, and the way to the decoders of other libraries.
#include "analyzer/model/op.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "analyzer/model/onednn_op.h"
#include "analyzer/model/op_cost.h"

namespace dlhook::analyzer {
namespace {

std::string TypeName(trace::DataType type) {
  return type == trace::DATA_TYPE_UNKNOWN ? "unknown"
                                          : absl::AsciiStrToLower(trace::DataType_Name(type));
}

const char* GemmKindName(trace::Gemm::Kind kind) {
  switch (kind) {
    case trace::Gemm::GEMV:
      return "gemv";
    case trace::Gemm::GER:
      return "ger";
    case trace::Gemm::GEMMT:
      return "gemmt";
    case trace::Gemm::GEMM3M:
      return "gemm3m";
    case trace::Gemm::COMPUTE:
      return "gemm_compute";
    case trace::Gemm::PACK:
      return "gemm_pack";
    default:
      return "gemm";
  }
}

// "f32", or "s8:u8:s32" where the operands differ.
std::string GemmTypes(const trace::Gemm& gemm) {
  const trace::DataType b = gemm.b_type() ? gemm.b_type() : gemm.a_type();
  const trace::DataType c = gemm.c_type() ? gemm.c_type() : gemm.a_type();
  if (b == gemm.a_type() && c == gemm.a_type()) return TypeName(c);
  return absl::StrCat(TypeName(gemm.a_type()), ":", TypeName(b), ":", TypeName(c));
}

// The leading dimensions are left out: they tell where a matrix lies, not which product it is.
std::string GemmProblem(const trace::Gemm& gemm, const std::string& types) {
  std::string text = absl::StrCat("m", gemm.m(), " n", gemm.n(), " k", gemm.k());
  const std::string trans = absl::StrCat(gemm.trans_a(), gemm.trans_b());
  if (!trans.empty()) absl::StrAppend(&text, " ", trans);
  absl::StrAppend(&text, " ", types);
  if (gemm.batch() > 1) absl::StrAppend(&text, " batch", gemm.batch());
  if (gemm.groups() > 1) absl::StrAppend(&text, " groups", gemm.groups());
  if (gemm.row_major()) absl::StrAppend(&text, " row-major");
  return text;
}

void DecodeGemm(const trace::Gemm& gemm, Op& op) {
  op.kind = GemmKindName(gemm.kind());
  op.types = GemmTypes(gemm);
  op.problem = GemmProblem(gemm, op.types);
  op.flops = GemmFlops(gemm);
  op.bytes = GemmBytes(gemm);
}

void DecodeMatrixOp(const trace::MatrixOp& matrix, Op& op) {
  op.kind = matrix.kind() == trace::MatrixOp::UNKNOWN
                ? "matrix"
                : absl::AsciiStrToLower(trace::MatrixOp::Kind_Name(matrix.kind()));
  op.types = TypeName(matrix.type());
  const bool rank_k = matrix.m() == 0 && matrix.k() != 0;
  op.problem = rank_k ? absl::StrCat("n", matrix.n(), " k", matrix.k())
                      : absl::StrCat("m", matrix.m(), " n", matrix.n());
  for (const std::string& flag : {matrix.side(), matrix.uplo(), matrix.trans(), matrix.diag()}) {
    if (!flag.empty()) absl::StrAppend(&op.problem, " ", flag);
  }
  absl::StrAppend(&op.problem, " ", op.types);
  if (matrix.batch() > 1) absl::StrAppend(&op.problem, " batch", matrix.batch());
  if (matrix.row_major()) absl::StrAppend(&op.problem, " row-major");
  op.flops = MatrixOpFlops(matrix);
  op.bytes = MatrixOpBytes(matrix);
}

}  // namespace

const char* DirectionName(Direction direction) {
  switch (direction) {
    case Direction::kForward:
      return "forward";
    case Direction::kBackwardData:
      return "backward-data";
    case Direction::kBackwardWeights:
      return "backward-weights";
    case Direction::kBackwardBias:
      return "backward-bias";
    case Direction::kBackward:
      return "backward";
    case Direction::kUpdate:
      return "update";
    case Direction::kUnknown:
      break;
  }
  return "unknown";
}

Op DecodeOp(const trace::OpDefinition& definition) {
  Op op;
  op.function = definition.function();
  op.family = definition.family();
  op.time_source = definition.time_source();
  op.definition = definition;
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
    case trace::OpDefinition::OP_NOT_SET:  // a timed call: its name is all that tells it from
                                           // others
      op.kind = "call";
      op.problem = definition.function();
      break;
  }
  return op;
}

}  // namespace dlhook::analyzer
