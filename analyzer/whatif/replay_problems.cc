// See replay.h. What a problem consists of is read from the library's own words (model/onednn_text.h,
// model/gemm_shape.h); what the framework has no function for has a reason instead of a spec.

#include "analyzer/calls/op_labels.h"
#include "analyzer/model/gemm_shape.h"
#include "analyzer/model/onednn_text.h"
#include "analyzer/model/op_kind.h"
#include "analyzer/tables/op_groups.h"
#include "analyzer/whatif/replay.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline whatif {
namespace {

using Json = nlohmann::json;

absl::Status Without(const std::string& reason) { return absl::UnimplementedError(reason); }

// By oneDNN's and cuDNN's names for PyTorch's channels_last.
bool IsChannelsLast(const Tensor& tensor) {
  constexpr absl::string_view kFormats[] = {"acdb", "acdeb", "nhwc", "ndhwc"};
  return (tensor.role == "src" || tensor.role == "dst") && absl::c_linear_search(kFormats, tensor.format);
}

// Of an op of a GPU in float32: it was allowed to, or did.
bool UsesTf32(const Op& op) {
  return absl::StrContains(absl::StrCat(op.compute_type, op.math_mode), "tf32") ||
         absl::c_linear_search(op.notes, "tensor_core");
}

bool HasTensor(const Op& op, absl::string_view role, absl::string_view format = "") {
  return absl::c_any_of(op.tensors, [&](const Tensor& tensor) {
    return tensor.role == role && tensor.defined && (format.empty() || tensor.format == format);
  });
}

absl::StatusOr<Json> ConvolutionSpec(const Op& op) {
  const auto numbers = ParseProblemNumbers(op.cudnn() != nullptr ? op.problem : *op.onednn_problem());
  if (!numbers) return Without("its shapes are not known");
  Json spec = *numbers;
  spec.update({{"op", "convolution"},
               {"direction", DirectionName(op.direction)},
               {"format", absl::c_any_of(op.tensors, IsChannelsLast) ? "channels_last" : "contiguous"},
               {"bias", HasTensor(op, "bia")},
               {"transposed", IsKind(op, OpKind::kDeconvolution)}});
  return spec;
}

// In row-major form.
absl::StatusOr<Json> ProductSpec(const Op& op) {
  std::optional<MatmulShape> shape = MatmulShapeOf(op);
  if (!shape || std::min({shape->m, shape->n, shape->k, shape->batch}) <= 0) return Without("its shape is not known");
  const bool is_inner = IsKind(op, OpKind::kInnerProduct);
  if (is_inner && op.direction != Direction::kForward) return Without("frameworks have no function for it alone");
  // Its weights are [outputs, inputs].
  if (is_inner) shape->trans = absl::StrCat("N", HasTensor(op, "wei", "ab") ? "T" : "N");
  if (absl::StrContains(shape->trans, 'P')) return Without("an operand is in the library's own format");
  if (shape->order == "col") {
    std::swap(shape->m, shape->n);
    std::swap(shape->trans[0], shape->trans[1]);
  }
  return Json{{"op", "product"},
              {"format", "as recorded"},
              {"inner", is_inner},
              {"bias", is_inner && HasTensor(op, "bia")},
              {"batch", shape->batch},
              {"m", shape->m},
              {"n", shape->n},
              {"k", shape->k},
              {"a", shape->trans[0] != 'N'},
              {"b", shape->trans[1] != 'N'}};
}

// What oneDNN's own functions take: {role: [dims, type, format]}. Null: it is not whole.
Json TensorsOf(const Op& op) {
  static const auto& kRoles = *new std::map<std::string, std::string, std::less<>>{
      {"src", "src"}, {"src_a", "src"}, {"wei", "wei"}, {"src_b", "wei"}, {"bia", "bia"}, {"dst", "dst"}};
  Json tensors = Json::object();
  for (const Tensor& tensor : op.tensors) {
    if (!tensor.defined) continue;
    const auto role = kRoles.find(absl::StripPrefix(tensor.role, "diff_"));
    if (role == kRoles.end() || tensor.dims.empty() || tensor.type.empty()) return {};
    tensors[role->second] = {tensor.dims, tensor.type, tensor.format};
  }
  return tensors.contains("src") && tensors.contains("dst") ? tensors : Json();
}

absl::StatusOr<Json> SpecOf(const Op& op, const StepFacts& facts, const std::string& through) {
  static const auto& kTypes = *new std::map<std::string, std::string>{
      {"f32", "float32"}, {"f64", "float64"}, {"bf16", "bfloat16"}, {"f16", "float16"}};
  if (op.on_gpu && through != "torch") return Without("it ran on a GPU, where only ops of PyTorch are replayed");
  if (op.on_gpu && !facts.HasGpuTimes()) return Without("it ran on a GPU, whose times the run does not have");
  if (through.empty()) {
    const std::string others = absl::StrJoin(facts.frameworks(), ", ");
    return Without(absl::StrCat("only ops of PyTorch, TensorFlow, JAX and NumPy can be, and ",
                                others.empty() ? "the program itself" : others, " called it"));
  }
  if (through == "jax" && op.onednn() != nullptr) return Without("it is a part of an operation of XLA's");
  if (IsKind(op, OpKind::kReorder))
    return Without("oneDNN converts inside of the framework's op, and none that was replayed does so");
  const auto type = kTypes.find(op.types);
  if (type == kTypes.end()) return Without(absl::StrCat("of its types: ", op.types.empty() ? "not known" : op.types));
  absl::StatusOr<Json> spec = Without(absl::StrCat("there is no replay of the op ", op.kind));
  if (IsKind(op, {OpKind::kConvolution, OpKind::kDeconvolution}) &&
      (op.onednn_problem() != nullptr || op.cudnn() != nullptr))
    spec = ConvolutionSpec(op);
  if (IsMatrixProduct(op) || (through == "jax" && IsKind(op, OpKind::kMatmul))) spec = ProductSpec(op);
  if (!spec.ok()) return spec;
  (*spec)["type"] = type->second;
  (*spec)["tensors"] = TensorsOf(op);
  if (op.on_gpu) spec->update({{"device", "cuda"}, {"tf32", UsesTf32(op)}});
  return spec;
}

// For oneDNN's own functions, whoever called them. Null: they can't be called so.
Json LibrarySpec(const Op& op) {
  const Json tensors = TensorsOf(op);
  if (op.onednn() == nullptr || op.on_gpu || tensors.is_null()) return {};
  const bool is_convolution = IsKind(op, {OpKind::kConvolution, OpKind::kDeconvolution});
  const bool is_other = IsKind(op, {OpKind::kInnerProduct, OpKind::kMatmul, OpKind::kGemmApi, OpKind::kReorder});
  const bool has_direction = is_convolution || IsKind(op, OpKind::kInnerProduct);  // of others the layer's is known
  absl::StatusOr<Json> spec = Json{{"direction", has_direction ? DirectionName(op.direction) : ""}};
  if (is_convolution) spec = ConvolutionSpec(op);
  if (!spec.ok() || !(is_convolution || is_other)) return {};
  (*spec)["op"] = "primitive";
  (*spec)["kind"] = op.kind;
  (*spec)["tensors"] = tensors;
  return *spec;
}

// What called it, as a module of Python; empty: none that is known. NumPy's wheels have a library with names of its own, Debian's
// that of others, and is meant where there is nothing else.
std::string FrameworkOf(const Op& op, const StepFacts& facts) {
  if (absl::StartsWith(op.function, "scipy_")) return "numpy";
  if (op.family == kJaxTap.family) return "jax";
  for (const auto& [name, module] : {std::pair("PyTorch", "torch"), {"TensorFlow", "tensorflow"}, {"JAX", "jax"}}) {
    if (facts.Uses(name)) return module;
  }
  const bool is_numpys =
      facts.frameworks().empty() && op.onednn() == nullptr && !MappedFiles(facts.model(), "/numpy").empty();
  return is_numpys ? "numpy" : "";
}

}  // namespace

const char* ThreadsVariable(absl::string_view through) {
  return through == "tensorflow" ? "TF_NUM_INTRAOP_THREADS"
         : through == "jax"      ? "PJRT_NPROC"
         : through == "numpy"    ? "OPENBLAS_NUM_THREADS"
                                 : "OMP_NUM_THREADS";
}

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
  const std::vector<GpuOpTime> on_gpu = GpuTimesOfOps(facts.model(), facts.options());
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
    problem.on_gpu = op.on_gpu;
    problem.kind = op.kind;
    problem.direction = DirectionName(op.direction);
    problem.problem = ProblemLabel(op);
    problem.types = op.types;
    problem.formats = FormatsLabel(op);
    problem.implementation = ChosenLabel(op);
    problem.is_onednn = op.onednn() != nullptr;
    problem.through = FrameworkOf(op, facts);
    const absl::StatusOr<Json> spec = SpecOf(op, facts, problem.through);
    if (spec.ok()) problem.spec = *spec;
    problem.reason = std::string(spec.status().message());
  }
  std::vector<ReplayProblem> problems;
  for (auto& [key, problem] : by_key) {
    if (problem.on_gpu) {
      GpuOpTime time;
      for (const OpIndex op : problem.ops) time.Add(on_gpu[op]);
      problem.call_ns = static_cast<double>(time.busy_ns) / static_cast<double>(std::max<int64_t>(time.executions, 1));
      problem.step_ns = problem.call_ns * problem.calls;
    }
    problem.layers = facts.LayersOf([&home, &ops = problem.ops](const WorkItem& item) {
      return item.IsCall() && ops.contains(home[item.doing.what]);
    });
    const bool is_named = absl::StrContains(problem.problem, named) || absl::StrContains(problem.layers, named);
    if (is_named && problem.calls > 0) problems.push_back(std::move(problem));
  }
  absl::c_stable_sort(problems, [](const ReplayProblem& a, const ReplayProblem& b) { return a.step_ns > b.step_ns; });
  if (problems.size() > most) problems.resize(most);
  for (size_t i = 0, count = problems.size(); i < count; ++i) {
    if (!problems[i].on_gpu) problems[i].call_ns = facts.UndisturbedNs(problems[i].ops);
    ReplayProblem again = problems[i];
    again.spec = LibrarySpec(facts.model().ops[*again.ops.begin()]);
    again.through = "onednn";
    again.reason = "";
    if (!again.spec.is_null()) problems.push_back(std::move(again));
  }
  return problems;
}

std::vector<ReplayVariant> VariantsOf(const ReplayProblem& problem, const Ground& ground, size_t threads,
                                      const std::vector<Variation>& listed) {
  const Json& spec = problem.spec;
  const std::string& through = problem.through;
  const bool is_convolution = spec["op"] == "convolution", is_product = spec["op"] == "product";
  const bool is_inner = is_product && spec["inner"] == true;
  const bool is_torch = through == "torch", has_types = is_torch || through == "tensorflow" || through == "jax";
  const bool on_gpu = problem.on_gpu, is_float = spec.value("type", "") == "float32";
  std::vector<ReplayVariant> variants;
  const auto add_if = [&variants](bool is_offered, ReplayVariant variant) {
    if (is_offered) variants.push_back(std::move(variant));
  };
  const char* const other = is_convolution && spec["format"] == "contiguous" ? "channels_last" : "contiguous";
  const bool is_swapped = is_product && !is_inner && (spec["a"] == true || spec["b"] == true);
  add_if((is_torch && is_convolution && spec.contains("kh")) || is_swapped, {other, {{"format", other}}});
  const bool has_bf16 = on_gpu || absl::c_linear_search(ground.has, "avx512bf16");
  add_if(has_types && is_float && has_bf16, {"bfloat16", {{"type", "bfloat16"}}, {}, true});
  add_if(on_gpu && is_float, {"float16", {{"type", "float16"}}, {}, true});
  add_if(on_gpu && is_float && spec["tf32"] == false, {"TF32", {{"tf32", true}}, {}, true});
  // PyTorch keeps the plan of a problem, tried or not: in processes of their own.
  add_if(on_gpu && is_convolution, {"cudnn.benchmark", Json::object(), {{"REPLAY_CUDNN_BENCHMARK", "1"}}});
  add_if(on_gpu && is_product, {"TunableOp",
                                Json::object(),
                                {{"TORCH_BLAS_PREFER_CUBLASLT", "1"},
                                 {"PYTORCH_TUNABLEOP_ENABLED", "1"},
                                 {"PYTORCH_TUNABLEOP_CUBLASLT_REQUESTED_ALGO_COUNT", "100"}}});
  add_if(is_torch && problem.is_onednn && !is_inner, {"mkldnn off", {{"mkldnn", false}}});
  for (const size_t count : std::set<size_t>{1, ground.processors}) {
    ReplayVariant variant = {absl::StrCat(count, count == 1 ? " thread" : " threads")};
    if (is_torch) variant.request["threads"] = count;
    if (!is_torch) variant.environment = {{ThreadsVariable(through), absl::StrCat(count)}};
    add_if(through != "onednn" && count != threads && !on_gpu, std::move(variant));
  }
  for (const Variation& variation : listed) {
    const auto begins = [&](const char* text) { return absl::StartsWith(variation.name, text); };
    const bool is_offered = (on_gpu && begins(is_convolution ? "TORCH_CUDNN" : "TORCH_BLAS")) ||
                            (is_torch && problem.is_onednn && begins("ONEDNN_MAX_CPU_ISA")) ||
                            (through == "tensorflow" && (begins("TF_ENABLE_ONEDNN") || begins("ONEDNN_MAX_CPU_ISA"))) ||
                            (through == "numpy" && begins("OPENBLAS_CORETYPE"));
    add_if(is_offered, {variation.name, Json::object(), variation.environment, variation.changes_numerics});
  }
  return variants;
}

}  // namespace dlhook::analyzer::whatif
