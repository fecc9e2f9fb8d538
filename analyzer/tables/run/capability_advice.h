// What a user can do about what dlhook could not see, or saw only in part.
#ifndef DLHOOK_ANALYZER_TABLES_RUN_CAPABILITY_ADVICE_H_
#define DLHOOK_ANALYZER_TABLES_RUN_CAPABILITY_ADVICE_H_

#include <string>

#include "analyzer/model/process_info.h"

namespace dlhook::analyzer::inline tables {

// Capabilities of counters are called so: "counter:cycles"; what of DLHOOK_COUNTERS is not understood: "counters".
inline constexpr char kCounterPrefix[] = "counter:";
bool IsOfCounters(const Capability& capability);

// A sentence; empty where nothing is missing or nothing can be done.
std::string AdviceFor(const Capability& capability);
std::string AdviceFor(const Loss& loss);

// True where something that the user may have wanted to see was not: refused or lost, not what he switched off himself.
bool IsMissing(const Capability& capability);

}  // namespace dlhook::analyzer::tables

#endif  // DLHOOK_ANALYZER_TABLES_RUN_CAPABILITY_ADVICE_H_
