// Decodes calls of the CUDA runtime, the driver, NCCL and MPI: copies, launches, memory, collectives.
#ifndef DLHOOK_ANALYZER_OPS_CUDA_OP_H_
#define DLHOOK_ANALYZER_OPS_CUDA_OP_H_

#include <string>

#include "analyzer/model/op.h"
#include "proto/op.pb.h"

namespace dlhook::analyzer::inline ops {

// "host-to-device", "device-to-device", "peer", "set", "unknown".
std::string CopyDirectionName(CopyDirection direction);
std::string HostMemoryName(HostMemory memory);  // "pageable", "pinned"; "" for none

// Whether calls of this family ask a GPU for work.
bool IsGpuFamily(const std::string& family);

// Each sets all fields of `op` except those of the definition itself (function, family, time source, captured).
void DecodeCopy(const trace::Copy& copy, Op& op);
void DecodeLaunch(const trace::KernelLaunch& launch, Op& op);
void DecodeAllocation(const trace::Allocation& allocation, Op& op);
void DecodeCollective(const trace::Collective& collective, Op& op);

}  // namespace dlhook::analyzer::ops

#endif  // DLHOOK_ANALYZER_OPS_CUDA_OP_H_
