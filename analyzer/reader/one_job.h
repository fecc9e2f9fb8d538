// Whether process traces that lie in several folders are one run: of one job, each rank once, at the same time. Traces in
// one folder always are: whoever put them there says so.
#pragma once

#include "analyzer/io/byte_source.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline reader {

// By what the traces' headers tell, before they are read. Folders belong together if
//   - they have processes of one launch: the same job of Slurm or MPI, or the same process group of one machine; or
//   - each has ranks,
// and no rank or process is in two of them, and neither jobs nor numbers of ranks differ.
// InvalidArgument: they don't; the message says why, and what to do.
absl::Status CheckOneJob(const RunFiles& files);

// Of a run that was read: traces of other tools are of different ranks of one job, or there is only one.
absl::Status CheckRanks(const TraceModel& model);

// Of traces of other tools, which have one clock: those of different times are said to be, those of different days refused.
absl::Status CheckTimesOfRanks(TraceModel* model);

// Of a run that was read: its folders' processes lived at the same time. A script's runs one after another have the same
// process group. OutOfRange: no two folders' did, so each is a run of its own.
absl::Status CheckSameTime(const TraceModel& model);

// Of paths that may be runs or parts of runs: what belongs together, in the order given. Parts have ranks of one job, each
// once; what only has a launch in common (a script's, one after another) are runs of their own.
std::vector<std::vector<std::string>> RunsAmong(const std::vector<std::string>& paths);

}  // namespace dlhook::analyzer::reader
