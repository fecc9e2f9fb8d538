// Ops as the step finder's symbols: which calls are the same work, and the same work at another batch size.
#include <map>

#include "absl/hash/hash.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "analyzer/calls/op_labels.h"
#include "analyzer/layers/op_facts.h"
#include "analyzer/steps/step_finder.h"

namespace dlhook::analyzer::inline steps {
namespace {

StepSymbol::Pass PassOf(Direction direction) {
  if (IsBackward(direction)) return StepSymbol::Pass::kBackward;
  return direction == Direction::kForward ? StepSymbol::Pass::kForward : StepSymbol::Pass::kUnknown;
}

uint64_t HashOf(const std::string& text) { return absl::Hash<std::string>()(text); }

std::string WithoutProblem(const Op& op) {
  if (op.launch()) return absl::StrCat(KindLabel(op), "|", op.kernel_name);
  return absl::StrCat(KindLabel(op), "|", DirectionName(op.direction), "|", op.types, "|", op.algorithm);
}

// m, n or k may be the batch: m or n in the forward pass and the data gradient, k in the weight gradient.
std::vector<StepSymbol::BatchVariant> GemmVariants(const Op& op) {
  std::vector<StepSymbol::BatchVariant> variants;
  for (int dropped = 0; dropped < 3; ++dropped) {
    const GemmCall& gemm = *op.gemm();
    int64_t sides[] = {gemm.m, gemm.n, gemm.k};
    const int64_t batch = std::exchange(sides[dropped], 0);
    const std::string text = absl::StrCat(WithoutProblem(op), sides[0], "|", sides[1], "|", sides[2], "|", gemm.trans_a,
                                          gemm.trans_b, "|", gemm.batch);
    variants.push_back({HashOf(text), batch});
  }
  return variants;
}

std::vector<StepSymbol::BatchVariant> OneDnnVariants(const Op& op) {
  const std::string& problem = *op.onednn_problem();
  const auto [begin, end] = BatchDigits(problem);
  int64_t batch = 0;
  if (!absl::SimpleAtoi(absl::string_view(problem).substr(begin, end - begin), &batch)) return {};
  return {{HashOf(absl::StrCat(WithoutProblem(op), "|", FormatsLabel(op), "|", problem.substr(0, begin), "|",
                               problem.substr(end))),
           batch}};
}

// All but the batch: the first dimension of X, Y and their gradients, not of weights.
std::vector<StepSymbol::BatchVariant> CudnnVariants(const Op& op) {
  int64_t batch = 0;
  std::string rest = WithoutProblem(op);
  for (const CudnnTensor& tensor : op.cudnn()->tensors) {
    const bool is_parameter = tensor.role == TensorRole::kW || tensor.role == TensorRole::kDw || tensor.dims.size() < 3;
    absl::StrAppend(&rest, "|", EnumName(tensor.role));
    for (size_t i = is_parameter ? 0 : 1; i < tensor.dims.size(); ++i) absl::StrAppend(&rest, ",", tensor.dims[i]);
    if (!is_parameter && batch == 0) batch = tensor.dims[0];
  }
  return {{HashOf(rest), batch}};
}

std::vector<StepSymbol::BatchVariant> VariantsOf(const Op& op) {
  if (op.copy()) return {{HashOf(WithoutProblem(op)), static_cast<int64_t>(op.copy()->bytes)}};
  if (op.cudnn()) return CudnnVariants(op);
  if (op.gemm()) return GemmVariants(op);
  if (op.onednn_problem()) return OneDnnVariants(op);
  return {};
}

}  // namespace

SymbolTable MakeSymbols(const std::vector<Op>& ops, bool with_shapes) {
  SymbolTable table;
  std::map<std::string, uint32_t> numbers;
  for (const Op& op : ops) {
    const std::string kind = WithoutProblem(op);
    const auto [at, is_new] = numbers.try_emplace(with_shapes ? absl::StrCat(kind, "|", ProblemLabel(op)) : kind,
                                                  static_cast<uint32_t>(numbers.size()));
    table.of_op.push_back(at->second);
    if (!is_new) continue;
    StepSymbol& symbol = table.symbols.emplace_back();
    symbol.pass = PassOf(op.direction);
    if (with_shapes) symbol.variants = VariantsOf(op);
    if (with_shapes && op.launch()) symbol.any_batch = HashOf(kind);
  }
  return table;
}

}  // namespace dlhook::analyzer::steps
