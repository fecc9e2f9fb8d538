// GPU packets for traces of tests, as textproto; placed after HeaderText() and GpuClockText().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/trace.pb.h"

namespace dlhook::analyzer {

// The offset of CLOCK_REALTIME from CLOCK_MONOTONIC in GpuClockText's clock sample. GpuActivityText adds it, so that
// its times are the model's.
constexpr int64_t kTestRealtimeOffsetNs = 1'700'000'000'000'000'000;
std::string GpuClockText();

// An element of trace::GpuActivityBatch. Joined with its call by a link with its correlation (GpuLinkText), or by
// thread_id and sequence.
struct TestActivity {
  trace::GpuActivityBatch::Kind kind = trace::GpuActivityBatch::KERNEL;
  int64_t start_ns = 0;  // on the model's axis
  int64_t duration_ns = 0;
  uint32_t correlation = 0;
  uint32_t kernel_iid = 0;
  uint32_t device = 0;
  uint32_t stream = 7;
  uint64_t bytes = 0;
  trace::Copy::Direction direction = trace::Copy::DIRECTION_UNKNOWN;
  trace::Copy::HostMemory host_memory = trace::Copy::NONE;
  uint64_t graph_node = 0;
  uint32_t graph = 0;
  uint32_t thread_id = 0;
  uint64_t sequence = 0;
};
std::string GpuActivityText(const std::vector<TestActivity>& activities,
                            trace::GpuTimeSource source = trace::GPU_TIME_CUPTI);

// Kernel `iid` with this name, launched as 8 blocks of 256 threads.
std::string GpuKernelText(uint32_t iid, const std::string& mangled_name);

struct TestLink {
  uint32_t correlation = 0;
  uint64_t sequence = 0;  // 0: no recorded call was open
  int64_t ticks = 0;
};
std::string GpuLinkText(uint32_t thread_id, const std::vector<TestLink>& links);

struct TestGraphNode {
  uint64_t node = 0;
  uint64_t original = 0;  // 0: created by the call
  uint64_t sequence = 0;
  int64_t ticks = 0;
};
std::string GpuGraphNodeText(uint32_t thread_id, const std::vector<TestGraphNode>& nodes);

std::string GpuWindowText(int64_t ticks, trace::GpuTimeSource source, const std::string& reason = "");

}  // namespace dlhook::analyzer
