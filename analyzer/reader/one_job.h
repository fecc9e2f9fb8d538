// Whether process traces that lie in several folders are one run: of one job, each rank once, at the same time. Traces in
// one folder always are: whoever put them there says so.
#pragma once

#include "analyzer/io/byte_source.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline reader {

// By what the traces' headers tell, before they are read. Folders belong together if they have processes of one launch (the
// same job of Slurm or MPI, or the same process group of one machine), or if each has ranks; and if no rank or process is in
// two of them, and neither jobs nor numbers of ranks differ. InvalidArgument: they don't; why, and what to do.
absl::Status CheckOneJob(const RunFiles& files);

// Of a run that was read. InvalidArgument: of traces of other tools, which have one clock, some are not of different ranks of
// one job, or are of different days (of different times: an oddity). OutOfRange: no two folders' processes lived at the same
// time, so each is a run of its own: a script's runs one after another have the same process group.
absl::Status CheckProcesses(TraceModel* model);

// Of paths that may be runs or parts of runs: what belongs together, in the order given. Parts have ranks of one job, each
// once; what only has a launch in common (a script's, one after another) are runs of their own.
std::vector<std::vector<std::string>> RunsAmong(const std::vector<std::string>& paths);

}  // namespace dlhook::analyzer::reader
