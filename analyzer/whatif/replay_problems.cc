// See replay.h. What a problem consists of is read from the library's own words (model/onednn_text.h,
// model/gemm_shape.h); what PyTorch or NumPy have no function for has a reason instead of a spec.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/calls/call_context.h"
#include "analyzer/calls/op_labels.h"
#include "analyzer/model/gemm_shape.h"
#include "analyzer/model/onednn_text.h"
#include "analyzer/model/op_kind.h"
#include "analyzer/steps/measured_steps.h"
#include "analyzer/tables/op_groups.h"
#include "analyzer/whatif/replay.h"

namespace dlhook::analyzer::inline whatif {
namespace {

using Json = nlohmann::json;

// What there is no replay of has a reason.
struct Spec {
  Json json;
  std::string reason;
};
Spec Without(std::string reason) { return {nullptr, std::move(reason)}; }

const Tensor* TensorOf(const Op& op, absl::string_view role) {
  const auto tensor =
      std::find_if(op.tensors.begin(), op.tensors.end(), [&](const Tensor& each) { return each.role == role; });
  return tensor == op.tensors.end() || tensor->dims.empty() ? nullptr : &*tensor;
}

// By oneDNN's names for PyTorch's channels_last.
bool IsChannelsLast(const Tensor& tensor) { return tensor.format == "acdb" || tensor.format == "acdeb"; }

Spec ConvolutionSpec(const Op& op) {
  const auto numbers = ParseProblemNumbers(*op.onednn_problem());
  const Tensor *src = TensorOf(op, "src"), *dst = TensorOf(op, "dst"), *bias = TensorOf(op, "bia");
  if (!numbers || src == nullptr || dst == nullptr) return Without("its shapes are not known");
  const auto number = [&](const std::string& name, int64_t standard) {
    const auto found = numbers->find(name);
    return found == numbers->end() ? standard : found->second;
  };
  const bool is_transposed = IsKind(op, OpKind::kDeconvolution);
  const int64_t groups = number("g", 1);
  const Dims channels = {dst->dims[1], src->dims[1]};
  Dims weight = {channels[is_transposed], channels[!is_transposed] / groups};
  Dims stride, padding, dilation, output_padding;
  const size_t rank = src->dims.size() - 2;
  for (size_t i = 0; i < rank; ++i) {
    const std::string axis(1, "dhw"[3 - rank + i]);
    weight.push_back(number("k" + axis, 1));
    stride.push_back(number("s" + axis, 1));
    padding.push_back(number("p" + axis, 0));
    dilation.push_back(number("d" + axis, 0) + 1);
    const int64_t least = (src->dims[i + 2] - 1) * stride[i] + dilation[i] * (weight[i + 2] - 1) + 1 - 2 * padding[i];
    output_padding.push_back(is_transposed ? dst->dims[i + 2] - least : 0);
  }
  return {{{"op", "convolution"},
           {"direction", DirectionName(op.direction)},
           {"format", IsChannelsLast(*src) || IsChannelsLast(*dst) ? "channels_last" : "contiguous"},
           {"input", src->dims},
           {"output", dst->dims},
           {"weight", weight},
           {"bias", bias != nullptr},
           {"stride", stride},
           {"padding", padding},
           {"dilation", dilation},
           {"transposed", is_transposed},
           {"output_padding", output_padding},
           {"groups", groups}},
          ""};
}

// In row-major form.
Spec ProductSpec(const Op& op) {
  std::optional<MatmulShape> shape = MatmulShapeOf(op);
  if (!shape || std::min({shape->m, shape->n, shape->k, shape->batch}) <= 0) return Without("its shape is not known");
  const bool is_inner = IsKind(op, OpKind::kInnerProduct);
  if (is_inner && op.direction != Direction::kForward)
    return Without("PyTorch has no function that computes this gradient only");
  if (shape->trans.size() != 2) shape->trans = "NN";
  if (absl::StrContains(shape->trans, 'P')) return Without("an operand is in the library's own format");
  if (shape->order == "col") {
    std::swap(shape->m, shape->n);
    std::swap(shape->trans[0], shape->trans[1]);
  }
  return {{{"op", is_inner ? "inner_product" : "product"},
           {"format", "as recorded"},
           {"batch", shape->batch},
           {"m", shape->m},
           {"n", shape->n},
           {"k", shape->k},
           {"a", shape->trans[0] != 'N'},
           {"b", shape->trans[1] != 'N'}},
          ""};
}

Spec SpecOf(const Op& op, const StepFacts& facts, bool through_numpy) {
  static const auto& kTypes = *new std::map<std::string, std::string>{
      {"f32", "float32"}, {"f64", "float64"}, {"bf16", "bfloat16"}, {"f16", "float16"}};
  if (op.on_gpu) return Without("it ran on a GPU, and replays run on the CPU");
  if (!through_numpy && !facts.UsesTorch()) {
    const std::string others = absl::StrJoin(facts.frameworks(), ", ");
    return Without(absl::StrCat("only PyTorch's and NumPy's ops can be, and ",
                                others.empty() ? "the program itself" : others, " called it"));
  }
  if (IsKind(op, OpKind::kReorder))
    return Without("oneDNN converts inside of the framework's op, and none that was replayed does so");
  const auto type = kTypes.find(op.types);
  if (type == kTypes.end()) return Without(absl::StrCat("of its types: ", op.types.empty() ? "not known" : op.types));
  Spec spec = Without(absl::StrCat("there is no replay of the op ", op.kind));
  if (IsKind(op, {OpKind::kConvolution, OpKind::kDeconvolution}) && op.onednn_problem() != nullptr)
    spec = ConvolutionSpec(op);
  if (IsMatrixProduct(op)) spec = ProductSpec(op);
  if (!spec.json.is_null()) spec.json["type"] = type->second;
  return spec;
}

// Of NumPy's wheels, whose library has names of its own; or Debian's, where there is nothing else.
bool IsNumpys(const Op& op, const StepFacts& facts) {
  if (absl::StartsWith(op.function, "scipy_")) return true;
  if (!facts.frameworks().empty() || op.onednn() != nullptr) return false;
  for (const ProcessInfo& process : facts.model().processes) {
    for (const Mapping& mapping : process.mappings) {
      if (absl::StrContains(mapping.path, "/numpy")) return true;
    }
  }
  return false;
}

// Of calls in steps: the lower quartile.
double DurationOf(const StepFacts& facts, const std::set<OpIndex>& ops) {
  const CallColumns& calls = facts.model().calls;
  std::vector<int64_t> durations;
  for (CallIndex call = 0; call < calls.size(); ++call) {
    if (!ops.contains(calls.op[call])) continue;
    const ProcessIndex process = facts.model().threads[calls.thread[call]].process;
    if (!facts.HasSteps() || facts.StepAt(process, calls.start_ns[call]) != kNone)
      durations.push_back(calls.duration_ns[call]);
  }
  return durations.empty() ? 0 : static_cast<double>(QuartilesOf(std::move(durations)).lower);
}

}  // namespace

std::vector<ReplayProblem> ReplayProblems(const StepFacts& facts, size_t most, const std::string& named) {
  using Key = std::tuple<std::string, Direction, std::string, std::string, std::string, std::string>;
  const std::vector<OpIndex> home = HomeOps(facts.model(), *facts.options().totals);
  std::map<Key, std::pair<ReplayProblem, std::set<OpIndex>>> by_key;
  for (const WorkItem& item : facts.items()) {
    if (!item.IsCall() || item.op == nullptr) continue;
    const OpIndex index = home[item.doing.what];
    const Op& op = facts.model().ops[index];
    if (!IsLibraryOp(op) || op.is_creation || op.is_trial || !op.subject.empty() || IsKind(op, OpKind::kCollective))
      continue;
    auto& [problem, ops] =
        by_key[{op.kind, op.direction, ProblemLabel(op), op.types, FormatsLabel(op), ChosenLabel(op)}];
    problem.step_ns += item.ns;
    problem.calls += item.calls;
    if (!ops.insert(index).second || ops.size() > 1) continue;
    problem.kind = op.kind;
    problem.direction = DirectionName(op.direction);
    problem.problem = ProblemLabel(op);
    problem.formats = FormatsLabel(op);
    problem.implementation = ChosenLabel(op);
    problem.is_onednn = op.onednn() != nullptr;
    problem.through_numpy = IsNumpys(op, facts);
    Spec spec = SpecOf(op, facts, problem.through_numpy);
    problem.spec = std::move(spec.json);
    problem.reason = std::move(spec.reason);
  }
  std::vector<std::pair<ReplayProblem, std::set<OpIndex>>> found;
  for (auto& [key, each] : by_key) {
    auto& [problem, ops] = each;
    problem.layers = facts.LayersOf([&, &of_problem = ops](const WorkItem& item) {
      return item.IsCall() && of_problem.contains(home[item.doing.what]);
    });
    const bool is_named = absl::StrContains(problem.problem, named) || absl::StrContains(problem.layers, named);
    if (is_named && problem.calls > 0) found.push_back(std::move(each));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first.step_ns > b.first.step_ns; });
  if (found.size() > most) found.resize(most);
  std::vector<ReplayProblem> problems;
  for (auto& [problem, ops] : found) {
    problem.call_ns = DurationOf(facts, ops);
    problems.push_back(std::move(problem));
  }
  return problems;
}

std::vector<ReplayVariant> VariantsOf(const ReplayProblem& problem, const Ground& ground, size_t threads,
                                      const std::vector<Variation>& listed) {
  const Json& spec = problem.spec;
  const bool is_inner = spec["op"] == "inner_product";
  std::vector<ReplayVariant> variants;
  if (spec["op"] != "convolution") {
    if (is_inner || spec["a"] == true || spec["b"] == true)
      variants.push_back({"contiguous", {{"format", "contiguous"}}});
  } else if (spec["input"].size() > 3) {
    const std::string other = spec["format"] == "contiguous" ? "channels_last" : "contiguous";
    variants.push_back({other, {{"format", other}}});
  }
  const bool has_bf16 = std::find(ground.has.begin(), ground.has.end(), "avx512bf16") != ground.has.end();
  if (!problem.through_numpy && !is_inner) {
    if (spec["type"] == "float32" && has_bf16) variants.push_back({"bfloat16", {{"type", "bfloat16"}}, {}, true});
    if (problem.is_onednn) variants.push_back({"mkldnn off", {{"mkldnn", false}}});
  }
  for (const size_t count : std::set<size_t>{1, ground.processors}) {
    if (!problem.through_numpy && count != threads)
      variants.push_back({absl::StrCat(count, count == 1 ? " thread" : " threads"), {{"threads", count}}});
  }
  const char* const of_library = problem.is_onednn ? "ONEDNN_MAX_CPU_ISA" : problem.through_numpy ? "OPENBLAS" : "none";
  for (const Variation& variation : listed) {
    if (absl::StartsWith(variation.name, of_library))
      variants.push_back({variation.name, Json::object(), variation.environment, variation.changes_numerics});
  }
  return variants;
}

}  // namespace dlhook::analyzer::whatif
