// See look_columns.h.
#include "analyzer/tables/look_columns.h"

#include <optional>

#include "analyzer/tables/columns.h"

namespace dlhook::analyzer::inline tables {
namespace {

Cell MeanOf(const std::optional<int64_t>& ns, int64_t steps) { return ns ? Mean(*ns, steps) : Cell(); }

}  // namespace

TypedColumns<LookRow> LookColumns() {
  return {
      {TimeColumn("blocked",
                  "Time blocked (not runnable), estimated from thread-state samples; not known with fewer than 10."),
       [](const LookRow& row) { return MeanOf(row.looks.BlockedOf(row.total_ns), row.steps); }},
      {Detail(TimeColumn("no_processor", "Time runnable, waiting for a CPU.")),
       [](const LookRow& row) { return MeanOf(row.looks.QueuedOf(row.total_ns), row.steps); }},
      {Detail(TextColumn("blocked_in", "What it was blocked in (thread-state samples), as in the table threads.")),
       [](const LookRow& row) {
         const bool is_told = row.looks.BlockedOf(row.total_ns).value_or(0) > 0;
         return is_told ? Cell(BlockedInText(row.looks.found_ns)) : Cell();
       }},
      {Detail(IntegerColumn("looks", "", Better::kNeither, "Number of thread-state samples behind this row.")),
       [](const LookRow& row) { return row.looks.looks; }},
  };
}

std::string LookNote() {
  return "Blocked: estimated from thread-state samples. A part with n samples (column looks) is uncertain by up to "
         "half "
         "of 1 / sqrt(n) of the row.";
}

}  // namespace dlhook::analyzer::tables
