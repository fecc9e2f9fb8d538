// What one process trace says of allocations -> model.memory.
#ifndef DLHOOK_ANALYZER_READER_MEMORY_BUILDER_H_
#define DLHOOK_ANALYZER_READER_MEMORY_BUILDER_H_

#include <cstdint>
#include <map>
#include <vector>

#include "analyzer/model/oddities.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/reader/clock_map.h"
#include "proto/call.pb.h"

namespace dlhook::analyzer::inline reader {

class MemoryBuilder {
 public:
  void Add(const trace::MemoryBatch& batch, Oddities* oddities);

  // Appends them to the model, which must have the threads' scopes. `threads`: by id in the trace.
  void Finish(const ClockMap& clock, const std::map<uint32_t, ThreadIndex>& threads, TraceModel* model);

 private:
  uint64_t all_bytes_ = 0;
  std::vector<MemoryEvent> events_;  // with ticks for times, and ids in the trace for threads
};

}  // namespace dlhook::analyzer::reader

#endif  // DLHOOK_ANALYZER_READER_MEMORY_BUILDER_H_
