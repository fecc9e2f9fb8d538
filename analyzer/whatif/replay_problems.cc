// See replay.h. What a problem consists of is read from the library's own words (model/onednn_text.h,
// model/gemm_shape.h); what PyTorch or NumPy have no function for has a reason instead of a spec.
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/calls/op_labels.h"
#include "analyzer/model/gemm_shape.h"
#include "analyzer/model/onednn_text.h"
#include "analyzer/model/op_kind.h"
#include "analyzer/tables/op_groups.h"
#include "analyzer/whatif/replay.h"

namespace dlhook::analyzer::inline whatif {
namespace {

using Json = nlohmann::json;

absl::Status Without(const std::string& reason) { return absl::UnimplementedError(reason); }

// By oneDNN's names for PyTorch's channels_last.
bool IsChannelsLast(const Tensor& tensor) {
  return (tensor.role == "src" || tensor.role == "dst") && (tensor.format == "acdb" || tensor.format == "acdeb");
}

absl::StatusOr<Json> ConvolutionSpec(const Op& op) {
  const auto numbers = ParseProblemNumbers(*op.onednn_problem());
  if (!numbers) return Without("its shapes are not known");
  const auto any_tensor = [&op](auto is_one) { return absl::c_any_of(op.tensors, is_one); };
  Json spec = *numbers;
  spec.update({{"op", "convolution"},
               {"direction", DirectionName(op.direction)},
               {"format", any_tensor(IsChannelsLast) ? "channels_last" : "contiguous"},
               {"bias", any_tensor([](const Tensor& tensor) { return tensor.role == "bia"; })},
               {"transposed", IsKind(op, OpKind::kDeconvolution)}});
  return spec;
}

// In row-major form.
absl::StatusOr<Json> ProductSpec(const Op& op) {
  std::optional<MatmulShape> shape = MatmulShapeOf(op);
  if (!shape || std::min({shape->m, shape->n, shape->k, shape->batch}) <= 0) return Without("its shape is not known");
  if (shape->trans.size() != 2) shape->trans = "NN";
  if (absl::StrContains(shape->trans, 'P')) return Without("an operand is in the library's own format");
  if (shape->order == "col") {
    std::swap(shape->m, shape->n);
    std::swap(shape->trans[0], shape->trans[1]);
  }
  return Json{
      {"op", "product"}, {"format", "as recorded"}, {"batch", shape->batch},       {"m", shape->m},
      {"n", shape->n},   {"k", shape->k},           {"a", shape->trans[0] != 'N'}, {"b", shape->trans[1] != 'N'}};
}

absl::StatusOr<Json> SpecOf(const Op& op, const StepFacts& facts, bool through_numpy) {
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
  absl::StatusOr<Json> spec = Without(absl::StrCat("there is no replay of the op ", op.kind));
  if (IsKind(op, {OpKind::kConvolution, OpKind::kDeconvolution}) && op.onednn_problem() != nullptr)
    spec = ConvolutionSpec(op);
  if (IsMatrixProduct(op) && !IsKind(op, OpKind::kInnerProduct)) spec = ProductSpec(op);
  if (spec.ok()) (*spec)["type"] = type->second;
  return spec;
}

// Of NumPy's wheels, whose library has names of its own; or Debian's, where there is nothing else.
bool IsNumpys(const Op& op, const StepFacts& facts) {
  if (absl::StartsWith(op.function, "scipy_")) return true;
  return facts.frameworks().empty() && op.onednn() == nullptr && !MappedFiles(facts.model(), "/numpy").empty();
}

}  // namespace

std::string OtherMachine(const StepFacts& facts, const ProcessorInfo& here, size_t processors) {
  const std::vector<ProcessInfo>& all = facts.model().processes;
  const auto other = absl::c_find_if(all, [&](const ProcessInfo& process) {
    return !process.processor.vendor.empty() && process.processor.name != here.name;
  });
  if (other == all.end() && (facts.processors() == 0 || facts.processors() == processors)) return "";
  const std::string& name = other == all.end() ? here.name : other->processor.name;
  return absl::StrCat(name, ", ", facts.processors(), " processors; here ", here.name, ", ", processors);
}

std::vector<ReplayProblem> ReplayProblems(const StepFacts& facts, size_t most, const std::string& named) {
  using Key = std::tuple<std::string, Direction, std::string, std::string, std::string, std::string>;
  const std::vector<OpIndex> home = HomeOps(facts.model(), *facts.options().totals);
  std::map<Key, ReplayProblem> by_key;
  for (const WorkItem& item : facts.items()) {
    if (!item.IsCall() || item.op == nullptr) continue;
    const OpIndex index = home[item.doing.what];
    const Op& op = facts.model().ops[index];
    if (!IsLibraryOp(op) || op.is_creation || op.is_trial || !op.subject.empty() || IsKind(op, OpKind::kCollective))
      continue;
    ReplayProblem& problem =
        by_key[{op.kind, op.direction, ProblemLabel(op), op.types, FormatsLabel(op), ChosenLabel(op)}];
    problem.step_ns += item.ns;
    problem.calls += item.calls;
    if (!problem.ops.insert(index).second || problem.ops.size() > 1) continue;
    problem.kind = op.kind;
    problem.direction = DirectionName(op.direction);
    problem.problem = ProblemLabel(op);
    problem.formats = FormatsLabel(op);
    problem.implementation = ChosenLabel(op);
    problem.is_onednn = op.onednn() != nullptr;
    problem.through_numpy = IsNumpys(op, facts);
    const absl::StatusOr<Json> spec = SpecOf(op, facts, problem.through_numpy);
    if (spec.ok()) problem.spec = *spec;
    problem.reason = std::string(spec.status().message());
  }
  std::vector<ReplayProblem> problems;
  for (auto& [key, problem] : by_key) {
    problem.layers = facts.LayersOf([&home, &ops = problem.ops](const WorkItem& item) {
      return item.IsCall() && ops.contains(home[item.doing.what]);
    });
    const bool is_named = absl::StrContains(problem.problem, named) || absl::StrContains(problem.layers, named);
    if (is_named && problem.calls > 0) problems.push_back(std::move(problem));
  }
  absl::c_stable_sort(problems, [](const ReplayProblem& a, const ReplayProblem& b) { return a.step_ns > b.step_ns; });
  if (problems.size() > most) problems.resize(most);
  for (ReplayProblem& problem : problems) problem.call_ns = facts.UndisturbedNs(problem.ops);
  return problems;
}

std::vector<ReplayVariant> VariantsOf(const ReplayProblem& problem, const Ground& ground, size_t threads,
                                      const std::vector<Variation>& listed) {
  const Json& spec = problem.spec;
  const bool is_convolution = spec["op"] == "convolution";
  const bool is_torch = !problem.through_numpy;
  const bool has_bf16 = absl::c_linear_search(ground.has, "avx512bf16");
  std::vector<ReplayVariant> variants;
  const auto add_if = [&variants](bool is_offered, ReplayVariant variant) {
    if (is_offered) variants.push_back(std::move(variant));
  };
  const char* const other = is_convolution && spec["format"] == "contiguous" ? "channels_last" : "contiguous";
  add_if(is_convolution ? spec.contains("kh") : spec["a"] == true || spec["b"] == true, {other, {{"format", other}}});
  add_if(is_torch && spec["type"] == "float32" && has_bf16, {"bfloat16", {{"type", "bfloat16"}}, {}, true});
  add_if(is_torch && problem.is_onednn, {"mkldnn off", {{"mkldnn", false}}});
  for (const size_t count : std::set<size_t>{1, ground.processors})
    add_if(is_torch && count != threads,
           {absl::StrCat(count, count == 1 ? " thread" : " threads"), {{"threads", count}}});
  const char* const of_library = problem.is_onednn ? "ONEDNN_MAX_CPU_ISA" : problem.through_numpy ? "OPENBLAS" : "none";
  for (const Variation& variation : listed) {
    add_if(absl::StartsWith(variation.name, of_library),
           {variation.name, Json::object(), variation.environment, variation.changes_numerics});
  }
  return variants;
}

}  // namespace dlhook::analyzer::whatif
