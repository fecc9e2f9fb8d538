// GPU work through the drain: a reader decodes the rings' contents by proto/call.proto's rules, in the bytes that
// libprotobuf would write; even after the dictionaries were reset, beyond the limit, and from hostile rings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "preload/drain/drain.h"
#include "preload/format/gpu_records.h"
#include "tests/preload/session_fixture.h"

namespace dlhook {
namespace drain_gpu_test {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr uint64_t kRingBytes = 65536;
constexpr uint64_t kDefinitionsRoom = 65536;
constexpr uint64_t kNow = 1795272000123456789;  // CLOCK_REALTIME
constexpr char kKernelName[] = "_Z4axpyifPKfPf";

// Any record, followed by its text.
template <typename Record>
bool Put(RingProducer* ring, RecordType type, Record record, const std::string& text = "") {
  const auto words = static_cast<uint16_t>((sizeof record + text.size() + 7) / 8);
  RecordHeader* space = ring->Reserve(words);
  if (space == nullptr) space = ring->ReserveAfterLook(words);
  if (space == nullptr) return false;
  record.header = {words, type, 0, 0, 0, 0};
  memcpy(static_cast<void*>(space), &record, sizeof record);
  memcpy(reinterpret_cast<char*>(space) + sizeof record, text.data(), text.size());
  ring->Commit(space);
  return true;
}

bool PutActivity(RingProducer* ring, const GpuActivityRecord& activity) {
  return Put(ring, RecordType::kGpuActivity, activity);
}
bool PutLink(RingProducer* ring, uint64_t ticks, uint64_t sequence, uint32_t correlation, uint32_t thread_id = 0) {
  return Put(ring, RecordType::kGpuLink, GpuLinkRecord{{}, ticks, sequence, correlation, thread_id});
}
bool PutNode(RingProducer* ring, uint64_t ticks, uint64_t node, uint64_t original, uint64_t sequence) {
  return Put(ring, RecordType::kGpuGraphNode, GpuGraphNodeRecord{{}, ticks, node, original, sequence});
}
bool PutWindow(RingProducer* ring, uint64_t ticks, GpuTimeSource source, const std::string& reason) {
  return Put(ring, RecordType::kGpuWindow, GpuWindowRecord{{}, ticks, source, {}, static_cast<uint32_t>(reason.size())},
             reason);
}

GpuActivityRecord Kernel(uint32_t name, uint64_t start_ns, uint64_t duration_ns, uint32_t correlation) {
  GpuActivityRecord kernel = {};
  kernel.start_ns = start_ns;
  kernel.end_ns = start_ns + duration_ns;
  kernel.correlation = correlation;
  kernel.kernel = name;
  kernel.stream = 7;
  for (uint32_t i = 0; i < 3; ++i) kernel.grid[i] = 10 + i;
  for (uint32_t i = 0; i < 3; ++i) kernel.block[i] = 20 + i;
  kernel.registers_per_thread = 40;
  kernel.static_shared_bytes = 512;
  kernel.dynamic_shared_bytes = 16384;
  kernel.kind = GpuActivityKind::kKernel;
  kernel.source = GpuTimeSource::kCupti;
  return kernel;
}

GpuActivityRecord CopyToDevice(uint64_t start_ns, uint64_t duration_ns, uint32_t correlation, uint64_t bytes) {
  GpuActivityRecord copy = Kernel(0, start_ns, duration_ns, correlation);
  copy.kind = GpuActivityKind::kCopy;
  copy.bytes = bytes;
  copy.direction = CopyDirection::kHostToDevice;
  copy.host_memory = HostMemory::kPinned;
  return copy;
}

uint64_t At(const google::protobuf::RepeatedField<uint64_t>& column, int i) {
  return column.empty() ? 0 : column.Get(i);
}
uint32_t At(const google::protobuf::RepeatedField<uint32_t>& column, int i) {
  return column.empty() ? 0 : column.Get(i);
}

// One line per activity: "SOURCE KIND device/context/stream start+duration #correlation", then optional fields.
std::vector<std::string> Activities(const trace::Trace& trace) {
  std::map<uint32_t, std::string> strings, kernels;
  std::vector<std::string> lines;
  const auto add = [](const char* word, uint64_t value, std::string* line) {
    if (value != 0) *line += std::string(" ") + word + std::to_string(value);
  };
  for (const trace::Packet& packet : trace.packet()) {
    if (packet.has_reset()) strings.clear(), kernels.clear();
    for (const trace::InternedString& string : packet.interned().string()) strings[string.iid()] = string.value();
    for (const trace::InternedGpuKernel& kernel : packet.interned().gpu_kernel()) {
      const std::string name = kernel.name_iid() == 0 ? "?" : strings.at(kernel.name_iid());
      kernels[kernel.iid()] =
          name + "<" + std::to_string(kernel.grid_x()) + "," + std::to_string(kernel.block_z()) + ">";
    }
    const trace::GpuActivityBatch& batch = packet.gpu_activity();
    uint64_t start = batch.base_start_ns();
    int64_t correlation = 0;
    for (int i = 0; i < batch.kind_size(); ++i) {
      start += static_cast<uint64_t>(batch.start_delta_ns(i));
      correlation += batch.correlation_delta(i);
      std::string line = trace::GpuTimeSource_Name(batch.source()).substr(9) + " " +
                         trace::GpuActivityBatch::Kind_Name(batch.kind(i)) + " " + std::to_string(batch.device(i)) +
                         "/" + std::to_string(batch.stream(i)) + " " + std::to_string(start - kNow) + "+" +
                         std::to_string(batch.duration_ns(i)) + " #" + std::to_string(correlation);
      if (batch.kernel_iid(i) != 0) line += " " + kernels.at(batch.kernel_iid(i));
      add("bytes ", At(batch.bytes(), i), &line);
      add("direction ", At(batch.direction(), i), &line);
      add("memory ", At(batch.host_memory(), i), &line);
      add("node ", At(batch.graph_node(), i), &line);
      add("graph ", At(batch.graph(), i), &line);
      add("thread ", At(batch.thread_id(), i), &line);
      add("sequence ", At(batch.sequence(), i), &line);
      lines.push_back(line);
    }
  }
  return lines;
}

// "thread: ticks #correlation of sequence"
std::vector<std::string> Links(const trace::Trace& trace) {
  std::vector<std::string> lines;
  for (const trace::Packet& packet : trace.packet()) {
    const trace::GpuLinkBatch& batch = packet.gpu_link();
    int64_t ticks = 0, correlation = 0, sequence = 0;
    for (int i = 0; i < batch.tick_delta_size(); ++i) {
      ticks += batch.tick_delta(i);
      correlation += batch.correlation_delta(i);
      sequence += batch.sequence_delta(i);
      lines.push_back(std::to_string(batch.thread_id()) + ": " + std::to_string(ticks) + " #" +
                      std::to_string(correlation) + " of " + std::to_string(sequence));
    }
  }
  return lines;
}

std::vector<std::string> Nodes(const trace::Trace& trace) {
  std::vector<std::string> lines;
  for (const trace::Packet& packet : trace.packet()) {
    const trace::GpuGraphNodeBatch& batch = packet.gpu_graph_node();
    uint64_t ticks = 0, node = 0, sequence = 0;
    for (int i = 0; i < batch.tick_delta_size(); ++i) {
      ticks += static_cast<uint64_t>(batch.tick_delta(i));
      node += static_cast<uint64_t>(batch.node_delta(i));
      sequence += static_cast<uint64_t>(batch.sequence_delta(i));
      lines.push_back(std::to_string(batch.thread_id()) + ": " + std::to_string(ticks) + " " + std::to_string(node) +
                      " from " + std::to_string(batch.original(i)) + " by " + std::to_string(sequence));
    }
  }
  return lines;
}

std::vector<std::string> Windows(const trace::Trace& trace) {
  std::vector<std::string> lines;
  for (const trace::Packet& packet : trace.packet()) {
    if (!packet.has_gpu_window()) continue;
    const trace::GpuWindow& window = packet.gpu_window();
    lines.push_back(std::to_string(window.ticks()) + " " + trace::GpuTimeSource_Name(window.source()) + " " +
                    window.reason());
  }
  return lines;
}

std::map<std::string, uint64_t> Losses(const trace::Trace& trace) {
  std::map<std::string, uint64_t> losses;
  for (const trace::Packet& packet : trace.packet()) {
    const trace::Loss& loss = packet.loss();
    if (packet.has_loss()) losses[trace::Loss::Reason_Name(loss.reason()) + " " + loss.detail()] += loss.calls();
  }
  return losses;
}

TEST(DrainGpuTest, ActivitiesComeOutAsTheyWentIn) {
  TestSession session(kRingBytes, 2, kDefinitionsRoom);
  const uint32_t name = session.PutDefinition(DefinitionKind::kKernel, kKernelName);
  RingProducer ring = session.Producer(0);
  PutThread(&ring, 1, "dlhook-gpu");
  PutActivity(&ring, Kernel(name, kNow, 4000, 120));
  PutActivity(&ring, Kernel(name, kNow + 5000, 10, 121));
  PutActivity(&ring, CopyToDevice(kNow - 7000, 1800, 119, 65536));  // reported late
  GpuActivityRecord peer = CopyToDevice(kNow + 9000, 5, uint32_t{1} << 31, uint64_t{1} << 40);
  peer.device = 1;
  peer.graph_node = (uint64_t{3} << 32) | 5;
  peer.graph = 3;
  PutActivity(&ring, peer);
  GpuActivityRecord timed = Kernel(0, kNow + 10000, 500, 0);
  timed.kind = GpuActivityKind::kOp;
  timed.source = GpuTimeSource::kEvents;
  timed.thread_id = 2;
  timed.sequence = 77;
  PutActivity(&ring, timed);
  const std::string bytes = DrainAll(&session);
  const trace::Trace trace = ParseTrace(bytes);
  EXPECT_THAT(Activities(trace),
              ElementsAre("CUPTI KERNEL 0/7 0+4000 #120 _Z4axpyifPKfPf<10,22>",
                          "CUPTI KERNEL 0/7 5000+10 #121 _Z4axpyifPKfPf<10,22>",
                          "CUPTI COPY 0/7 18446744073709544616+1800 #119 bytes 65536 direction 1 memory 3",
                          "CUPTI COPY 1/7 9000+5 #2147483648 bytes 1099511627776 direction 1 memory 3 node "
                          "12884901893 graph 3",
                          "EVENTS OP 0/7 10000+500 #0 thread 2 sequence 77"));
  EXPECT_EQ(trace.ByteSizeLong(), bytes.size()) << "as short as libprotobuf writes it";
  const auto& kernels = trace.packet(4).interned().gpu_kernel();
  ASSERT_EQ(kernels.size(), 1) << "one kernel, launched twice";
  EXPECT_EQ(kernels[0].registers_per_thread(), 40u);
  EXPECT_EQ(kernels[0].static_shared_bytes(), 512u);
  EXPECT_EQ(kernels[0].dynamic_shared_bytes(), 16384u);
  EXPECT_EQ(kernels[0].grid_z(), 12u);
}

TEST(DrainGpuTest, LinksAndNodesComeOutByThread) {
  TestSession session(kRingBytes, 2, kDefinitionsRoom);
  RingProducer first = session.Producer(0), second = session.Producer(1);
  PutThread(&first, 1, "main");
  PutThread(&second, 2, "dlhook-gpu");
  PutLink(&first, 1000, 5, 100);
  PutNode(&first, 1100, (uint64_t{3} << 32) | 1, 0, 6);
  PutLink(&first, 2000, 0, 101);
  PutNode(&first, 1200, (uint64_t{4} << 32) | 1, (uint64_t{3} << 32) | 1, 0);
  PutLink(&second, 10, 1, 7, 1);  // for other threads' calls
  PutLink(&second, 20, 2, 8, 3);
  PutLink(&second, 30, 3, 9, 1);
  PutLink(&second, 40, 4, 6, 0);
  const std::string bytes = DrainAll(&session);
  const trace::Trace trace = ParseTrace(bytes);
  EXPECT_THAT(Links(trace), ElementsAre("1: 1000 #100 of 5", "1: 2000 #101 of 0", "1: 10 #7 of 1", "1: 30 #9 of 3",
                                        "3: 20 #8 of 2", "2: 40 #6 of 4"));
  EXPECT_THAT(Nodes(trace),
              ElementsAre("1: 1100 12884901889 from 0 by 6", "1: 1200 17179869185 from 12884901889 by 0"));
  EXPECT_EQ(trace.ByteSizeLong(), bytes.size()) << "as short as libprotobuf writes it";
}

TEST(DrainGpuTest, DevicesAndWindows) {
  TestSession session(kRingBytes, 1, kDefinitionsRoom);
  RingProducer ring = session.Producer(0);
  PutThread(&ring, 1, "main");
  GpuDeviceRecord device = {};
  device.memory_bytes_per_second = 4800000000000;
  device.link_bytes_per_second = 63015384615;
  device.memory_bytes = uint64_t{141} << 30;
  for (uint8_t i = 0; i < sizeof device.uuid; ++i) device.uuid[i] = i;
  device.ordinal = 1;
  device.multiprocessors = 132;
  device.clock_khz = 1980000;
  device.compute_capability = 90;
  device.link_generation = 5;
  device.link_width = 16;
  device.is_partition = 7;
  const std::string name = "NVIDIA H200";
  device.name_bytes = static_cast<uint32_t>(name.size());
  Put(&ring, RecordType::kGpuDevice, device, name);
  Put(&ring, RecordType::kGpuDevice, GpuDeviceRecord{});
  PutWindow(&ring, 500, GpuTimeSource::kCupti, "");
  PutWindow(&ring, 900, GpuTimeSource::kNone, "the program uses CUPTI itself");
  const std::string bytes = DrainAll(&session);
  const trace::Trace trace = ParseTrace(bytes);
  EXPECT_EQ(trace.ByteSizeLong(), bytes.size()) << "as short as libprotobuf writes it";
  EXPECT_THAT(Windows(trace), ElementsAre("500 GPU_TIME_CUPTI ", "900 GPU_TIME_NONE the program uses CUPTI itself"));
  std::vector<std::string> devices;
  for (const trace::Packet& packet : trace.packet()) {
    if (packet.has_gpu_device()) devices.push_back(packet.gpu_device().ShortDebugString());
  }
  EXPECT_THAT(devices,
              ElementsAre("ordinal: 1 name: \"NVIDIA H200\" "
                          "uuid: \"\\000\\001\\002\\003\\004\\005\\006\\007\\010\\t\\n\\013\\014\\r\\016\\017\" "
                          "multiprocessors: 132 clock_khz: 1980000 compute_capability: 90 memory_bytes: 151397597184 "
                          "memory_bytes_per_second: 4800000000000 link_bytes_per_second: 63015384615 "
                          "link_generation: 5 link_width: 16 is_partition: true",
                          ""));
}

TEST(DrainGpuTest, BadRecordsSayAsMuchAsTheyCan) {
  TestSession session(kRingBytes, 2, kDefinitionsRoom);
  RingProducer ring = session.Producer(0), nobody = session.Producer(1);
  PutThread(&ring, 1, "main");
  GpuActivityRecord odd = Kernel(4711, kNow, 0, 1);  // no such definition
  odd.end_ns = kNow - 1;
  odd.source = static_cast<GpuTimeSource>(9);
  PutActivity(&ring, odd);
  odd.kind = static_cast<GpuActivityKind>(200);
  odd.direction = static_cast<CopyDirection>(200);
  odd.host_memory = static_cast<HostMemory>(200);
  PutActivity(&ring, odd);
  PutLink(&nobody, 1, 1, 1);
  PutNode(&nobody, 1, 1, 0, 1);
  Put(&ring, RecordType::kGpuWindow, GpuWindowRecord{{}, 1, GpuTimeSource::kCupti, {}, 100}, "short");
  GpuDeviceRecord device = {};
  device.name_bytes = 100;
  Put(&ring, RecordType::kGpuDevice, device, "short");
  const std::string bytes = DrainAll(&session);
  const trace::Trace trace = ParseTrace(bytes);
  EXPECT_THAT(Activities(trace), ElementsAre("NONE KERNEL 0/7 0+0 #1 ?<10,22>", "NONE UNKNOWN 0/7 0+0 #1"));
  EXPECT_THAT(Links(trace), SizeIs(0));
  EXPECT_THAT(Nodes(trace), SizeIs(0));
  EXPECT_THAT(Windows(trace), SizeIs(0));
  for (const trace::Packet& packet : trace.packet()) EXPECT_FALSE(packet.has_gpu_device());
}

TEST(DrainGpuTest, BeyondTheLimitAllIsCountedAndTheTraceSaysFromWhenOn) {
  TestSession session(kRingBytes, 1, kDefinitionsRoom);
  session.header()->trace_bytes_limit = 1;
  session.header()->gpu_dropped_cupti = 4;
  session.header()->gpu_dropped_ring = 5;
  RingProducer ring = session.Producer(0);
  PutThread(&ring, 1, "main");
  PutGemm(&ring, {.end_ticks = 8000});
  PutActivity(&ring, Kernel(0, kNow, 1, 1));
  PutLink(&ring, 1, 1, 1);
  PutNode(&ring, 1, 1, 0, 1);
  PutWindow(&ring, 9000, GpuTimeSource::kCupti, "");
  const trace::Trace trace = ParseTrace(DrainAll(&session));
  EXPECT_THAT(Activities(trace), SizeIs(0));
  EXPECT_THAT(Links(trace), SizeIs(0));
  EXPECT_THAT(Nodes(trace), SizeIs(0));
  EXPECT_THAT(Windows(trace), ElementsAre("8000 GPU_TIME_NONE the trace has reached its limit",
                                          "9000 GPU_TIME_NONE the trace has reached its limit"));
  EXPECT_THAT(Losses(trace), ElementsAre(Pair("GPU_BUFFERS_FULL ", 4u), Pair("GPU_RECORDS_DROPPED ring full", 5u),
                                         Pair("GPU_RECORDS_DROPPED trace at its limit", 3u)));
}

// Every activity once, whichever drain took it, and its kernel defined again by each; losses are reported once.
TEST(DrainGpuTest, AnotherDrainTakesOver) {
  TestSession session(kRingBytes, 1, kDefinitionsRoom);
  const uint32_t name = session.PutDefinition(DefinitionKind::kKernel, kKernelName);
  RingProducer ring = session.Producer(0);
  PutThread(&ring, 1, "main");
  session.header()->gpu_dropped_ring = 5;
  MemorySink first_sink, second_sink;
  Drain first, second;
  ASSERT_TRUE(first.Open(session.header(), session.bytes(), &first_sink));
  PutActivity(&ring, Kernel(name, kNow, 1, 1));
  PutLink(&ring, 10, 1, 1);
  first.Finish(ProcessEnd::kUnknown, false);  // also reports losses
  ASSERT_TRUE(second.Open(session.header(), session.bytes(), &second_sink));
  PutActivity(&ring, Kernel(name, kNow + 5, 1, 2));
  PutLink(&ring, 20, 2, 2);
  second.Finish(ProcessEnd::kVanished, false);
  const trace::Trace trace = ParseTrace(std::string(first_sink.buffer().data(), first_sink.buffer().size()) +
                                        std::string(second_sink.buffer().data(), second_sink.buffer().size()));
  EXPECT_THAT(Activities(trace), ElementsAre("CUPTI KERNEL 0/7 0+1 #1 _Z4axpyifPKfPf<10,22>",
                                             "CUPTI KERNEL 0/7 5+1 #2 _Z4axpyifPKfPf<10,22>"));
  EXPECT_THAT(Links(trace), ElementsAre("1: 10 #1 of 1", "1: 20 #2 of 2"));
  EXPECT_THAT(Losses(trace), ElementsAre(Pair("GPU_RECORDS_DROPPED ring full", 5u)));
}

// More kernels than the dictionary's capacity, and more links, nodes and activities than a packet's.
TEST(DrainGpuTest, ManyKernelsStartTheDictionaryOver) {
  constexpr uint32_t kKernels = 20000;
  TestSession session(kRingBytes, 1, kDefinitionsRoom);
  const uint32_t name = session.PutDefinition(DefinitionKind::kKernel, kKernelName);
  RingProducer ring = session.Producer(0);
  PutThread(&ring, 1, "main");
  MemorySink sink;
  Drain drain;
  ASSERT_TRUE(drain.Open(session.header(), session.bytes(), &sink));
  for (uint32_t i = 0; i < kKernels; ++i) {
    GpuActivityRecord kernel = Kernel(name, kNow + i, 1, i);
    kernel.grid[0] = i;
    ASSERT_TRUE(PutActivity(&ring, kernel) && PutLink(&ring, i, i, i) && PutNode(&ring, i, i, 0, i));
    if (i % 100 == 0) drain.Step(true, false);
  }
  drain.Finish(ProcessEnd::kVanished, false);
  const std::string bytes(sink.buffer().data(), sink.buffer().size());
  const trace::Trace trace = ParseTrace(bytes);
  int resets = 0;
  for (const trace::Packet& packet : trace.packet()) resets += packet.has_reset() ? 1 : 0;
  EXPECT_EQ(resets, 1);
  const std::vector<std::string> activities = Activities(trace), links = Links(trace);
  ASSERT_THAT(activities, SizeIs(kKernels));
  EXPECT_EQ(activities[kKernels - 1], "CUPTI KERNEL 0/7 19999+1 #19999 _Z4axpyifPKfPf<19999,22>");
  ASSERT_THAT(links, SizeIs(kKernels));
  EXPECT_EQ(links[kKernels - 1], "1: 19999 #19999 of 19999");
  EXPECT_THAT(Nodes(trace), SizeIs(kKernels));
  EXPECT_EQ(trace.ByteSizeLong(), bytes.size()) << "as short as libprotobuf writes it";
}

// Whatever rings and definitions contain, the result is a trace that can be parsed (run it under ASan).
TEST(DrainGpuTest, SurvivesRandomRingsAndDefinitions) {
  std::mt19937_64 random(20261122);
  for (int round = 0; round < 300; ++round) {
    TestSession session(16384, 1, kDefinitionsRoom);
    const uint32_t name = session.PutDefinition(DefinitionKind::kKernel, kKernelName);
    RingProducer ring = session.Producer(0);
    PutThread(&ring, 1, "main");
    for (uint32_t i = 0; i < 5; ++i) {
      PutActivity(&ring, Kernel(name, kNow + i, i, i));
      PutLink(&ring, i, i, i);
      PutNode(&ring, i, i, i / 2, i);
      PutWindow(&ring, i, GpuTimeSource::kCupti, "why");
      GpuDeviceRecord device = {};
      device.name_bytes = 4;
      Put(&ring, RecordType::kGpuDevice, device, "fake");
    }
    char* bytes = reinterpret_cast<char*>(session.header());
    const uint64_t start = session.header()->slots[0].data_offset;
    for (int i = 0; i < 20; ++i) bytes[start + random() % 1500] = static_cast<char>(random());
    for (int i = 0; i < 4; ++i) bytes[kSessionDataStart + random() % 16] = static_cast<char>(random());
    trace::Trace trace;
    ASSERT_TRUE(trace.ParseFromString(DrainAll(&session))) << "round " << round;
  }
}

}  // namespace drain_gpu_test
}  // namespace dlhook
