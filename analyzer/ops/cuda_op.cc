// Copies, launches, memory and collectives: calls of the CUDA runtime, the driver, NCCL and MPI.
#include <iterator>

#include "analyzer/names/fold_names.h"
#include "analyzer/ops/decode_op.h"

namespace dlhook::analyzer::inline ops {
namespace {

std::optional<int64_t> Bytes(uint64_t bytes) {
  if (bytes > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  return static_cast<int64_t>(bytes);
}

// A synchronous copy from or to host memory returns when it is done (from pageable memory: when all of it is staged).
// Copies that do not touch host memory, and memsets, do not wait: CUDA Runtime API, "API synchronization behavior".
bool ReturnsEarly(const CopyCall& copy) {
  return copy.asynchronous || copy.direction == CopyDirection::kDeviceToDevice ||
         copy.direction == CopyDirection::kPeer || copy.direction == CopyDirection::kSet;
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

// "host-to-device", "device-to-device", "peer", "set", "unknown".
std::string CopyDirectionName(CopyDirection direction) {
  if (direction == CopyDirection::kUnknown) return "unknown";
  return absl::StrReplaceAll(EnumName(direction), {{"_", "-"}});
}

// "pageable", "pinned"; "" for none.
std::string HostMemoryName(HostMemory memory) {
  if (memory == HostMemory::kNone) return "";
  return memory == HostMemory::kUnknown ? "unknown" : EnumName(memory);
}

}  // namespace

bool IsGpuFamily(const std::string& family) {
  return absl::StartsWith(family, "cu") || family == "nccl" || family == "nvshmem" || family == "torch_gpu";
}

void DecodeCopy(const trace::Copy& copy, Op& op) {
  CopyCall call;
  Read(copy, &call);
  op.asked = call;
  const bool is_set = call.direction == CopyDirection::kSet;
  op.kind = is_set ? "memset" : "copy";
  op.on_gpu = true;
  op.is_asynchronous = ReturnsEarly(call);
  op.bytes = Bytes(copy.bytes());
  if (!is_set) op.problem = absl::StrCat(CopyDirectionName(call.direction), " ");
  absl::StrAppend(&op.problem, copy.bytes(), " bytes", Extent(copy));
  if (call.direction == CopyDirection::kPeer) {
    absl::StrAppend(&op.problem, " ", copy.source_device(), "->", copy.destination_device());
  }
  const std::string memory = HostMemoryName(call.host_memory);
  if (!memory.empty()) absl::StrAppend(&op.problem, " ", memory);
  if (copy.asynchronous()) absl::StrAppend(&op.problem, " async");
  if (copy.copies() > 1) absl::StrAppend(&op.problem, " batch", copy.copies());
}

void DecodeLaunch(const trace::KernelLaunch& launch, Op& op) {
  op.asked = LaunchCall{.grid = {launch.grid_x(), launch.grid_y(), launch.grid_z()},
                        .block = {launch.block_x(), launch.block_y(), launch.block_z()}};
  op.kind = "kernel";
  op.on_gpu = true;
  op.is_asynchronous = true;
  op.kernel_name = Demangle(launch.kernel());
  op.kernel_short = launch.kernel().empty() ? "" : ShortKernelName(op.kernel_name);
  op.problem = absl::StrCat(op.kernel_short.empty() ? "[unknown kernel]" : op.kernel_short, " grid", launch.grid_x(),
                            "x", launch.grid_y(), "x", launch.grid_z(), " block", launch.block_x(), "x",
                            launch.block_y(), "x", launch.block_z());
  if (launch.shared_bytes() > 0) absl::StrAppend(&op.problem, " shared", launch.shared_bytes());
  if (launch.cooperative()) absl::StrAppend(&op.problem, " cooperative");
  if (launch.cluster_x() > 0) {
    absl::StrAppend(&op.problem, " cluster", launch.cluster_x(), "x", launch.cluster_y(), "x", launch.cluster_z());
  }
  if (launch.programmatic()) absl::StrAppend(&op.problem, " programmatic");
  if (launch.priority() != 0) absl::StrAppend(&op.problem, " priority", launch.priority());
}

void DecodeAllocation(const trace::Allocation& allocation, Op& op) {
  op.kind = allocation.is_free() ? "free" : "allocation";
  op.on_gpu = true;
  const auto kind = FromProto<AllocationKind>(allocation.kind());
  op.asked = AllocationCall{kind};
  op.problem = kind == AllocationKind::kUnknown ? "memory" : EnumName(kind);
  if (!allocation.is_free()) absl::StrAppend(&op.problem, " ", allocation.bytes(), " bytes");
}

void DecodeCollective(const trace::Collective& collective, Op& op) {
  CollectiveCall call;
  Read(collective, &call);
  op.asked = call;
  op.kind = "collective";
  op.on_gpu = IsGpuFamily(op.family);
  op.is_asynchronous = !collective.blocking();
  op.types = TypeName(call.data_type);
  if (collective.bytes() > 0 || collective.count() == 0) op.bytes = Bytes(collective.bytes());
  op.problem = call.kind == CollectiveKind::kUnknown ? "collective" : EnumName(call.kind);
  if (call.kind != CollectiveKind::kBarrier) absl::StrAppend(&op.problem, " ", collective.count(), " ", op.types);
  const std::string reduction = ReductionOperation(collective.reduction());
  if (!reduction.empty()) absl::StrAppend(&op.problem, " ", reduction);
  if (collective.peer() >= 0) absl::StrAppend(&op.problem, " peer", collective.peer());
  if (collective.communicator() > 0) absl::StrAppend(&op.problem, " comm", collective.communicator());
  if (collective.ranks() > 0) absl::StrAppend(&op.problem, " ranks", collective.ranks());
}

}  // namespace dlhook::analyzer::ops
