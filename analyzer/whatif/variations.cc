// The list, and how what is set already is combined with it.
#include "analyzer/whatif/variations.h"

#include <unistd.h>

#include <filesystem>

#include "analyzer/io/child_process.h"

namespace dlhook::analyzer::inline whatif {
namespace {

constexpr absl::string_view kThreadRules = "too-many-threads spinning-threads machine-busy one-thread uneven-threads";
constexpr absl::string_view kMallocRules = "page-faults growing-memory";
constexpr absl::string_view kPrecisionRules = "lower-precision";

struct Listed {
  absl::string_view settings;    // "NAME=VALUE NAME=VALUE"
  absl::string_view needs = {};  // words of Ground.has, all of them; "many": processors
  absl::string_view rules = {};  // findings that suggest it
  absl::string_view exact = {};  // where it changes numerics: the value that does not
};

// oneDNN: "CPU dispatcher control" and "Floating-point math mode" of its developer guide; glibc: "Memory allocation
// tunables" of its manual; PyTorch: "Huge pages" of its notes on threading, and torch.backends; OpenMP: its
// specification, 6; XLA: "GPU performance tips" of JAX's documentation.
constexpr Listed kListed[] = {
    {"OMP_WAIT_POLICY=passive", "many", kThreadRules},
    {"OMP_PROC_BIND=true", "many", "uneven-threads"},
    {"GLIBC_TUNABLES=glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=4294967296", "", kMallocRules},
    {"GLIBC_TUNABLES=glibc.malloc.hugetlb=1", "", kMallocRules},
    {"THP_MEM_ALLOC_ENABLE=1", "torch", kMallocRules},
    {"ONEDNN_DEFAULT_FPMATH_MODE=BF16", "onednn avx512bf16", kPrecisionRules, "STRICT"},
    {"ONEDNN_MAX_CPU_ISA=AVX512_CORE", "onednn avx512vnni"},
    {"ONEDNN_MAX_CPU_ISA=AVX2", "onednn avx512f"},
    {"OPENBLAS_CORETYPE=Haswell", "openblas avx512f"},
    {"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1", "torch gpu", kPrecisionRules, "0"},
    {"TORCH_BLAS_PREFER_CUBLASLT=1", "torch gpu"},
    {"TORCH_CUDNN_USE_HEURISTIC_MODE_B=1", "torch gpu"},
    {"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "torch gpu", "gpu-allocations"},
    {"NVIDIA_TF32_OVERRIDE=1", "tensorflow gpu", kPrecisionRules, "0"},
    {"TF_ENABLE_ONEDNN_OPTS=0", "tensorflow onednn"},
    {"TF_CUDNN_USE_AUTOTUNE=0", "tensorflow gpu"},
    {"TF_XLA_FLAGS=--tf_xla_auto_jit=2", "tensorflow"},
    {"XLA_FLAGS=--xla_gpu_triton_gemm_any=true", "xla gpu"},
    {"XLA_FLAGS=--xla_gpu_enable_latency_hiding_scheduler=true", "xla gpu"},
    {"XLA_FLAGS=--xla_cpu_multi_thread_eigen=false", "xla many"},
};

bool Has(const Ground& ground, absl::string_view needs) {
  for (absl::string_view word : absl::StrSplit(needs, ' ', absl::SkipEmpty())) {
    const bool has = word == "many" ? ground.processors > 1 : absl::c_linear_search(ground.has, word);
    if (!has) return false;
  }
  return true;
}

// What divides the parts of a variable that holds a list; null: it holds none.
const char* SeparatorOf(absl::string_view name) {
  if (name == "LD_PRELOAD" || name == "GLIBC_TUNABLES") return ":";
  return absl::EndsWith(name, "_FLAGS") ? " " : nullptr;
}

// Empty environment: all of it is set already.
Variation Make(const Ground& ground, absl::string_view settings, absl::string_view rules) {
  Variation variation = {.name = std::string(settings), .rules = rules};
  for (absl::string_view setting : absl::StrSplit(settings, ' ', absl::SkipEmpty())) {
    std::pair<std::string, std::string> pair = absl::StrSplit(setting, absl::MaxSplits('=', 1));
    const std::string before = ground.variable(pair.first);
    const char* const separator = SeparatorOf(pair.first);
    if (separator != nullptr ? absl::StrContains(before, pair.second) : before == pair.second) continue;
    if (separator != nullptr && !before.empty())
      pair.second = pair.first == "LD_PRELOAD" ? absl::StrCat(pair.second, separator, before)
                                               : absl::StrCat(before, separator, pair.second);
    variation.environment.push_back(std::move(pair));
  }
  return variation;
}

// Powers of two up to the processors there are, and these, but not what is so already.
std::vector<size_t> Threads(const Ground& ground, const std::string& variable) {
  size_t now = ground.processors;
  std::string set = ground.variable(variable);
  if (set.empty() && variable == "PJRT_NPROC") set = ground.variable("NPROC");  // XLA reads it next
  if (!set.empty() && !absl::SimpleAtoi(set, &now)) now = 0;
  std::set<size_t> counts = {ground.processors};
  for (size_t count = 1; count < ground.processors; count *= 2) counts.insert(count);
  counts.erase(now);
  return {counts.begin(), counts.end()};
}

void AddThreads(const Ground& ground, absl::string_view variable, std::vector<Variation>* variations,
                absl::string_view rules = kThreadRules) {
  for (size_t count : Threads(ground, std::string(variable))) {
    std::string settings = absl::StrCat(variable, "=", count);
    // These go before OMP_NUM_THREADS where they are set.
    for (const char* before : {"MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "BLIS_NUM_THREADS"}) {
      if (variable == "OMP_NUM_THREADS" && !ground.variable(before).empty())
        absl::StrAppend(&settings, " ", before, "=", count);
    }
    variations->push_back(Make(ground, settings, rules));
  }
}

}  // namespace

std::string CommandLine(const Variation& variation, const std::vector<std::string>& words) {
  std::vector<std::string> line;
  for (const auto& [name, value] : variation.environment) line.push_back(absl::StrCat(name, "=", ShellWord(value)));
  if (!variation.processors.empty()) line.push_back(variation.name);
  for (const std::string& word : variation.words.empty() ? words : variation.words) line.push_back(ShellWord(word));
  return absl::StrJoin(line, " ");
}

std::vector<std::string> MappedFiles(const TraceModel& model, absl::string_view part) {
  std::vector<std::string> paths;
  for (const ProcessInfo& process : model.processes) {
    for (const Mapping& mapping : process.mappings) {
      if (absl::StrContains(mapping.path, part)) paths.push_back(mapping.path);
    }
  }
  return paths;
}

Ground GroundOf(const StepFacts& facts) {
  Ground ground = {.processors = std::max<size_t>(facts.processors(), 1)};
  std::set<std::string> has;
  const TraceModel& model = facts.model();
  for (const Op& op : model.ops) {
    if (op.onednn() != nullptr) has.insert("onednn");
  }
  if (!MappedFiles(model, "openblas").empty()) has.insert("openblas");
  if (facts.UsesTorch()) has.insert("torch");
  if (facts.Uses("TensorFlow")) has.insert("tensorflow");
  if (facts.Uses("JAX") || !model.compiled_programs.empty()) has.insert("xla");
  if (model.UsesGpu()) has.insert("gpu");
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) has.insert("avx512f");
  if (__builtin_cpu_supports("avx512vnni")) has.insert("avx512vnni");
  if (__builtin_cpu_supports("avx512bf16")) has.insert("avx512bf16");
#endif
  ground.has.assign(has.begin(), has.end());
  std::vector<std::string> folders = {"/usr/local/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"};
  for (const std::string& path : MappedFiles(model, "/lib/python"))
    folders.push_back(path.substr(0, path.find("/python")));
  for (const char* name : {"libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libtcmalloc.so.4", "libmimalloc.so.3",
                           "libmimalloc.so.2", "libmimalloc.so.2.0"}) {
    for (const std::string& folder : std::set<std::string>(folders.begin(), folders.end())) {
      const std::string path = absl::StrCat(folder, "/", name);
      if (access(path.c_str(), R_OK) != 0) continue;
      ground.allocators.emplace_back(std::string(name, 3, std::string(name).find_first_of("_.") - 3), path);
      break;
    }
  }
  return ground;
}

std::vector<Variation> ListedVariations(const Ground& ground, const std::vector<RuleFinding>& found, double step_ns) {
  std::vector<Variation> all;
  AddThreads(ground, "OMP_NUM_THREADS", &all);
  if (Has(ground, "openblas") && ground.variable("OPENBLAS_NUM_THREADS").empty())
    AddThreads(ground, "OPENBLAS_NUM_THREADS", &all, {});  // it follows OMP_NUM_THREADS where this is not set
  if (Has(ground, "tensorflow")) {
    AddThreads(ground, "TF_NUM_INTRAOP_THREADS", &all);
    AddThreads(ground, "TF_NUM_INTEROP_THREADS", &all);
  } else if (Has(ground, "xla")) {
    AddThreads(ground, "PJRT_NPROC", &all);  // of XLA's pool
  }
  std::set<std::string> allocators;
  for (const auto& [name, path] : ground.allocators) {
    if (allocators.insert(name).second) all.push_back(Make(ground, absl::StrCat("LD_PRELOAD=", path), kMallocRules));
  }
  for (const auto& [list, processors] : ground.pinnings)
    all.push_back({.name = absl::StrCat("taskset -c ", list), .processors = processors, .rules = kThreadRules});
  for (const Listed& listed : kListed) {
    if (!Has(ground, listed.needs)) continue;
    all.push_back(Make(ground, listed.settings, listed.rules));
    all.back().changes_numerics = !listed.exact.empty();
  }
  std::erase_if(all, [](const Variation& one) { return one.environment.empty() && one.processors.empty(); });
  // By the first finding that suggests it.
  std::map<std::string, size_t> places;
  for (Variation& one : all) {
    const std::vector<absl::string_view> rules = absl::StrSplit(one.rules, ' ');
    const auto suggests = absl::c_find_if(found, [&](const auto& of) { return absl::c_linear_search(rules, of.rule); });
    places[one.name] = static_cast<size_t>(suggests - found.begin());
    if (suggests == found.end()) continue;
    const auto& [rule, finding] = *suggests;
    one.promise = absl::StrFormat("%s: %s %.3g %% of a step", rule,
                                  finding.basis == GainBasis::kUpperBound ? "at most" : GainBasisName(finding.basis),
                                  finding.GainPercent(step_ns));
  }
  absl::c_stable_sort(all, [&](const Variation& a, const Variation& b) { return places[a.name] < places[b.name]; });
  return all;
}

absl::StatusOr<std::vector<Variation>> VariationsOfVariable(absl::string_view text) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
  if (parts.first.empty() || parts.second.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--env expects NAME=VALUE[,VALUE]..., found '", text, "'"));
  }
  std::vector<Variation> variations;
  const auto changes_numerics = [&](absl::string_view value) {
    return absl::c_any_of(kListed, [&](const Listed& listed) {
      return !listed.exact.empty() && absl::StartsWith(listed.settings, parts.first + "=") &&
             !absl::EqualsIgnoreCase(value, listed.exact);
    });
  };
  for (absl::string_view value : absl::StrSplit(parts.second, ',')) {
    variations.push_back({.name = absl::StrCat(parts.first, "=", value),
                          .environment = {{parts.first, std::string(value)}},
                          .changes_numerics = changes_numerics(value)});
  }
  return variations;
}

absl::StatusOr<std::vector<Variation>> VariationsOfWord(absl::string_view text, const std::vector<std::string>& words) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
  if (!absl::StartsWith(parts.first, "-") || parts.second.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--arg expects a flag of the program and its values, --name=VALUE[,VALUE]..., found '", text, "'"));
  }
  std::vector<Variation> variations;
  for (absl::string_view value : absl::StrSplit(parts.second, ',')) {
    Variation variation = {.name = absl::StrCat(parts.first, "=", value), .words = words, .changes_batch = true};
    bool is_there = false;
    for (size_t i = 1; i < words.size(); ++i) {
      if (absl::StartsWith(words[i], absl::StrCat(parts.first, "="))) {
        variation.words[i] = variation.name;
      } else if (words[i] == parts.first && i + 1 < words.size()) {
        variation.words[i + 1] = std::string(value);
      } else {
        continue;
      }
      is_there = true;
    }
    if (!is_there) variation.words.push_back(variation.name);
    if (variation.words != words) variations.push_back(std::move(variation));
  }
  return variations;
}

}  // namespace dlhook::analyzer::whatif
