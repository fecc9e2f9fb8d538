// Numbers as people read them.
#ifndef DLHOOK_ANALYZER_RENDER_HUMAN_H_
#define DLHOOK_ANALYZER_RENDER_HUMAN_H_

#include <string>

#include "absl/strings/string_view.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline render {

// "1.23 ms" for 1234567 with unit "ns", "4.00 KiB" for 4096 "bytes", "12.3%" for 12.34 "%", "-" for
// what is not known.
std::string HumanCell(const Cell& cell, absl::string_view unit);

// Whether HumanCell writes the unit behind the number; if not, it belongs into the column's header.
bool IsUnitInCell(absl::string_view unit);

}  // namespace dlhook::analyzer::render

#endif  // DLHOOK_ANALYZER_RENDER_HUMAN_H_
