// See gpu_trace.h.
#include "tests/analyzer/gpu_trace.h"

#include <google/protobuf/text_format.h>

#include "absl/strings/str_cat.h"

namespace dlhook::analyzer {
namespace {

std::string TextOf(const trace::Packet& packet) {
  trace::Trace trace;
  *trace.add_packet() = packet;
  std::string text;
  google::protobuf::TextFormat::PrintToString(trace, &text);
  return text;
}

// Like the writer, drops optional columns in which all elements are 0.
void DropZeroColumns(trace::GpuActivityBatch* batch) {
  const auto drop = [](auto* column) {
    for (auto value : *column) {
      if (value != 0) return;
    }
    column->Clear();
  };
  drop(batch->mutable_bytes());
  drop(batch->mutable_direction());
  drop(batch->mutable_host_memory());
  drop(batch->mutable_graph_node());
  drop(batch->mutable_graph());
  drop(batch->mutable_thread_id());
  drop(batch->mutable_sequence());
}

void AddActivity(const TestActivity& activity, const TestActivity& previous, trace::GpuActivityBatch* batch) {
  batch->add_kind(activity.kind);
  batch->add_device(activity.device);
  batch->add_stream(activity.stream);
  batch->add_start_delta_ns(activity.start_ns - previous.start_ns);
  batch->add_duration_ns(activity.duration_ns);
  batch->add_correlation_delta(int64_t{activity.correlation} - int64_t{previous.correlation});
  batch->add_kernel_iid(activity.kernel_iid);
  batch->add_bytes(activity.bytes);
  batch->add_direction(activity.direction);
  batch->add_host_memory(activity.host_memory);
  batch->add_graph_node(activity.graph_node);
  batch->add_graph(activity.graph);
  batch->add_thread_id(activity.thread_id);
  batch->add_sequence(activity.sequence);
}

}  // namespace

std::string GpuClockText() {
  return absl::StrCat("packet { clock_sample { ticks: 1 monotonic_ns: 1 realtime_ns: ", kTestRealtimeOffsetNs + 1,
                      " } }\n");
}

std::string GpuActivityText(const std::vector<TestActivity>& activities, trace::GpuTimeSource source) {
  trace::Packet packet;
  trace::GpuActivityBatch* batch = packet.mutable_gpu_activity();
  batch->set_source(source);
  batch->set_base_start_ns(kTestRealtimeOffsetNs);
  TestActivity previous;
  for (const TestActivity& activity : activities) {
    AddActivity(activity, previous, batch);
    previous = activity;
  }
  DropZeroColumns(batch);
  return TextOf(packet);
}

std::string GpuKernelText(uint32_t iid, const std::string& mangled_name) {
  constexpr uint32_t kFirstNameIid = 5000;  // not used by names that a test defines itself
  trace::Packet packet;
  trace::InternedString* name = packet.mutable_interned()->add_string();
  name->set_iid(kFirstNameIid + iid);
  name->set_value(mangled_name);
  trace::InternedGpuKernel* kernel = packet.mutable_interned()->add_gpu_kernel();
  kernel->set_iid(iid);
  kernel->set_name_iid(kFirstNameIid + iid);
  kernel->set_grid_x(8);
  kernel->set_grid_y(1);
  kernel->set_grid_z(1);
  kernel->set_block_x(256);
  kernel->set_block_y(1);
  kernel->set_block_z(1);
  return TextOf(packet);
}

std::string GpuLinkText(uint32_t thread_id, const std::vector<TestLink>& links) {
  trace::Packet packet;
  trace::GpuLinkBatch* batch = packet.mutable_gpu_link();
  batch->set_thread_id(thread_id);
  TestLink previous;
  for (const TestLink& link : links) {
    batch->add_tick_delta(link.ticks - previous.ticks);
    batch->add_correlation_delta(int64_t{link.correlation} - int64_t{previous.correlation});
    batch->add_sequence_delta(static_cast<int64_t>(link.sequence - previous.sequence));
    previous = link;
  }
  return TextOf(packet);
}

std::string GpuGraphNodeText(uint32_t thread_id, const std::vector<TestGraphNode>& nodes) {
  trace::Packet packet;
  trace::GpuGraphNodeBatch* batch = packet.mutable_gpu_graph_node();
  batch->set_thread_id(thread_id);
  TestGraphNode previous;
  for (const TestGraphNode& node : nodes) {
    batch->add_tick_delta(node.ticks - previous.ticks);
    batch->add_node_delta(static_cast<int64_t>(node.node - previous.node));
    batch->add_original(node.original);
    batch->add_sequence_delta(static_cast<int64_t>(node.sequence - previous.sequence));
    previous = node;
  }
  return TextOf(packet);
}

std::string GpuWindowText(int64_t ticks, trace::GpuTimeSource source, const std::string& reason) {
  trace::Packet packet;
  packet.mutable_gpu_window()->set_ticks(static_cast<uint64_t>(ticks));
  packet.mutable_gpu_window()->set_source(source);
  packet.mutable_gpu_window()->set_reason(reason);
  return TextOf(packet);
}

}  // namespace dlhook::analyzer
