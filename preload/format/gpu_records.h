// Records of GPU activities, of the calls that requested them, and of the source of their times: see record.h.
#pragma once

#include "preload/format/record.h"

namespace dlhook::inline format {

using GpuActivityKind = fields::GpuActivityBatch::Kind;
using GpuTimeSource = fields::GpuTimeSource;

// A GPU activity. Times in nanoseconds of CLOCK_REALTIME; 0: not known.
struct GpuActivityRecord {
  RecordHeader header;
  uint64_t start_ns;
  uint64_t end_ns;
  uint64_t bytes;        // of copies and memsets
  uint64_t graph_node;   // CUPTI's id of the node of an executable graph, 0: none
  uint64_t sequence;     // of the call, if the source knows it (events), 0: by correlation
  uint32_t thread_id;    // of that call
  uint32_t correlation;  // CUPTI's
  uint32_t kernel;       // its name: a definition (kKernel), 0: none
  uint32_t graph;        // CUPTI's id of the executable graph, 0: none
  uint32_t device;       // CUDA's ordinal in this process
  uint32_t stream;       // CUPTI's id; for events: our own number
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t static_shared_bytes;
  uint32_t dynamic_shared_bytes;
  uint16_t registers_per_thread;
  GpuActivityKind kind;
  GpuTimeSource source;
  CopyDirection direction;
  HostMemory host_memory;
  uint8_t reserved[2];
};
static_assert(sizeof(GpuActivityRecord) == 112);

// GPU work with this correlation id was requested by that call. Ids are unique within the process, but may recur after
// CUPTI was handed to the application: the last link before the work counts.
struct GpuLinkRecord {
  RecordHeader header;
  uint64_t ticks;
  uint64_t sequence;  // of the innermost open recorded call, 0: none
  uint32_t correlation;
  uint32_t thread_id;  // the call's thread; 0: the thread of this ring
};
static_assert(sizeof(GpuLinkRecord) == 32);

// A new node in a CUDA graph: created by a call (under capture or by cudnnBackendPopulateCudaGraph), or as a copy of
// another node when the graph was cloned or instantiated.
struct GpuGraphNodeRecord {
  RecordHeader header;
  uint64_t ticks;
  uint64_t node;
  uint64_t original;  // 0: created by the call
  uint64_t sequence;  // of the innermost open recorded call on this thread, 0: none
};

// A device, sent once known. Followed by `name_bytes` of its name. 0: not known.
struct GpuDeviceRecord {
  RecordHeader header;
  uint64_t memory_bytes_per_second;  // peak of its own memory
  uint64_t link_bytes_per_second;    // peak of its link to the host, in one direction
  uint64_t memory_bytes;
  uint8_t uuid[16];
  uint32_t ordinal;  // CUDA's in this process
  uint32_t multiprocessors;
  uint32_t clock_khz;
  uint32_t compute_capability;  // major * 10 + minor
  uint32_t link_generation;     // of PCIe; 0: another link, or not known
  uint32_t link_width;          // lanes
  uint32_t is_partition;        // 1: an instance of a partitioned GPU (MIG)
  uint32_t name_bytes;
};

// From now on GPU times come from this source; kNone: from none. Followed by `text_bytes` of the reason.
struct GpuWindowRecord {
  RecordHeader header;
  uint64_t ticks;
  GpuTimeSource source;
  uint8_t reserved[3];
  uint32_t text_bytes;
};

}  // namespace dlhook::inline format
