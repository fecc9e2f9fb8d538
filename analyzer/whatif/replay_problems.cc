// See replay_problems.h. What a problem consists of is read from the library's own words (model/onednn_text.h,
// model/gemm_shape.h); what PyTorch or NumPy have no function for has a reason instead of a spec.
#include "analyzer/whatif/replay_problems.h"

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
#include "nlohmann/json.hpp"

namespace dlhook::analyzer::inline whatif {
namespace {

using Json = nlohmann::json;

constexpr char kChannelsLast[] = "channels_last";
constexpr char kContiguous[] = "contiguous";

// PyTorch's and NumPy's names.
std::string TypeOfFramework(const std::string& type) {
  const std::map<std::string, std::string> names = {
      {"f32", "float32"}, {"f64", "float64"}, {"bf16", "bfloat16"}, {"f16", "float16"}};
  const auto name = names.find(type);
  return name == names.end() ? "" : name->second;
}

const Tensor* TensorOf(const Op& op, absl::string_view role) {
  const auto tensor =
      std::find_if(op.tensors.begin(), op.tensors.end(), [&](const Tensor& each) { return each.role == role; });
  return tensor == op.tensors.end() || tensor->dims.empty() ? nullptr : &*tensor;
}

// "acdb", "acdeb": oneDNN's names for what PyTorch calls channels_last.
bool IsChannelsLast(const Tensor& tensor) {
  return tensor.dims.size() > 3 && tensor.format == (tensor.dims.size() == 4 ? "acdb" : "acdeb");
}

// Empty: it can be replayed, by `spec`.
std::string ConvolutionSpec(const Op& op, Json* spec) {
  const auto numbers = ParseProblemNumbers(op.onednn()->problem);
  const Tensor *src = TensorOf(op, "src"), *wei = TensorOf(op, "wei"), *dst = TensorOf(op, "dst");
  if (!numbers || src == nullptr || wei == nullptr || dst == nullptr) return "its shapes are not known";
  const auto number = [&](absl::string_view letter, char axis) {
    const auto found = numbers->find(absl::StrCat(letter, std::string(1, axis)));
    return found == numbers->end() ? 0 : found->second;
  };
  const bool is_transposed = IsKind(op, OpKind::kDeconvolution);
  const int64_t groups = numbers->contains("g") ? numbers->find("g")->second : 1;
  Dims stride, padding, dilation, output_padding;
  Dims weight = is_transposed ? Dims{src->dims[1], dst->dims[1] / groups} : Dims{dst->dims[1], src->dims[1] / groups};
  const size_t rank = src->dims.size() - 2;
  for (size_t i = 0; i < rank; ++i) {
    const char axis = "dhw"[3 - rank + i];
    weight.push_back(number("k", axis));
    stride.push_back(std::max<int64_t>(number("s", axis), 1));
    padding.push_back(number("p", axis));
    dilation.push_back(number("d", axis) + 1);
    const int64_t span = dilation.back() * (weight.back() - 1) + 1 - 2 * padding.back();
    output_padding.push_back(is_transposed ? dst->dims[i + 2] - (src->dims[i + 2] - 1) * stride.back() - span : 0);
  }
  const Tensor* const bias = TensorOf(op, "bia");
  spec->update({{"op", "convolution"},
                {"direction", DirectionName(op.direction)},
                {"format", IsChannelsLast(*src) || IsChannelsLast(*dst) ? kChannelsLast : kContiguous},
                {"input", src->dims},
                {"output", dst->dims},
                {"weight", weight},
                {"bias", bias != nullptr && bias->defined},
                {"stride", stride},
                {"padding", padding},
                {"dilation", dilation},
                {"transposed", is_transposed},
                {"output_padding", output_padding},
                {"groups", groups}});
  return "";
}

// In row-major form.
std::string ProductSpec(const Op& op, Json* spec) {
  std::optional<MatmulShape> shape = MatmulShapeOf(op);
  if (!shape || std::min({shape->m, shape->n, shape->k, shape->batch}) <= 0) return "its shape is not known";
  const bool is_inner = IsKind(op, OpKind::kInnerProduct);
  if (is_inner && op.direction != Direction::kForward)
    return "PyTorch has no function that computes only this gradient";
  if (shape->trans.size() != 2) shape->trans = "NN";
  if (absl::StrContains(shape->trans, 'P')) return "an operand is packed: in the library's own format";
  if (shape->order == "col") {
    std::swap(shape->m, shape->n);
    std::swap(shape->trans[0], shape->trans[1]);
  }
  const auto is_swapped = [&](size_t i) { return shape->trans[i] == 'N' ? "N" : "T"; };
  spec->update({{"op", is_inner ? "inner_product" : "product"},
                {"format", ""},
                {"batch", shape->batch},
                {"m", shape->m},
                {"n", shape->n},
                {"k", shape->k},
                {"a", is_swapped(0)},
                {"b", is_swapped(1)}});
  return "";
}

void Specify(const Op& op, const StepFacts& facts, ReplayProblem* problem) {
  Json spec = {{"type", TypeOfFramework(op.types)}};
  const auto why = [&]() -> std::string {
    if (op.on_gpu) return "it ran on a GPU, and replays run on the CPU";
    if (problem->through_numpy && !problem->is_onednn) {
      spec["through"] = "numpy";
    } else if (facts.UsesTorch()) {
      spec["through"] = "torch";
    } else {
      const std::string others = absl::StrJoin(facts.frameworks(), ", ");
      return absl::StrCat(others.empty() ? "the program itself" : others,
                          " called the library: only PyTorch's and NumPy's ops can be replayed");
    }
    if (IsKind(op, OpKind::kReorder)) return "oneDNN converts inside of the framework's op: measured with that";
    if (spec["type"] == "") return absl::StrCat("of its types (", op.types.empty() ? "not known" : op.types, ")");
    if (IsKind(op, {OpKind::kConvolution, OpKind::kDeconvolution})) return ConvolutionSpec(op, &spec);
    if (IsMatrixProduct(op)) return ProductSpec(op, &spec);
    return absl::StrCat("there is no replay of ", op.kind, ", only of convolutions and matrix products");
  };
  problem->reason = why();
  if (problem->reason.empty()) problem->spec = spec.dump();
}

using Key = std::tuple<std::string, std::string, std::string, std::string, std::string, std::string>;

Key KeyOf(const Op& op) {
  return {KindAndDirection(op), ProblemLabel(op), op.types,
          FormatsLabel(op),     ChosenLabel(op),  absl::StrJoin(op.post_ops, "+")};
}

// Of NumPy's wheels, whose library has names of its own; or Debian's, where there is nothing else.
bool IsNumpys(const Op& op, const StepFacts& facts) {
  if (absl::StartsWith(op.function, "scipy_")) return true;
  if (!facts.frameworks().empty()) return false;
  for (const ProcessInfo& process : facts.model().processes) {
    for (const Mapping& mapping : process.mappings) {
      if (absl::StrContains(mapping.path, "/numpy")) return true;
    }
  }
  return false;
}

struct Found {
  ReplayProblem problem;
  std::set<OpIndex> ops;
};

// The calls of steps: their durations.
void AddDurations(const StepFacts& facts, std::vector<Found>* found) {
  const CallColumns& calls = facts.model().calls;
  std::map<OpIndex, size_t> of_op;
  for (size_t i = 0; i < found->size(); ++i) {
    for (OpIndex op : (*found)[i].ops) of_op[op] = i;
  }
  std::vector<std::vector<int64_t>> durations(found->size());
  for (CallIndex call = 0; call < calls.size(); ++call) {
    const auto problem = of_op.find(calls.op[call]);
    if (problem == of_op.end()) continue;
    const ProcessIndex process = facts.model().threads[calls.thread[call]].process;
    if (!facts.HasSteps() || facts.StepAt(process, calls.start_ns[call]) != kNone)
      durations[problem->second].push_back(calls.duration_ns[call]);
  }
  for (size_t i = 0; i < found->size(); ++i) {
    if (!durations[i].empty())
      (*found)[i].problem.call_ns = static_cast<double>(QuartilesOf(std::move(durations[i])).lower);
  }
}

}  // namespace

std::vector<ReplayProblem> ReplayProblems(const StepFacts& facts, size_t most, const std::string& named) {
  const std::vector<OpIndex> home = HomeOps(facts.model(), *facts.options().totals);
  std::map<Key, Found> by_key;
  for (const WorkItem& item : facts.items()) {
    if (!item.IsCall() || item.op == nullptr) continue;
    const OpIndex index = home[item.doing.what];
    const Op& op = facts.model().ops[index];
    if (!IsLibraryOp(op) || op.is_creation || op.is_trial || !op.subject.empty() || IsKind(op, OpKind::kCollective))
      continue;
    Found& found = by_key[KeyOf(op)];
    ReplayProblem& problem = found.problem;
    problem.step_ns += item.ns;
    problem.calls += item.calls;
    if (found.ops.insert(index).second && found.ops.size() == 1) {
      problem.kind = KindAndDirection(op);
      problem.problem = ProblemLabel(op);
      problem.types = op.types;
      problem.formats = FormatsLabel(op);
      problem.implementation = ChosenLabel(op);
      problem.is_onednn = op.onednn() != nullptr;
      problem.through_numpy = IsNumpys(op, facts);
      Specify(op, facts, &problem);
    }
  }
  std::vector<Found> found;
  for (auto& [key, each] : by_key) {
    each.problem.layers = facts.LayersOf(
        [&, &ops = each.ops](const WorkItem& item) { return item.IsCall() && ops.contains(home[item.doing.what]); });
    const bool is_named = named.empty() || absl::StrContains(each.problem.problem, named) ||
                          absl::StrContains(each.problem.layers, named);
    if (is_named && each.problem.calls > 0) found.push_back(std::move(each));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Found& a, const Found& b) { return a.problem.step_ns > b.problem.step_ns; });
  if (found.size() > most) found.resize(most);
  AddDurations(facts, &found);
  std::vector<ReplayProblem> problems;
  for (Found& each : found) problems.push_back(std::move(each.problem));
  return problems;
}

std::vector<ReplayVariant> VariantsOf(const ReplayProblem& problem, const Ground& ground, size_t threads,
                                      const std::vector<Variation>& listed) {
  const Json spec = Json::parse(problem.spec);
  std::vector<ReplayVariant> variants;
  const auto add = [&](std::string name, const Json& request, bool changes_numerics = false) {
    variants.push_back({std::move(name), request.dump(), {}, changes_numerics});
  };
  const bool is_convolution = spec["op"] == "convolution";
  if (is_convolution && spec["format"] == kChannelsLast) add(kContiguous, {{"format", kContiguous}});
  if (is_convolution && spec["format"] == kContiguous && spec["input"].size() > 3)
    add(kChannelsLast, {{"format", kChannelsLast}});
  if (!is_convolution && (spec["op"] == "inner_product" || spec["a"] == "T" || spec["b"] == "T"))
    add(kContiguous, {{"format", kContiguous}});
  const auto has = [&](const char* word) {
    return std::find(ground.has.begin(), ground.has.end(), word) != ground.has.end();
  };
  const bool is_torch = spec["through"] == "torch";
  if (is_torch && spec["type"] == "float32" && spec["op"] != "inner_product" && has("avx512bf16"))
    add("bfloat16", {{"type", "bfloat16"}}, true);
  if (is_torch && problem.is_onednn && spec["op"] != "inner_product") add("mkldnn off", {{"mkldnn", false}});
  std::set<size_t> counts = {1, ground.processors};
  counts.erase(threads);
  for (size_t count : counts) {
    if (is_torch) add(absl::StrCat(count, count == 1 ? " thread" : " threads"), {{"threads", count}});
  }
  for (const Variation& variation : listed) {
    const bool is_libraries = problem.is_onednn ? absl::StartsWith(variation.name, "ONEDNN_MAX_CPU_ISA")
                                                : !is_torch && absl::StartsWith(variation.name, "OPENBLAS");
    if (is_libraries) variants.push_back({variation.name, "{}", variation.environment, variation.changes_numerics});
  }
  return variants;
}

}  // namespace dlhook::analyzer::whatif
