#include "analyzer/page/slice_names.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/calls/op_labels.h"
#include "analyzer/calls/scope_names.h"
#include "analyzer/layers/gpu_places.h"
#include "analyzer/model/op_kind.h"
#include "analyzer/table/human.h"

namespace dlhook::analyzer::inline page {
namespace {

// What is known of it, without empty parts.
std::string Details(const std::vector<std::string>& parts) {
  std::vector<std::string> known;
  for (const std::string& part : parts) {
    if (!part.empty()) known.push_back(part);
  }
  return absl::StrJoin(known, " · ");
}

std::string NameOfOp(const Op& op) {
  if (IsKind(op, OpKind::kCall)) return op.function;
  if (IsKind(op, OpKind::kKernel) && !op.kernel_short.empty()) return absl::StrCat("launch ", op.kernel_short);
  return KindLabel(op);
}

}  // namespace

uint32_t SliceNames::Index(std::string name, const char* kind, std::string details) {
  const auto [at, is_new] = index_.try_emplace({name, kind, details}, static_cast<uint32_t>(names_.size()));
  if (is_new) names_.push_back({std::move(name), kind, std::move(details)});
  return at->second;
}

uint32_t SliceNames::OfCall(CallIndex call) {
  const OpIndex index = model_.calls.op[call];
  const auto known = of_op_.find(index);
  if (known != of_op_.end()) return known->second;
  const Op& op = model_.ops[index];
  const bool prepares = op.is_creation || op.is_trial || IsKind(op, OpKind::kSearch);
  const char* const kind = rules_.Waits(call)                ? "waiting"
                           : prepares                        ? "preparing"
                           : IsKind(op, OpKind::kCollective) ? "communication"
                           : IsKind(op, OpKind::kCopy)       ? "copy"
                                                             : "library";
  const std::string direction = op.direction == Direction::kUnknown ? "" : DirectionName(op.direction);
  return of_op_[index] =
             Index(NameOfOp(op), kind,
                   Details({op.function, direction, op.problem, op.types, op.implementation, op.algorithm}));
}

uint32_t SliceNames::OfScope(ScopeIndex scope) {
  const std::pair key(model_.scopes.look[scope].name, model_.scopes.look[scope].kind);
  const auto known = of_scope_.find(key);
  if (known != of_scope_.end()) return known->second;
  const char* const kind = rules_.IsInput(scope)                                        ? "input"
                           : CollectiveOf(model_.names[model_.scopes.look[scope].name]) ? "communication"
                           : rules_.IsBracket(scope)                                    ? "range"
                                                                                        : "framework";
  return of_scope_[key] = Index(ScopeLabel(model_, scope), kind, model_.names[key.first]);
}

uint32_t SliceNames::OfGpu(GpuIndex activity) {
  const GpuActivityColumns& gpu = model_.gpu;
  const auto human = [&] { return HumanCell(static_cast<int64_t>(gpu.bytes[activity]), "bytes"); };
  if (gpu.kind[activity] == GpuActivityKind::kCopy) {
    return Index("copy", "copy",
                 Details({EnumName(gpu.direction[activity]), EnumName(gpu.host_memory[activity]), human()}));
  }
  if (gpu.kind[activity] == GpuActivityKind::kSet) return Index("memset", "copy", human());
  const char* const kind = GpuWorkOf(model_, activity) == GpuWork::kCommunication ? "communication" : "kernel";
  const GpuKernelIndex kernel = gpu.kernel[activity];
  if (kernel == kNone) return Index(EnumName(gpu.kind[activity]), kind, "");
  const GpuKernel& facts = model_.gpu_kernels[kernel];
  const auto name = [&](NameIndex of) { return of == kNone ? std::string() : model_.names[of]; };
  const auto size = [](const uint32_t(&of)[3]) { return absl::StrJoin(of, "x"); };
  return Index(
      facts.short_name == kNone ? "kernel" : name(facts.short_name), kind,
      Details({name(facts.name), absl::StrCat("grid ", size(facts.grid)), absl::StrCat("block ", size(facts.block))}));
}

}  // namespace dlhook::analyzer::page
