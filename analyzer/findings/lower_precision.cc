// Rule lower-precision: products and convolutions in float32, where the hardware computes a shorter type faster. Only information:
// results change, so it is never said where the program decided otherwise or uses such a type already. bfloat16 on the CPU, where the
// processor has instructions for it and dlhook calibrate measured its peak; TF32 for cuBLAS's products, from compute capability 8.0 on.
// The gain: at most t (1 - bound in that type / bound in float32), so a call keeps its distance from its bound.
//
// Rule float64: products and convolutions in double precision take twice as long: half as many numbers fit into a register and into
// the memory bandwidth. So do PyTorch's own operations where a float64 array is among their operands (NumPy's default). Types are not
// recorded, but a conversion is: inside of an operation, to as many bytes as this makes, or behind it, to half as many. The half is the
// size of an operand of a float32 call, the whole of none; and an operation beside it that makes as much returns floating numbers only.
//
// Rule type-conversions: tensors are converted to another type in each step (PyTorch's aten::_to_copy, on the CPU). Autocast converts
// inside of an operation; weights too, once in a forward pass where their gradients are computed, else for each use. The program's own
// conversions are operations by themselves (aten::to). Networks in channels_last convert the memory format so, too.

#include "analyzer/findings/rules.h"
#include "analyzer/model/gemm_shape.h"
#include "analyzer/model/op_cost.h"
#include "analyzer/model/op_kind.h"
#include "analyzer/model/release.h"
#include "analyzer/peaks/peaks.h"
#include "analyzer/tables/gpu/gpu_tables.h"
#include "preload/format/processor_id.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kLowerPrecisionPercent = 10;

bool IsOfType(const Op& op, absl::string_view type) { return absl::StartsWith(op.types, type); }

Finding Information(const StepFacts& facts, double ns, double gain_ns, const char* why, const char* evidence,
                    std::string advice) {
  return {.sentence = absl::StrCat("Products and convolutions in float32: ", facts.PartOfStep(ns), "; ", why, "."),
          .gain_ns = gain_ns,
          .confidence = Confidence::kLow,
          .evidence = evidence,
          .advice = absl::StrCat("If its precision suffices", advice),
          .changes_numerics = true,
          .is_information = true};
}

std::vector<Finding> Bfloat16(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  const Peaks* peaks = facts.options().peaks;
  if (peaks == nullptr || model.processes.empty() || !facts.Setting("ONEDNN_DEFAULT_FPMATH_MODE").empty()) return {};
  if ((model.processes.front().processor.instruction_sets & (kAvx512Bf16 | kAmxBf16)) == 0) return {};
  const auto is_used = [](const Op& op) { return IsOfType(op, "bf16") || IsOfType(op, "f16"); };
  if (absl::c_any_of(model.ops, is_used)) return {};
  const auto gain_of = [&](const WorkItem& item) {
    const bool is_judged = item.IsHostCompute() && item.op->types == "f32" && item.op->flops.value_or(0) > 0 &&
                           (IsKind(*item.op, OpKind::kConvolution) || IsMatrixProduct(*item.op));
    if (!is_judged || IsSlowForItsKind(facts, item)) return 0.0;
    const double flops = static_cast<double>(*item.op->flops), bytes = static_cast<double>(item.op->bytes.value_or(0));
    const auto now = peaks->MeasuredBound("f32", flops, bytes, facts.processors()),
               then = peaks->MeasuredBound("bf16", flops, bytes / 2, facts.processors());
    return now && then ? item.ns * std::max(1 - then->ns / now->ns, 0.0) : 0.0;
  };
  double ns = 0, gain_ns = 0;
  for (const WorkItem& item : facts.items()) {
    if (gain_of(item) <= 0) continue;
    ns += item.ns;
    gain_ns += gain_of(item);
  }
  if (!facts.IsAtLeast(gain_ns, kLowerPrecisionPercent)) return {};
  Finding finding =
      Information(facts, ns, gain_ns, "the processor has instructions for bfloat16, which the program does not use",
                  "table gemm, columns types and bound; dlhook calibrate --show: bf16",
                  facts.UsesTorch() ? ": with torch.autocast(\"cpu\", dtype=torch.bfloat16). Measure both."
                                    : ": bfloat16 for products and convolutions. Measure both.");
  finding.where = facts.LayersOf([&](const WorkItem& item) { return gain_of(item) > 0; });
  return {finding};
}

std::vector<Finding> Tf32(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  if (GpuTimesOf(model) != GpuTimes::kOfKernels || !facts.HasSteps() || facts.Setting("NVIDIA_TF32_OVERRIDE") == "0") {
    return {};
  }
  // Chosen by nobody: a pedantic mode is a decision.
  const auto keeps_f32 = [](const Op& op) {
    return op.on_gpu && op.types == "f32" && op.flops.value_or(0) > 0 && op.tensor_core &&
           absl::EndsWith(op.tensor_core->reason, "keeps f32");
  };
  // A kernel's call may be a launch inside the library's.
  const auto product_of = [&](CallIndex call) -> const Op* {
    for (; call != kNone; call = model.calls.parent[call]) {
      if (keeps_f32(model.ops[model.calls.op[call]])) return &model.ops[model.calls.op[call]];
    }
    return nullptr;
  };
  const GpuRun run(model, facts.options().analysis->steps());
  double ns = 0, gain_ns = 0;
  for (GpuIndex i = 0; i < model.gpu.size(); ++i) {
    const GpuDeviceIndex device = model.gpu.device[i];
    const GpuDevice& gpu = model.gpu_devices[device];
    if (model.gpu.kind[i] != GpuActivityKind::kKernel) continue;
    const Op* const op = product_of(model.gpu.call[i]);
    const auto f32 = StatedGpuRate(gpu, "f32"), tf32 = StatedGpuRate(gpu, "tf32");
    const int64_t start_ns = model.gpu.start_ns[i];
    if (op == nullptr || !f32 || !tf32 || run.SteadyTime(device).CoveredNs(start_ns, start_ns + 1) == 0) continue;
    const auto flops = static_cast<double>(*op->flops), bandwidth = static_cast<double>(gpu.memory_bytes_per_second);
    const double memory_ns = bandwidth > 0 ? 1e9 * static_cast<double>(op->bytes.value_or(0)) / bandwidth : 0;
    const double now_ns = std::max(flops / *f32, memory_ns), then_ns = std::max(flops / *tf32, memory_ns);
    const double steps =
        static_cast<double>(std::max<int64_t>(run.Steps(device), 1)) * static_cast<double>(run.devices().size());
    const double kernel_ns = static_cast<double>(model.gpu.end_ns[i] - start_ns) / steps;
    ns += kernel_ns;
    gain_ns += kernel_ns * (1 - then_ns / now_ns);
  }
  if (!facts.IsAtLeast(gain_ns, kLowerPrecisionPercent)) return {};
  return {Information(facts, std::min(ns, facts.step_ns()), std::min(gain_ns, facts.step_ns()),
                      "the GPU computes them in TF32 on tensor cores, where that is allowed",
                      "table gemm, column tensor_core: \"keeps f32\"; rates as stated by the vendor",
                      facts.UsesTorch() ? " (10 bits of mantissa): torch.set_float32_matmul_precision(\"high\")."
                                        : " (10 bits of mantissa): CUBLAS_TF32_TENSOR_OP_MATH.")};
}

constexpr double kFloat64Percent = 3;
constexpr double kOperationsPercent = 10;  // of PyTorch itself
constexpr double kGain = 0.5;              // part of the time
constexpr int64_t kLeastDouble = 8192;     // bytes

bool RunsPython(const TraceModel& model) {
  return !model.python_stacks.empty() || absl::c_any_of(model.processes, [](const ProcessInfo& process) {
    return absl::StartsWith(process.program, "python") || !ReleaseOf(process, "Python").empty();
  });
}

// Bytes of the float32 operands of the libraries' calls; empty if some have a shorter type, to which tensors are converted.
std::set<int64_t> Float32Bytes(const StepFacts& facts) {
  std::set<int64_t> bytes;
  for (const WorkItem& item : facts.items()) {
    if (!item.IsHostCompute()) continue;
    if (IsOfType(*item.op, "bf16") || IsOfType(*item.op, "f16")) return {};
    if (const auto shape = MatmulShapeOf(*item.op); shape && IsOfType(*item.op, "f32")) {
      for (const auto& [rows, columns] : {std::pair(shape->m, shape->n), {shape->m, shape->k}, {shape->n, shape->k}})
        bytes.insert(ElementCount({4, shape->batch, rows, columns}).value_or(0));
    }
    for (const Tensor& tensor : item.op->tensors) {
      if (tensor.type != "f32") continue;
      std::vector<int64_t> dims = tensor.dims;
      dims.push_back(4);  // bytes
      bytes.insert(ElementCount(dims).value_or(0));
    }
  }
  return bytes;
}

bool ReturnsFloats(const std::string& op) {
  static constexpr std::array<absl::string_view, 16> kFunctions = {
      "true_divide", "exp",   "log",   "log1p", "tanh", "sigmoid", "softmax", "sqrt",
      "sin",         "rsqrt", "log10", "log2",  "cos",  "erf",     "gelu",    "reciprocal"};
  return absl::c_linear_search(kFunctions, op);
}

// Complex numbers of two float32 take as many bytes as a float64.
bool OfComplexNumbers(const std::string& op) {
  return absl::StrContains(op, "complex") || absl::StrContains(op, "fft") || op == "polar" || op == "stft" ||
         op == "istft";
}

// Operations that make as much as a float64 operand makes them make.
struct DoubleRun {
  std::set<size_t> tensors;
  bool returns_floats = false;  // one of them: else they may be of integers
  ScopeIndex first = kNone;
};

class DoubleRuns {
 public:
  explicit DoubleRuns(const StepFacts& facts)
      : facts_(facts), names_(facts.scope_names()), float32_(Float32Bytes(facts)) {
    const bool is_complex = absl::c_any_of(names_, [](const ScopeName& name) { return OfComplexNumbers(name.op); });
    if (float32_.empty() || is_complex) return;
    made_ = TensorsMade(facts);
    for (size_t i = 0; i < made_.size(); ++i) {
      if (tensors.contains(i)) continue;
      const int64_t bytes = made_[i].bytes;
      DoubleRun run;
      if (Converts(i) && i > 0 && IsDouble(2 * bytes)) {
        run = RunFrom(i - 1, -1, 2 * bytes);
      } else if (made_[i].converted_bytes == bytes && IsDouble(bytes)) {
        run = RunFrom(i, 1, bytes);
      }
      if (!run.returns_floats) continue;
      tensors.merge(run.tensors);
      if (first == kNone) first = run.first;
    }
  }

  MadeTime Time() const { return TimeOfMade(facts_, made_, tensors); }

  std::set<size_t> tensors;
  ScopeIndex first = kNone;

 private:
  const std::string& OpOf(size_t i) const { return names_[facts_.model().scopes.look[made_[i].scope].name].op; }
  bool Converts(size_t i) const { return OpOf(i) == "to" || OpOf(i) == "_to_copy" || OpOf(i) == "type_as"; }
  bool IsDouble(int64_t bytes) const {
    return bytes >= kLeastDouble && float32_.contains(bytes / 2) && !float32_.contains(bytes);
  }

  // From this tensor on, in the step: numbers and masks lie between.
  DoubleRun RunFrom(size_t begin, int by, int64_t bytes) const {
    const ScopeColumns& scopes = facts_.model().scopes;
    DoubleRun run;
    for (size_t i = begin; i < made_.size() && made_[i].step == made_[begin].step; i += by) {
      if (scopes.thread[made_[i].scope] != scopes.thread[made_[begin].scope]) break;
      if (made_[i].bytes < bytes / 2 && i != begin) continue;
      if (made_[i].bytes != bytes) break;
      run.tensors.insert(i);
      run.returns_floats |= ReturnsFloats(OpOf(i));
      run.first = by > 0 && run.first != kNone ? run.first : made_[i].scope;
    }
    return run;
  }

  const StepFacts& facts_;
  const std::vector<ScopeName>& names_;
  const std::set<int64_t> float32_;
  std::vector<MadeTensor> made_;
};

std::vector<Finding> Float64Operations(const StepFacts& facts) {
  if (!facts.HasSteps() || facts.HasGpuTimes() || !facts.UsesTorch()) return {};
  const DoubleRuns runs(facts);
  const auto [ns, where] = runs.Time();
  if (!facts.IsAtLeast(ns, kOperationsPercent)) return {};
  return {{.where = where,
           .line = facts.LineOfStack(facts.model().scopes.look[runs.first].stack),
           .sentence = absl::StrCat("Operations of PyTorch compute in double precision (float64): their results are "
                                    "twice as large as the same tensors in float32: ",
                                    facts.PartOfStep(ns), "."),
           .gain_ns = kGain * ns,
           .evidence = "bytes that these operations and conversions allocate; at half the bytes, half the time",
           .advice = "Convert where the numbers enter (NumPy makes float64 by default: astype(np.float32), "
                     "torch.from_numpy(x).float()): one such operand makes each result float64.",
           .changes_numerics = true}};
}

constexpr double kConversionsPercent = 10;

enum By : int { kProgram = 1, kModule, kAutocast, kOffload };

struct Conversion {
  const char* what;
  const char* advice;
};

Conversion ConversionBy(int by, bool is_inference) {
  switch (by) {
    case kProgram:
      return {"Tensors are converted to another type",
              "If it is data, convert it once, where it is made or read (NumPy makes float64 by default: "
              "astype(np.float32)), or in the loader's workers."};
    case kModule:
      return {"Tensors are copied to another type or device",
              "Keep one type and device within these layers, or convert once for several of them."};
    case kOffload:
      return {
          "Weights are copied again",
          "accelerate's hooks read them from disk or memory for each pass (disk_offload, cpu_offload, device_map with "
          "\"disk\" or \"cpu\"): keep in place what memory has room for, or do more in a pass (a larger batch)."};
    default:
      return {"Tensors are converted to another type inside of operations, as autocast does,",
              is_inference ? "Convert the model once, model.to(torch.bfloat16), in place of torch.autocast: it "
                             "converts weights for each use."
                           : "A larger batch: the weights are converted once in a pass, however many rows it has."};
  }
}

Finding OfConversions(const StepFacts& facts, const NamedOperations& found, int by) {
  const auto is_copy = [](const WorkItem& item) { return item.scope != nullptr && item.scope->op == "copy_"; };
  const bool is_inference = facts.steps().kind == StepKind::kInference;
  const Conversion conversion = ConversionBy(by, is_inference);
  const double gain_ns = std::min(found.ns, facts.step_ns());
  return {.where = by == kProgram ? "" : facts.LayersOf(is_copy),
          .line = found.Line(facts),
          .sentence = absl::StrFormat("%s in each %s (aten::_to_copy): %s.", conversion.what, facts.StepNoun(),
                                      facts.PartOfStep(gain_ns)),
          .gain_ns = gain_ns,
          .evidence = "table work: aten::copy_ of these layers; whether only the memory format changes is not recorded",
          .advice = conversion.advice,
          .changes_numerics = by == kAutocast && is_inference,
          .is_information = by == kAutocast && !is_inference};
}

}  // namespace

std::vector<Finding> FindLowerPrecision(const StepFacts& facts) {
  std::vector<Finding> findings = Bfloat16(facts);
  Append(Tf32(facts), findings);
  return findings;
}

std::vector<Finding> FindFloat64(const StepFacts& facts) {
  const auto is_double = [](const WorkItem& item) {
    return item.IsHostCompute() && absl::StrContains(item.op->types, "f64");
  };
  const double ns = facts.Sum(is_double);
  if (!facts.IsAtLeast(ns, kFloat64Percent)) return Float64Operations(facts);
  return {{.where = facts.LayersOf(is_double),
           .line = facts.LineOfLongest(is_double),
           .sentence = absl::StrCat("The libraries compute in double precision (float64): ", facts.PartOfStep(ns), "."),
           .gain_ns = kGain * ns,
           .basis = GainBasis::kComputed,
           .evidence = "table gemm, column types: float32 does twice as many operations in the same time",
           .advice = absl::StrCat(
               "If double precision is not needed, find where it comes from",
               RunsPython(facts.model()) ? ": NumPy makes float64 by default (dtype=np.float32, x.astype(np.float32))"
                                         : "; libraries have the same functions for float32 (sgemm for dgemm), but not "
                                           "every language has such numbers (R has none)",
               facts.UsesTorch()          ? "; a float64 array makes float64 tensors (torch.from_numpy(x).float())."
               : facts.Uses("JAX")        ? "; JAX takes it only with jax_enable_x64 (or JAX_ENABLE_X64)."
               : facts.Uses("TensorFlow") ? "; or tf.keras.backend.set_floatx."
                                          : "."),
           .changes_numerics = true}};
}

std::vector<Finding> FindTypeConversions(const StepFacts& facts) {
  if (!facts.HasSteps() || facts.HasGpuTimes()) return {};
  const auto is_own = [](const std::string& op) { return op == "_to_copy" || op == "to" || op == "type_as"; };
  // By hooks that bring a layer's weights, whatever type these have.
  const std::vector<bool> loads = facts.StacksWith(
      [](const std::string& file, const std::string&) { return absl::StrContains(file, "/accelerate/"); });
  const auto found_by = SumNamedOperations(
      facts, [](const std::string& op) { return op == "_to_copy" ? kProgram : 0; },
      [&](int, ScopeIndex scope, ScopeIndex outermost) -> int {
        const ScopeLook& look = facts.model().scopes.look[outermost];
        if (!is_own(facts.scope_names()[look.name].op)) return kAutocast;
        if (look.stack != kNone && loads[look.stack]) return kOffload;
        const LayerIndex layer = facts.attribution().of_scope[scope].layer;
        const bool in_module = layer != kNone && !facts.attribution().layers[layer].module.empty();
        return in_module ? kModule : kProgram;
      });
  std::vector<Finding> findings;
  for (const auto& [by, found] : found_by) {
    // Where no call computes in another type, and the network's format is not the usual one, it may be the format.
    const bool may_be_format = by == kProgram && UsesChannelsLast(facts);
    if (facts.IsAtLeast(found.ns, kConversionsPercent) && !may_be_format)
      findings.push_back(OfConversions(facts, found, by));
  }
  return findings;
}

}  // namespace dlhook::analyzer::findings
