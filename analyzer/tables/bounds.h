// Columns about what a machine could do at most: arithmetic intensity, bound, percent of the bound, lost time.
#pragma once

#include <array>
#include <cstdint>

#include "analyzer/model/trace_model.h"
#include "analyzer/peaks/peaks.h"
#include "analyzer/table/typed_columns.h"
#include "analyzer/tables/gpu_call_times.h"
#include "analyzer/tables/table_kind.h"

namespace dlhook::analyzer::inline tables {

// Of the calls whose bound is known.
struct BoundSums {
  double flops = 0;  // of those whose bytes are known, too …
  double bytes = 0;  // … and theirs
  double bound_ns = 0;
  double time_ns = 0;
  std::array<double, 5> by_kind_ns{};  // of bound_ns, by BoundKind

  void Add(const Op& op, const Bound& bound, double calls);  // time_ns is added by the caller
  // All calls of an op: those on the CPU with their durations, those on a GPU with what it did for them.
  void AddOp(const Peaks* peaks, const Op& op, const OpTotals& totals, const GpuOpTime& gpu);
  BoundKind Kind() const;                                             // of most of bound_ns
  bool IsBelow() const { return time_ns > 0 && time_ns < bound_ns; }  // so it is no bound
};

// None where no peaks are known. `steps`: the sums are of so many; lost time is of one.
TypedColumns<BoundSums> BoundColumns(const TableOptions& options, int64_t steps = 1);
void AddBoundNotes(const TableOptions& options, Table* table);

}  // namespace dlhook::analyzer::tables
