// Encoding of what a call computed: matrix products, calls of CUDA's libraries, MPI and LIBXSMM.
// Thread: the drain's. Records are untrusted: enums are passed through, counts are bounded.
#pragma once

#include "preload/drain/describe.h"

namespace dlhook::inline drain {

// Writes the shape into the open OpDefinition, and OpDefinition.captured; nothing for other record types.
void WriteShape(const CallRecord& record, const DefinitionSource& definitions, PacketWriter* writer);

}  // namespace dlhook::inline drain
