// Advice on what dlhook could not see, or saw only in part.
#pragma once

#include "analyzer/model/process_info.h"

namespace dlhook::analyzer::inline tables {

// Capabilities of counters are named like "counter:cycles"; unknown names in DLHOOK_COUNTERS: "counters".
inline constexpr char kCounterPrefix[] = "counter:";
bool IsOfCounters(const Capability& capability);

// A sentence; empty if nothing is missing or nothing can be done.
std::string AdviceFor(const Capability& capability);
std::string AdviceFor(const Loss& loss);

// True if something was refused or lost; false if the user switched it off.
bool IsMissing(const Capability& capability);

}  // namespace dlhook::analyzer::tables
