// Encoding of what calls of CUDA's libraries (and MPI) computed.
// Thread: the drain's. Records are untrusted: enums pass through, counts are bounded.
#ifndef DLHOOK_PRELOAD_DRAIN_DESCRIBE_CUDA_H_
#define DLHOOK_PRELOAD_DRAIN_DESCRIBE_CUDA_H_

#include "preload/drain/describe.h"

namespace dlhook::inline drain {

// Writes the shape into the open OpDefinition, and OpDefinition.captured; nothing for records of other types.
void WriteCudaShape(const CallRecord& record, const DefinitionSource& definitions, PacketWriter* writer);

// Gemm's fields, without its Begin and End.
void WriteGemmFields(const GemmShape& shape, PacketWriter* writer);

}  // namespace dlhook::inline drain

#endif  // DLHOOK_PRELOAD_DRAIN_DESCRIBE_CUDA_H_
