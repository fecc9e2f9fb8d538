// Counter readings as if only some of a run's steps had happened.
#ifndef DLHOOK_ANALYZER_DIFF_COUNTER_SLICE_H_
#define DLHOOK_ANALYZER_DIFF_COUNTER_SLICE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline diff {

// `intervals`: ascending, disjoint. Between them the series counts nothing. Counts between two readings are divided by
// time, so that slices of adjacent intervals add up to the whole.
CounterSeries SliceOf(const CounterSeries& series, const std::vector<std::pair<int64_t, int64_t>>& intervals);

}  // namespace dlhook::analyzer::diff

#endif  // DLHOOK_ANALYZER_DIFF_COUNTER_SLICE_H_
