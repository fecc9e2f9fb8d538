// Rule instruction-set: oneDNN or OpenBLAS computes with narrower vectors than the processor has. oneDNN's implementations name their
// instruction set; what has no such name counts only where a variable limits it. OpenBLAS names its kernels nowhere: only its variable
// tells. A limit that the implementations that ran don't show is no loss, nor one to vectors as wide as the processor's units (Zen 4 has
// AVX-512 in units of 256 bits). The gain: at most as many operations in a cycle more as the vectors are wider (tests/bench/findings.py).
//
// Rule reference-implementation: oneDNN computes with its reference implementation, loops that are written to be right, as it has no other
// for this shape, type or format; or a grouped convolution of small groups as a product for each. The same of products that the reference
// BLAS computes (Netlib's, R's copy of it, GSL's), without vector instructions of its own or threads. The gain: at most the time.

#include "analyzer/findings/rules.h"
#include "analyzer/io/byte_source.h"
#include "analyzer/model/gemm_shape.h"
#include "analyzer/model/op_kind.h"
#include "analyzer/peaks/peaks.h"
#include "preload/format/processor_id.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kInstructionSetPercent = 3;

// Of the vectors in "jit:avx512_core", AVX2; 0: not named.
int VectorBits(absl::string_view name) {
  const std::string lower = absl::AsciiStrToLower(name);
  if (absl::StrContains(lower, "avx512") || absl::StrContains(lower, "avx10_1_512")) return 512;
  if (absl::StrContains(lower, "avx")) return 256;
  return absl::StrContains(lower, "sse4") ? 128 : 0;
}

// OpenBLAS's names of processors (its cpuid_x86.c and dynamic.c); 0: another one.
int VectorBitsOfCore(absl::string_view name) {
  const std::string lower = absl::AsciiStrToLower(name);
  for (const char* core : {"skylakex", "cooperlake", "sapphirerapids"}) {
    if (lower == core) return 512;
  }
  for (const char* core : {"haswell", "zen", "excavator", "sandybridge", "bulldozer", "piledriver", "steamroller"}) {
    if (lower == core) return 256;
  }
  for (const char* core : {"prescott", "core2", "penryn", "dunnington", "atom", "nehalem", "opteron", "opteron_sse3",
                           "barcelona", "bobcat", "nano"}) {
    if (lower == core) return 128;
  }
  return 0;
}

// Of the processor's units; 0: not known.
int UnitBits(const ProcessorInfo& processor) {
  if (const auto flops = CoreFlopsPerCycle(processor, "f32")) return *flops >= 64 ? 512 : *flops >= 32 ? 256 : 128;
  if ((processor.instruction_sets & kAvx512) != 0) return 512;
  return (processor.instruction_sets & kFma) != 0 ? 256 : 0;
}

// A variable that limits vectors.
struct Limit {
  std::string name, value;
  int bits = 0;  // 0: none is set
};

Limit LimitBy(const ProcessInfo& process, absl::Span<const char* const> names, int (*bits_of)(absl::string_view)) {
  for (const auto& [name, value] : process.settings) {
    if (absl::c_linear_search(names, name) && bits_of(value) > 0) return {name, value, bits_of(value)};
  }
  return {};
}

constexpr const char* kOneDnnVariables[] = {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"};
constexpr const char* kOpenBlasVariables[] = {"OPENBLAS_CORETYPE"};
constexpr const char* kTorchVariables[] = {"ATEN_CPU_CAPABILITY"};

bool IsOneDnn(const WorkItem& item) {
  return item.IsHostCompute() && item.op->onednn() != nullptr && item.op->flops.value_or(0) > 0;
}

// NumPy's and SciPy's wheels prefix the names of their OpenBLAS.
bool IsOpenBlas(const ProcessInfo& process, const WorkItem& item) {
  if (!item.IsHostCompute() || item.op->gemm() == nullptr || !IsMatrixProduct(*item.op)) return false;
  if (absl::StartsWith(item.op->function, "scipy_")) return true;
  const auto is_loaded = [&](const char* part) {
    return absl::c_any_of(process.mappings, [&](const Mapping& mapping) {
      return mapping.role == MappingRole::kLibrary && absl::StrContains(mapping.path, part);
    });
  };
  return is_loaded("openblas") && !is_loaded("mkl") && !is_loaded("torch_cpu");
}

// What oneDNN's implementations have at most; 0: none names it.
int WidestNamed(const StepFacts& facts) {
  int widest = 0;
  for (const Op& op : facts.model().ops) {
    if (op.onednn() != nullptr && !op.on_gpu) widest = std::max(widest, VectorBits(op.implementation));
  }
  return widest;
}

std::vector<Finding> Narrow(const StepFacts& facts, const std::function<bool(const WorkItem&)>& is_in,
                            const char* library, int bits, int unit_bits, const Limit& limit, const char* evidence) {
  const double ns = facts.Sum(is_in);
  if (!facts.IsAtLeast(ns, kInstructionSetPercent)) return {};
  return {{.where = facts.LayersOf(is_in),
           .sentence = absl::StrFormat("%s uses vectors of %d bits, the processor has %d: %s.", library, bits,
                                       unit_bits, facts.PartOfStep(ns)),
           .gain_ns = ns * (1 - static_cast<double>(bits) / unit_bits),
           .confidence = limit.bits > 0 ? Confidence::kMedium : Confidence::kLow,
           .evidence = evidence,
           .advice = limit.bits > 0 ? absl::StrCat(limit.name, "=", limit.value, " is set: unset it.")
                                    : "No variable limits it: look for dnnl_set_max_cpu_isa, or use a newer build."}};
}

constexpr double kReferencePercent = 3;

// "gemm:jit" has "gemm", "conv:any+ref:any" and "lrn_ref:any" have "ref".
bool IsNamed(const Op& op, absl::string_view word) {
  const std::vector<absl::string_view> words = absl::StrSplit(op.implementation, absl::ByAnyChar(":_+"));
  return absl::c_linear_search(words, word);
}

// The implementations called "simple" are no reference: a compiler made them for their formats. A recurrent network's "ref" is
// none either: its products are oneDNN's fast ones.
bool IsReference(const WorkItem& item) {
  return item.IsHostCompute() && item.op->onednn() != nullptr && !IsKind(*item.op, OpKind::kRnn) &&
         IsNamed(*item.op, "ref");
}

// A convolution of several groups ("g32mb2_ic32oc32…") by products: "gemm:jit", "x64:gemm:jit".
bool IsByProducts(const WorkItem& item) {
  if (!item.IsHostCompute() || !IsKind(*item.op, OpKind::kConvolution) || item.op->onednn() == nullptr) return false;
  const bool has_groups = absl::StartsWith(item.op->problem, "g") && !absl::StartsWith(item.op->problem, "g1mb");
  return has_groups && IsNamed(*item.op, "gemm") && !IsReference(item);
}

// Then fewer implementations are to be had: instruction-set's own.
bool IsLimited(const StepFacts& facts) {
  return !facts.Setting("ONEDNN_MAX_CPU_ISA").empty() || !facts.Setting("DNNL_MAX_CPU_ISA").empty();
}

// `longest`: of those primitives.
Finding FindingOf(const StepFacts& facts, const WorkItem& longest,
                  const std::function<bool(const WorkItem&)>& is_of_kind) {
  const Op& op = *longest.op;
  const bool is_reference = IsReference(longest);
  const double gain_ns = facts.Sum(is_of_kind);
  return {
      .where = facts.LayersOf(is_of_kind),
      .line = facts.LineOfLongest(is_of_kind),
      .sentence =
          absl::StrCat(is_reference ? absl::StrCat("oneDNN computes ", op.kind, " with its reference implementation (")
                                    : absl::StrCat("oneDNN has no kernel for this grouped ", op.kind,
                                                   " (depthwise, if there are as many groups as channels), and "
                                                   "computes a small product for each group ("),
                       op.implementation, "): ", facts.PartOfStep(gain_ns), "."),
      .gain_ns = gain_ns,
      .evidence = absl::StrCat("table algorithms, column implementation; ", op.problem, ", ", op.types),
      .advice =
          is_reference
              ? "It has no faster one for this: find which parameter makes the difference (ONEDNN_VERBOSE=dispatch "
                "says why others were refused), another size, type or memory format; or use a newer build of oneDNN."
              : "Try a dense convolution (groups=1), which computes more but may be faster, two dimensions instead of "
                "three, or channels_last; ONEDNN_VERBOSE=dispatch says why other kernels were refused."};
}

constexpr const char* kReferenceBlas[] = {"libblas", "libcblas", "librefblas", "libRblas", "libgslcblas"};

// With its release, as "libblas.so.3.11.0", or in a folder named "blas". What distributions link to such names from other
// libraries is in folders, or files, named after these.
bool IsReferenceBlas(absl::string_view path) {
  for (const char* other : {"openblas", "blis", "mkl", "atlas", "armpl", "nvpl"}) {
    if (absl::StrContains(path, other)) return false;
  }
  const std::string name = BaseName(path);
  const bool is_known_as_such = absl::StrContains(path, "/blas/") || absl::StartsWith(name, "libRblas.") ||
                                absl::StartsWith(name, "libgslcblas.");
  if (!is_known_as_such && std::count(name.begin(), name.end(), '.') < 3) return false;
  return absl::c_any_of(kReferenceBlas, [&](absl::string_view reference) {
    absl::string_view rest = name;
    return absl::ConsumePrefix(&rest, reference) && (absl::StartsWith(rest, ".") || absl::StartsWith(rest, "-"));
  });
}

// The file that computes all products of BLAS of these processes; empty: it is not the reference, or several libraries
// compute them.
std::string ReferenceBlas(const TraceModel& model) {
  std::string file;
  for (const ProcessInfo& process : model.processes) {
    for (const Mapping& mapping : process.mappings) {
      const bool is_blas = absl::StrContains(mapping.path, "blas") || absl::StrContains(mapping.path, "blis") ||
                           absl::StrContains(mapping.path, "mkl") || absl::StrContains(mapping.path, "libtorch_cpu");
      if (mapping.role != MappingRole::kLibrary || !is_blas) continue;
      if (!IsReferenceBlas(mapping.path)) return "";
      file = BaseName(mapping.path);
    }
  }
  return file;
}

void AddReferenceBlas(const StepFacts& facts, std::vector<Finding>& findings) {
  const std::string library = ReferenceBlas(facts.model());
  const auto is_of_blas = [](const WorkItem& item) {
    return item.IsHostCompute() && item.op->family == "blas" && IsMatrixProduct(*item.op);
  };
  const double ns = facts.Sum(is_of_blas);
  if (library.empty() || !facts.IsAtLeast(ns, kReferencePercent)) return;
  double flops = 0;  // one call inside another: the outer one has them, the inner one the time
  for (const WorkItem& item : facts.items()) {
    if (is_of_blas(item)) flops += static_cast<double>(item.op->flops.value_or(0)) * item.calls;
  }
  findings.push_back({.where = facts.LayersOf(is_of_blas),
                      .line = facts.LineOfLongest(is_of_blas),
                      .sentence = absl::StrFormat("The reference BLAS (%s) computes the matrix products at %.3g "
                                                  "GFLOP/s, without threads and with few vector instructions: %s.",
                                                  library, flops / ns, facts.PartOfStep(ns)),
                      .gain_ns = ns,
                      .evidence = "table gemm, column rate; table capabilities names the library",
                      .advice = "Install OpenBLAS, BLIS or MKL and let the program load that: update-alternatives on "
                                "Debian, libblas=*=*openblas in conda, or LD_PRELOAD=libopenblas.so.0."});
}

}  // namespace

std::vector<Finding> FindNarrowVectors(const StepFacts& facts) {
  if (facts.model().processes.empty()) return {};
  const ProcessInfo& process = facts.model().processes.front();
  const int unit_bits = UnitBits(process.processor);
  std::vector<Finding> findings;
  const Limit onednn = LimitBy(process, kOneDnnVariables, VectorBits);
  const int widest = WidestNamed(facts);
  if (widest > 0 && widest < unit_bits) {
    const auto is_narrow = [&](const WorkItem& item) {
      return IsOneDnn(item) && (onednn.bits > 0 || VectorBits(item.op->implementation) > 0);
    };
    findings = Narrow(facts, is_narrow, "oneDNN", widest, unit_bits, onednn,
                      "table algorithms, column implementation: none uses wider vectors");
  }
  const Limit openblas = LimitBy(process, kOpenBlasVariables, VectorBitsOfCore);
  if (openblas.bits > 0 && openblas.bits < unit_bits) {
    const auto is_narrow = [&](const WorkItem& item) { return IsOpenBlas(process, item); };
    Append(Narrow(facts, is_narrow, "OpenBLAS", openblas.bits, unit_bits, openblas,
                  "table gemm; the width is that of the processor named by the variable"),
           findings);
  }
  // Not all operations have loops for more than AVX2.
  const Limit torch =
      LimitBy(process, kTorchVariables, [](absl::string_view value) { return value == "default" ? 128 : 0; });
  if (torch.bits > 0 && torch.bits < unit_bits && facts.UsesTorch()) {
    Append(Narrow(
               facts, [](const WorkItem& item) { return item.scope != nullptr; }, "PyTorch (ATen)", torch.bits,
               unit_bits, torch, "table work: operations without calls of a library"),
           findings);
  }
  return findings;
}

// One for each primitive and implementation.
std::vector<Finding> FindReferenceImplementations(const StepFacts& facts) {
  std::vector<Finding> findings;
  std::set<std::pair<std::string, std::string>> seen;
  for (const WorkItem& item : facts.items()) {  // the longest first
    if ((!IsReference(item) && !IsByProducts(item)) || IsLimited(facts) ||
        !seen.emplace(item.op->kind, item.op->implementation).second)
      continue;
    const auto is_of_kind = [&](const WorkItem& other) {
      return IsReference(other) == IsReference(item) && IsByProducts(other) == IsByProducts(item) &&
             other.op->kind == item.op->kind && other.op->implementation == item.op->implementation;
    };
    if (facts.IsAtLeast(facts.Sum(is_of_kind), kReferencePercent))
      findings.push_back(FindingOf(facts, item, is_of_kind));
  }
  AddReferenceBlas(facts, findings);
  return findings;
}

}  // namespace dlhook::analyzer::findings
