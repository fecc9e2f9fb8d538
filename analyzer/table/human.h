// Numbers for people: three significant digits and a prefix, in tables and in sentences.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline table {

// "1.23 ms" for 1234567 with unit "ns", "4.00 KiB" for 4096 "bytes", "12.3%" for 12.34 "%", "-" for unknown.
std::string HumanCell(const Cell& cell, absl::string_view unit);

// A time in a sentence: "1.23 ms".
std::string HumanTime(double ns);

// Whether HumanCell writes the unit after the number; if not, it belongs in the column header.
bool IsUnitInCell(absl::string_view unit);

}  // namespace dlhook::analyzer::table
