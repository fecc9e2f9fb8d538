// XLA's NVTX ranges, which tell what it runs on GPUs -> scopes of its operations, as XlaBuilder makes them of profiles.
#pragma once

#include <cstddef>

#include "analyzer/model/trace_model.h"
#include "analyzer/xla/xla_profiles.h"

namespace dlhook::analyzer::inline reader {

class NameTable;

// Of one process, whose scopes are those from `first` on. `programs` may have those that ran.
void ReadXlaRanges(size_t first, const XlaProfiles& programs, NameTable* names, TraceModel* model);

}  // namespace dlhook::analyzer::reader
