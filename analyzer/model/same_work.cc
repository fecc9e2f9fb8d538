#include "analyzer/model/same_work.h"

#include "analyzer/model/op_kind.h"

namespace dlhook::analyzer::inline model {
namespace {

// Real nesting is a few calls deep; only a damaged trace goes beyond.
constexpr int kMaxDepth = 64;

// gemm_api is oneDNN's log line for its own gemm and is kept separate, like gemm_pack.
bool IsBlasProduct(const Op& op) {
  return IsKind(op,
                {OpKind::kGemm, OpKind::kGemv, OpKind::kGer, OpKind::kGemmt, OpKind::kGemm3m, OpKind::kGemmCompute});
}

}  // namespace

SameWork::SameWork(const TraceModel& model) : model_(model) {
  std::map<std::tuple<std::string, std::string, bool>, uint32_t> numbers;
  kinds_.reserve(model.ops.size());
  for (const Op& op : model.ops) {
    const std::string kind = IsBlasProduct(op) ? "product" : op.kind;
    const std::string& detail = IsKind(op, OpKind::kCall) ? op.family : op.subject;
    const uint32_t next = static_cast<uint32_t>(numbers.size());
    const auto key = std::make_tuple(kind, detail, op.is_creation);
    kinds_.push_back(numbers.emplace(key, next).first->second);
  }
}

CallIndex SameWork::Outermost(CallIndex call) const {
  const CallColumns& calls = model_.calls;
  const uint32_t kind = kinds_[calls.op[call]];
  CallIndex outermost = call;
  int depth = 0;
  for (CallIndex outer = calls.parent[call]; outer != kNone && depth < kMaxDepth;
       outer = calls.parent[outer], ++depth) {
    if (kinds_[calls.op[outer]] == kind) outermost = outer;
  }
  return outermost;
}

}  // namespace dlhook::analyzer::model
