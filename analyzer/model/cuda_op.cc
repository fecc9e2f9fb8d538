// See cuda_op.h.
#include "analyzer/model/cuda_op.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "analyzer/model/kernel_name.h"

namespace dlhook::analyzer::inline model {
namespace {

std::string LowerWithHyphens(const std::string& name) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(name), {{"_", "-"}});
}

std::optional<int64_t> Bytes(uint64_t bytes) {
  if (bytes > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  return static_cast<int64_t>(bytes);
}

// A synchronous copy from or to host memory returns when it is done (from pageable memory: when the
// last of it is staged). Those that do not touch host memory, and sets, do not wait: CUDA Runtime
// API, "API synchronization behavior".
bool ReturnsEarly(const trace::Copy& copy) {
  return copy.asynchronous() || copy.direction() == trace::Copy::DEVICE_TO_DEVICE ||
         copy.direction() == trace::Copy::PEER || copy.direction() == trace::Copy::SET;
}

std::string Extent(const trace::Copy& copy) {
  if (copy.width_bytes() == 0) return "";
  std::string text = absl::StrCat(" ", copy.width_bytes(), "x", copy.height());
  if (copy.depth() > 1) absl::StrAppend(&text, "x", copy.depth());
  return text;
}

std::string ReductionOperation(int32_t reduction) {  // ncclRedOp_t
  static constexpr absl::string_view kNames[] = {"sum", "prod", "max", "min", "avg"};
  if (reduction < 0) return "";
  if (reduction < static_cast<int32_t>(std::size(kNames))) return std::string(kNames[reduction]);
  return absl::StrCat("reduction_", reduction);
}

}  // namespace

std::string CopyDirectionName(trace::Copy::Direction direction) {
  if (direction == trace::Copy::DIRECTION_UNKNOWN || !trace::Copy::Direction_IsValid(direction)) {
    return "unknown";
  }
  return LowerWithHyphens(trace::Copy::Direction_Name(direction));
}

std::string HostMemoryName(trace::Copy::HostMemory memory) {
  if (memory == trace::Copy::NONE || !trace::Copy::HostMemory_IsValid(memory)) return "";
  if (memory == trace::Copy::HOST_UNKNOWN) return "unknown";
  return absl::AsciiStrToLower(trace::Copy::HostMemory_Name(memory));
}

bool IsGpuFamily(const std::string& family) {
  return absl::StartsWith(family, "cu") || family == "nccl" || family == "nvshmem";
}

void DecodeCopy(const trace::Copy& copy, Op& op) {
  const bool is_set = copy.direction() == trace::Copy::SET;
  op.kind = is_set ? "memset" : "copy";
  op.on_gpu = true;
  op.is_asynchronous = ReturnsEarly(copy);
  op.bytes = Bytes(copy.bytes());
  if (!is_set) op.problem = absl::StrCat(CopyDirectionName(copy.direction()), " ");
  absl::StrAppend(&op.problem, copy.bytes(), " bytes", Extent(copy));
  if (copy.direction() == trace::Copy::PEER) {
    absl::StrAppend(&op.problem, " ", copy.source_device(), "->", copy.destination_device());
  }
  const std::string memory = HostMemoryName(copy.host_memory());
  if (!memory.empty()) absl::StrAppend(&op.problem, " ", memory);
  if (copy.asynchronous()) absl::StrAppend(&op.problem, " async");
  if (copy.copies() > 1) absl::StrAppend(&op.problem, " batch", copy.copies());
}

void DecodeLaunch(const trace::KernelLaunch& launch, Op& op) {
  op.kind = "kernel";
  op.on_gpu = true;
  op.is_asynchronous = true;
  op.kernel_name = DemangleKernel(launch.kernel());
  op.kernel_short = launch.kernel().empty() ? "" : ShortKernelName(op.kernel_name);
  op.problem = absl::StrCat(op.kernel_short.empty() ? "[unknown kernel]" : op.kernel_short, " grid", launch.grid_x(),
                            "x", launch.grid_y(), "x", launch.grid_z(), " block", launch.block_x(), "x",
                            launch.block_y(), "x", launch.block_z());
  if (launch.shared_bytes() > 0) absl::StrAppend(&op.problem, " shared", launch.shared_bytes());
  if (launch.cooperative()) absl::StrAppend(&op.problem, " cooperative");
}

void DecodeAllocation(const trace::Allocation& allocation, Op& op) {
  op.kind = allocation.is_free() ? "free" : "allocation";
  op.on_gpu = true;
  const bool is_known =
      allocation.kind() != trace::Allocation::KIND_UNKNOWN && trace::Allocation::Kind_IsValid(allocation.kind());
  op.problem = is_known ? absl::AsciiStrToLower(trace::Allocation::Kind_Name(allocation.kind())) : "memory";
  if (!allocation.is_free()) absl::StrAppend(&op.problem, " ", allocation.bytes(), " bytes");
}

void DecodeCollective(const trace::Collective& collective, Op& op) {
  op.kind = "collective";
  op.on_gpu = IsGpuFamily(op.family);
  op.is_asynchronous = !collective.blocking();
  op.types = TypeName(collective.data_type());
  if (collective.bytes() > 0 || collective.count() == 0) op.bytes = Bytes(collective.bytes());
  const bool is_known =
      collective.kind() != trace::Collective::KIND_UNKNOWN && trace::Collective::Kind_IsValid(collective.kind());
  op.problem = is_known ? absl::AsciiStrToLower(trace::Collective::Kind_Name(collective.kind())) : "collective";
  if (collective.kind() != trace::Collective::BARRIER) {
    absl::StrAppend(&op.problem, " ", collective.count(), " ", op.types);
  }
  const std::string reduction = ReductionOperation(collective.reduction());
  if (!reduction.empty()) absl::StrAppend(&op.problem, " ", reduction);
  if (collective.peer() >= 0) absl::StrAppend(&op.problem, " peer", collective.peer());
  if (collective.communicator() > 0) absl::StrAppend(&op.problem, " comm", collective.communicator());
  if (collective.ranks() > 0) absl::StrAppend(&op.problem, " ranks", collective.ranks());
}

}  // namespace dlhook::analyzer::model
