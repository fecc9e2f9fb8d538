#include "analyzer/xla/xla_profiles.h"

namespace dlhook::analyzer::inline xla {
namespace {

// Transformations of JAX around a part of the path.
constexpr absl::string_view kTransformations[] = {"jvp",        "transpose",  "vmap",       "remat",
                                                  "checkpoint", "custom_jvp", "custom_vjp", "shard_map",
                                                  "vjp",        "linearize",  "pmap"};
// Parts that JAX makes for its own control flow and calls.
// clang-format off
constexpr absl::string_view kControlFlow[] = {
    "while", "closed_call", "pjit", "jit", "scan", "remat", "remat2", "checkpoint", "core_call", "shard_map", "xla_call",
    "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "rematted_computation"};
// clang-format on

// At slashes outside of parentheses.
std::vector<absl::string_view> Split(absl::string_view path) {
  std::vector<absl::string_view> parts;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= path.size(); ++i) {
    if (i == path.size() || (path[i] == '/' && depth == 0)) {
      if (i > begin) parts.push_back(path.substr(begin, i - begin));
      begin = i + 1;
    } else if (path[i] == '(') {
      ++depth;
    } else if (path[i] == ')') {
      --depth;
    }
  }
  return parts;
}

struct Reading {
  std::vector<std::string> scopes;
  bool is_derivative = false;
  bool is_transposed = false;
  bool is_repeated = false;

  // What checkpointing computes in a backward pass has its scopes twice: transpose(jvp(A))/B/jvp(A)/B/checkpoint.
  void Add(const Reading& part, bool is_transformed) {
    const bool begins_again = is_transposed && is_transformed && !part.scopes.empty() &&
                              part.scopes.size() <= scopes.size() &&
                              std::equal(part.scopes.begin(), part.scopes.end(), scopes.begin());
    if (begins_again) scopes.clear();
    scopes.insert(scopes.end(), part.scopes.begin(), part.scopes.end());
    is_derivative |= part.is_derivative;
    is_transposed |= part.is_transposed;
    is_repeated |= part.is_repeated;
  }
};

constexpr int kDeepest = 32;  // nested transformations; more are a text that nobody wrote

void ReadPart(absl::string_view part, int depth, Reading* reading) {
  const size_t open = part.find('(');
  if (open == absl::string_view::npos || part.back() != ')' || depth == kDeepest) {
    reading->is_repeated |= part == "rematted_computation";
    if (!absl::c_linear_search(kControlFlow, part) && !absl::StartsWith(part, "branch_"))
      reading->scopes.emplace_back(part);
    return;
  }
  const absl::string_view name = part.substr(0, open);
  if (name == "jit" || name == "pjit") return;  // a function, not a scope
  if (!absl::c_linear_search(kTransformations, name)) return reading->scopes.emplace_back(part), void();
  reading->is_derivative |= name == "jvp" || name == "linearize";
  reading->is_transposed |= name == "transpose" || name == "vjp";
  for (absl::string_view inner : Split(part.substr(open + 1, part.size() - open - 2))) {
    ReadPart(inner, depth + 1, reading);
  }
}

}  // namespace

XlaOpName ReadOpName(absl::string_view op_name) {
  XlaOpName read;
  op_name = op_name.substr(0, op_name.find(';'));  // of merged ones the first: "a;b", "a/(b:c)"
  const size_t merged = op_name.find("/(");
  std::string first;
  if (merged != absl::string_view::npos) {
    const absl::string_view inner = op_name.substr(merged + 2);
    first = absl::StrCat(op_name.substr(0, merged + 1), inner.substr(0, inner.find(':')));
    op_name = first;
  }
  std::vector<absl::string_view> parts = Split(op_name);
  Reading reading;
  // A name ends with the primitive, unless it ends with a transformed scope.
  if (!parts.empty() && (parts.size() == 1 || parts.back().find('(') == absl::string_view::npos)) {
    read.primitive = std::string(parts.back());
    parts.pop_back();
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool is_of_loop = i > 0 && parts[i - 1] == "while" && (parts[i] == "body" || parts[i] == "cond");
    const bool has_branches = parts[i] == "cond" && i + 1 < parts.size() && absl::StartsWith(parts[i + 1], "branch_");
    if (is_of_loop || has_branches) continue;
    Reading part;
    ReadPart(parts[i], 0, &part);
    reading.Add(part, parts[i].find('(') != absl::string_view::npos);
  }
  read.path = absl::StrJoin(reading.scopes, "/");
  read.pass = reading.is_repeated     ? CompiledPass::kRecompute
              : reading.is_transposed ? CompiledPass::kBackward
              : reading.is_derivative ? CompiledPass::kForward
                                      : CompiledPass::kOther;
  return read;
}

}  // namespace dlhook::analyzer::xla
