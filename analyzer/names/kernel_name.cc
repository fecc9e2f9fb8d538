// See fold_names.h. Accepts any text.
// Uses the C++ runtime's demangler, and adds what Rust's legacy scheme needs.
#include <cxxabi.h>

#include <cstdlib>

#include "analyzer/names/fold_names.h"

namespace dlhook::analyzer::inline names {
namespace {

constexpr size_t kMaxNames = 2;

bool IsNameChar(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Types that say nothing about a kernel beyond its data type, and helper types of frameworks' launchers: PyTorch's
// loaders, storers, offset calculators and lambda wrappers.
bool IsScaffolding(absl::string_view name) {
  // clang-format off
  static constexpr absl::string_view kWords[] = {
      "void", "bool", "char", "short", "int", "long", "unsigned", "signed", "float", "double",
      "const", "volatile", "true", "false", "operator", "lambda", "lambda1", "instance", "__half",
      "half", "__nv_bfloat16", "Half", "BFloat16", "complex", "float2", "float4", "int2", "int4",
      "array", "Array", "tuple", "pair", "TensorIteratorBase", "TrivialOffsetCalculator",
      "OffsetCalculator", "LoadWithoutCast", "StoreWithoutCast", "LoadWithCast", "StoreWithCast",
      "gpu_kernel_impl", "gpu_kernel_impl_nocast", "gpu_kernel", "opmath_gpu_kernel_with_scalars",
      "TensorInfo", "TensorListMetadata", "memory", "ReduceOp", "func_wrapper_t", "anonymous",
      "namespace", "nv_bfloat16", "cudnnTensorStruct", "int8_t", "uint8_t", "int32_t", "int64_t",
      "uint32_t", "size_t"};
  // clang-format on
  return absl::c_linear_search(kWords, name);
}

bool IsDataType(absl::string_view name) {
  static constexpr absl::string_view kTypes[] = {
      "float", "double", "__half", "half",  "__nv_bfloat16", "nv_bfloat16", "Half",   "BFloat16", "int",
      "char",  "bool",   "long",   "short", "float2",        "complex",     "int8_t", "uint8_t"};
  return absl::c_linear_search(kTypes, name);
}

struct Identifier {
  absl::string_view name;
  bool is_qualifier;  // followed by "::"
};

std::vector<Identifier> Identifiers(absl::string_view text) {
  std::vector<Identifier> all;
  for (size_t i = 0; i < text.size();) {
    if (!IsNameChar(text[i])) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < text.size() && IsNameChar(text[end])) ++end;
    const absl::string_view name = text.substr(i, end - i);
    const bool is_number = absl::ascii_isdigit(static_cast<unsigned char>(name[0]));
    if (!is_number) all.push_back({name, absl::StartsWith(text.substr(end), "::")});
    i = end;
  }
  return all;
}

// The template arguments to keep: see ShortKernelName.
std::string Distinction(absl::string_view arguments) {
  std::vector<absl::string_view> names;
  absl::string_view type;
  for (const Identifier& identifier : Identifiers(arguments)) {
    if (type.empty() && IsDataType(identifier.name)) type = identifier.name;
    if (identifier.is_qualifier || IsScaffolding(identifier.name)) continue;
    if (absl::c_linear_search(names, identifier.name)) continue;
    names.push_back(identifier.name);
    if (names.size() == kMaxNames) break;
  }
  if (names.empty() && !type.empty()) names.push_back(type);
  return names.empty() ? "" : absl::StrCat("<", absl::StrJoin(names, ","), ">");
}

// Namespaces, classes and the function's name, in lower case, without anything that is no letter or digit.
std::string PlainPath(absl::string_view demangled) {
  std::string plain;
  if (absl::StartsWith(demangled, "_Z")) {
    plain = absl::StrJoin(PathOfMangled(demangled), "");
  } else {
    for (const NamePart& part : PathOf(demangled)) plain += part.name;
  }
  if (plain.empty()) plain = std::string(demangled.substr(0, demangled.find_first_of("<(")));  // a name that was cut
  absl::AsciiStrToLower(&plain);
  std::erase_if(plain, [](unsigned char c) { return !absl::ascii_isalnum(c); });
  return plain;
}

// The demangler is recursive; names in real libraries have at most some 30 000 characters.
constexpr size_t kMaxSymbolBytes = 1 << 16;

// "17h" and 16 hexadecimal digits end every name in Rust's legacy scheme.
bool EndsInRustHash(absl::string_view name) {
  constexpr size_t kHashCharacters = 19;  // "::h" + 16
  if (name.size() <= kHashCharacters) return false;
  const absl::string_view hash = name.substr(name.size() - kHashCharacters);
  if (!absl::StartsWith(hash, "::h")) return false;
  for (const char character : hash.substr(3)) {
    if (!absl::ascii_isxdigit(character) || absl::ascii_isupper(character)) return false;
  }
  return true;
}

std::string FromRust(absl::string_view name) {
  name.remove_suffix(19);
  std::string text = absl::StrReplaceAll(name, {{"$LT$", "<"},
                                                {"$GT$", ">"},
                                                {"$RF$", "&"},
                                                {"$BP$", "*"},
                                                {"$C$", ","},
                                                {"$SP$", "@"},
                                                {"$LP$", "("},
                                                {"$RP$", ")"},
                                                {"$u20$", " "},
                                                {"$u27$", "'"},
                                                {"$u5b$", "["},
                                                {"$u5d$", "]"},
                                                {"$u7b$", "{"},
                                                {"$u7d$", "}"},
                                                {"..", "::"}});
  // A part must not begin with '$': the scheme prepends an underscore.
  return absl::StrReplaceAll(text, {{"::_<", "::<"}}).substr(absl::StartsWith(text, "_<") ? 1 : 0);
}

}  // namespace

bool IsCollectiveKernel(absl::string_view demangled) {
  // NCCL, RCCL, vLLM's and SGLang's all-reduce, PyTorch's symmetric memory, TensorRT-LLM and FlashInfer, DeepEP, pplx, NVSHMEM,
  // MSCCL++. A broadcast is as often one of shapes.
  static constexpr absl::string_view kParts[] = {"nccl",        "rccl",       "crossdevicereduce", "quickreduce",
                                                 "multimem",    "oneshotall", "twoshot",           "lamport",
                                                 "mnnvl",       "deepep",     "nvshmem",           "mscclpp",
                                                 "userbuffers", "allreduce",  "allgather",         "reducescatter",
                                                 "alltoall",    "pplx",       "symmetricmemory",   "hybridep"};
  const std::string path = PlainPath(demangled);
  const auto has = [&](absl::string_view part) { return absl::StrContains(path, part); };
  // Inductor's names list what was fused, a wait for a collective included; a fused product computes, too.
  if (absl::StartsWith(path, "triton") || has("gemm") || has("matmul")) return has("nccl") || has("rccl");
  return absl::c_any_of(kParts, has);
}

std::optional<bool> UsesTensorCores(absl::string_view demangled) {
  // Instructions by their shapes (884, 1688, 16816: m, n, k), and kernels that are written for them only: cuBLAS's for Hopper,
  // FlashAttention's, Composable Kernel's (xdl), MIOpen's (gtc) and Tensile's with "MI16x16".
  static constexpr absl::string_view kUse[] = {
      "tensorop", "_tensor8x8x", "_tensor16x8x", "s884",     "h884",           "1688",           "16816",
      "161616",   "hmma",        "gmma",         "nvjet",    "flash_fwd",      "flash_bwd",      "xdlops",
      "_xdl_",    "_gtcx",       "_MI16x16",     "_MI32x32", "sm90_xmma_gemm", "sm100_xmma_gemm"};
  static constexpr absl::string_view kDoNot[] = {"simt", "_sgemm_", "scudnn", "gemv", "gemmk1_kernel", "ffma"};
  const auto has = [&](absl::string_view part) { return absl::StrContains(demangled, part); };
  if (absl::c_any_of(kDoNot, has)) return false;
  if (absl::c_any_of(kUse, has)) return true;
  return std::nullopt;
}

std::string ShortKernelName(absl::string_view demangled) {
  if (absl::StartsWith(demangled, "_Z")) {
    const std::vector<absl::string_view> path = PathOfMangled(demangled);
    return std::string(path.empty() ? demangled : path.back());
  }
  const std::vector<NamePart> path = PathOf(demangled);
  if (path.empty()) return std::string(demangled);
  std::string distinction;
  for (const NamePart& part : path) {
    if (!part.template_arguments.empty()) distinction = Distinction(part.template_arguments);
  }
  return absl::StrCat(path.back().name, distinction);
}

std::string DemangleSymbol(absl::string_view symbol) {
  const size_t version = symbol.find('@');
  return Demangle(version == 0 ? symbol : symbol.substr(0, version));
}

std::string Demangle(absl::string_view mangled) {
  if (!absl::StartsWith(mangled, "_Z") || mangled.size() > kMaxSymbolBytes) return std::string(mangled);
  int status = 0;
  const std::unique_ptr<char, decltype(&free)> text(
      abi::__cxa_demangle(std::string(mangled).c_str(), nullptr, nullptr, &status), &free);
  if (text == nullptr || status != 0) return std::string(mangled);
  const absl::string_view demangled = text.get();
  return EndsInRustHash(demangled) ? FromRust(demangled) : std::string(demangled);
}

std::vector<absl::string_view> PathOfMangled(absl::string_view mangled) {
  if (!absl::ConsumePrefix(&mangled, "_Z")) return {};
  while (absl::ConsumePrefix(&mangled, "Z")) continue;  // inside a function
  const bool is_nested = absl::ConsumePrefix(&mangled, "N");
  if (is_nested) absl::ConsumePrefix(&mangled, "K");
  std::vector<absl::string_view> path;
  if (absl::ConsumePrefix(&mangled, "St")) path.push_back("std");
  size_t size = 0;
  while (true) {
    const size_t digits = std::min(mangled.find_first_not_of("0123456789"), mangled.size());
    if (digits == 0 || !absl::SimpleAtoi(mangled.substr(0, digits), &size) || size > mangled.size() - digits) break;
    path.push_back(mangled.substr(digits, size));
    mangled.remove_prefix(digits + size);
    if (!is_nested) break;  // the types of its arguments follow
  }
  return path;
}

}  // namespace dlhook::analyzer::names
